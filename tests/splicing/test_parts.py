"""Groups divided among several tasks are spliced too: only files that two tasks share are encoded again."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.divided_tasks import (
    EVOLVED,
    assert_same,
    divided_task,
    groups_of_files,
    made_plain,
    run_divided,
    write_groups,
)
from tests.builders.page_offsets import check_offsets
from tests.builders.splice_tasks import small_files_count
from tests.builders.tasks import run, write_file


@settings(max_examples=25, deadline=None)
@given(
    files=groups_of_files(),
    parts=st.integers(2, 4),
    target=st.sampled_from([1, 2_000, 1 << 20]),
    lineage=st.booleans(),
)
def test_a_group_that_is_divided_and_spliced_is_the_same_as_one_that_is_neither(
    files: list[list[int]], parts: int, target: int, lineage: bool
) -> None:
    """Cuts may be between files, between row groups or inside them, and a task may read no row of a file."""
    with tempfile.TemporaryDirectory() as name, small_files_count(judged=2):
        directory = Path(name)
        inputs, first = [], 0
        for number, row_groups in enumerate(files):
            about = {"sequence_number": 1 + number, "first_row_id": 1_000 + 3 * first if lineage else None}
            inputs.append(made_plain(write_groups(directory / f"in-{number}.parquet", row_groups, first, **about)))
            first += sum(row_groups)
        task = divided_task(inputs, directory / "divided", parts=parts, target=target, lineage=lineage)
        alone = run(replace(task, output_directory=str(directory / "alone"), parts=1, splices=False))
        whole = run_divided(task)
        event(f"spliced: {whole.bytes_spliced > 0}")
        if any(0 in row_groups for row_groups in files):  # which tell nothing, and here nobody asks them
            whole = replace(whole, input_facts=alone.input_facts)
        assert_same(whole, alone)
        for identifier, found in whole.output_facts.items():
            expected = alone.output_facts[identifier]
            assert (found.values, found.nulls) == (expected.values, expected.nulls)
            # A part with nothing but NaN has no bounds.
            assert (found.lower, found.upper) in ((None, None), (expected.lower, expected.upper))
        for output in whole.outputs:
            check_offsets(Path(output.path))


def test_only_files_that_tasks_share_are_encoded_again(tmp_path: Path) -> None:
    inputs = [
        made_plain(write_groups(tmp_path / f"in-{n}.parquet", [1_000], n * 1_000, sequence_number=n)) for n in range(5)
    ]
    with small_files_count(judged=2):
        cut_inside = run_divided(divided_task(inputs, tmp_path / "inside", parts=2, target=1))
        # With some slack the cut is made where a file ends.
        cut_between = run_divided(divided_task(inputs, tmp_path / "between", parts=2, target=1 << 20))
    groups = [pq.read_metadata(file.path).row_group(0) for file in inputs]
    stored = [sum(group.column(n).total_compressed_size for n in range(3)) for group in groups]
    assert cut_between.bytes_spliced == sum(stored)
    assert cut_inside.bytes_spliced == sum(stored) - stored[2]
    for result in (cut_inside, cut_between):
        ids = [number for output in result.outputs for number in pq.read_table(output.path)["id"].to_pylist()]
        assert ids == list(range(5_000))
        assert {Path(output.path).name[19:24] for output in result.outputs} == {"p0000", "p0001"}


def test_rows_of_a_divided_file_keep_their_ids(tmp_path: Path) -> None:
    """They count from the start of the file, not of the share [I8]."""
    inputs = [
        made_plain(write_groups(tmp_path / f"in-{n}.parquet", [1_000], 0, sequence_number=n, first_row_id=n * 5_000))
        for n in range(3)
    ]
    with small_files_count(judged=2):
        result = run_divided(divided_task(inputs, tmp_path / "out", parts=2, target=1, lineage=True))
    assert result.bytes_spliced > 0
    found = pa.concat_tables([pq.read_table(output.path) for output in result.outputs])
    assert found["_row_id"].to_pylist() == [n * 5_000 + row for n in range(3) for row in range(1_000)]


def test_a_task_that_takes_nothing_of_its_first_file_splices_the_others(tmp_path: Path) -> None:
    empty = write_file(tmp_path / "empty.parquet", EVOLVED.empty_table().select(["id", "name", "ratio"]))
    others = [made_plain(write_groups(tmp_path / f"in-{n}.parquet", [300], n * 300)) for n in range(3)]
    task = divided_task([empty, *others], tmp_path / "out", parts=1, target=1 << 20)
    with small_files_count():
        result = run(replace(task, outputs=1))
        assert result.bytes_spliced == 0  # the first file decides here, and tells nothing
        result = run(replace(task, outputs=1, inputs=(*others[:1], empty, *others[1:])))
    assert (result.bytes_spliced > 0, result.rows_written) == (True, 900)
    with small_files_count(judged=2):  # and the next is nearer to the end of an output than to its beginning
        result = run(replace(task, outputs=6, target_bytes=1_000))
    assert (result.bytes_spliced > 0, result.rows_written) == (True, 900)
