"""A sample prefers partitions that queries read, and spreads over the files of each."""

import numpy as np

from tidyberg.model.file_bounds import FileBounds
from tidyberg.planning.workload.sampling import choose_files


def files(partitions: list[int], records: int = 1000) -> FileBounds:
    count = len(partitions)
    numbers = np.array(partitions, np.int64)
    sizes = np.full(count, 10)
    return FileBounds([f"f{one}" for one in range(count)], numbers, sizes, np.full(count, records), {})


def test_all_rows_of_a_small_table_are_taken() -> None:
    found = choose_files(files([0] * 10), np.ones(10))
    assert [(one.file, one.rows) for one in found] == [(number, 1000) for number in range(10)]


def test_rows_are_bounded_and_files_are_at_even_distances() -> None:
    found = choose_files(files([0] * 1000), np.ones(1000), most_rows=6400)
    assert len(found) == 64
    assert sum(one.rows for one in found) == 6400
    steps = np.diff([one.file for one in found])
    assert set(steps.tolist()) <= {15, 16}


def test_partitions_that_queries_read_come_first() -> None:
    partitions = [number // 2 for number in range(1000)]
    reads = np.array([1.0 if 300 <= one < 320 else 0.0 for one in partitions])
    found = choose_files(files(partitions), reads)
    assert len(found) == 256
    assert {partitions[one.file] for one in found[:20]} == set(range(300, 320))


def test_files_without_rows_are_not_read() -> None:
    assert choose_files(files([0, 0], records=0), np.ones(2)) == []
