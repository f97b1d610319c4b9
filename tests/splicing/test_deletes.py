"""Files with deleted rows are encoded again, next to files whose pages are moved."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.delete_files import deletion_vectors, equality_delete, position_delete
from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_readers import rows_by_duckdb
from tests.builders.splice_tasks import (
    NUMBERS,
    assert_alike,
    both,
    large_files,
    numbers,
    rewrite,
    rows_of,
    small_files_count,
)
from tests.builders.tasks import field
from tidyberg.execute.kernel.columns.lineage import ROW_ID_NAME
from tidyberg.model.task import TaskInput

COUNT = 25_000
KEYS = pa.schema([field("id", pa.int64(), 1)])


def chunk_bytes(file: TaskInput, columns: tuple[int, ...]) -> int:
    group = pq.read_metadata(file.path).row_group(0)
    return sum(group.column(index).total_compressed_size for index in columns)


def without(deleted: set[int], files: int) -> list[int]:
    return [number for number in range(files * COUNT) if number not in deleted]


def test_pages_of_files_without_deleted_rows_are_moved(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, files=4)
    gone = [0, 7, 20_000, COUNT - 1]  # among them what held the bounds of the file
    delete = position_delete(tmp_path / "deletes.parquet", [(inputs[1].path, row) for row in gone], 5)
    spliced, encoded = both(inputs, tmp_path, NUMBERS, deletes=(delete,), write={"dictionary": True})
    assert spliced.bytes_spliced == sum(chunk_bytes(inputs[number], (0, 2)) for number in (0, 2, 3))
    assert spliced.rows_deleted == encoded.rows_deleted == len(gone)
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))
    assert rows_of(spliced)["id"].to_pylist() == without({COUNT + row for row in gone}, 4)
    check_offsets(Path(spliced.outputs[0].path))


def test_bounds_are_those_of_surviving_rows(tmp_path: Path) -> None:
    """Spark answers MIN and MAX with them."""
    inputs = large_files(tmp_path, files=4)
    rows = [(inputs[0].path, 0), (inputs[3].path, COUNT - 1)]
    delete = position_delete(tmp_path / "deletes.parquet", rows, 5)
    spliced = rewrite(inputs, tmp_path / "out", NUMBERS, deletes=(delete,))
    assert spliced.bytes_spliced > 0
    bounds = pq.read_metadata(spliced.outputs[0].path).row_group(0).column(0).statistics
    assert (bounds.min, bounds.max) == (1, 4 * COUNT - 2)


def test_a_file_without_surviving_rows_is_skipped(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, files=3)
    (vector,) = deletion_vectors(tmp_path / "vectors.puffin", {inputs[0].path: range(COUNT)}, 5)
    spliced, encoded = both(inputs, tmp_path, NUMBERS, deletes=(vector,))
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert rows_of(spliced)["id"].to_pylist() == list(range(COUNT, 3 * COUNT))


def test_no_pages_are_moved_if_most_rows_are_in_files_with_deletes(tmp_path: Path) -> None:
    inputs = large_files(tmp_path, files=3)
    vectors = deletion_vectors(tmp_path / "vectors.puffin", {inputs[0].path: [1], inputs[1].path: [2]}, 5)
    assert rewrite(inputs, tmp_path / "one", NUMBERS, deletes=tuple(vectors[:1])).bytes_spliced > 0
    result = rewrite(inputs, tmp_path / "both", NUMBERS, deletes=tuple(vectors))
    assert (result.bytes_spliced, result.rows_written) == (0, 3 * COUNT - 2)


def test_pages_are_moved_only_from_files_newer_than_an_equality_delete(tmp_path: Path) -> None:
    """A file counts as losing rows if a delete may apply: only reading it would show whether it does."""
    old, *others = large_files(tmp_path, files=3)
    inputs = [replace(old, sequence_number=1), *(replace(file, sequence_number=9) for file in others)]
    delete = equality_delete(tmp_path / "keys.parquet", KEYS, {"id": [3, COUNT + 3]}, (1,), 5)
    schemas = {(1,): bytes(KEYS.serialize())}
    spliced, encoded = both(inputs, tmp_path, NUMBERS, deletes=(delete,), equality_schemas=schemas)
    assert spliced.bytes_spliced == sum(chunk_bytes(file, (0, 2)) for file in others)
    assert_alike(spliced, encoded)
    assert rows_of(spliced)["id"].to_pylist() == without({3}, 3)
    late = replace(delete, sequence_number=10)
    assert rewrite(inputs, tmp_path / "late", NUMBERS, deletes=(late,), equality_schemas=schemas).bytes_spliced == 0


def test_rows_of_v3_keep_their_ids_where_others_before_them_are_deleted(tmp_path: Path) -> None:
    inputs = [
        replace(file, first_row_id=1_000_000 * number, sequence_number=2)
        for number, file in enumerate(large_files(tmp_path, files=3))
    ]
    vectors = deletion_vectors(tmp_path / "vectors.puffin", {inputs[1].path: [0, 5]}, 5)
    spliced, encoded = both(inputs, tmp_path, NUMBERS, deletes=tuple(vectors), lineage=True)
    assert spliced.bytes_spliced > 0
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))
    assert rows_of(spliced)[ROW_ID_NAME].to_pylist()[COUNT : COUNT + 5] == [1_000_000 + row for row in (1, 2, 3, 4, 6)]


def test_outputs_are_as_even_as_the_surviving_rows_allow(tmp_path: Path) -> None:
    """Files to come are counted without their deleted rows."""
    inputs = large_files(tmp_path, files=12, count=20_000)
    dying = {file.path: range(9_000) for file in inputs[6:]}
    vectors = deletion_vectors(tmp_path / "vectors.puffin", dying, 5)
    with small_files_count():
        result = rewrite(inputs, tmp_path / "out", NUMBERS, deletes=tuple(vectors), outputs=2)
    assert result.bytes_spliced > 0
    first, second = [output.records for output in result.outputs]
    assert first + second == 6 * 20_000 + 6 * 11_000
    assert abs(first - second) <= 20_000  # no file is divided


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 59), unique=True, max_size=60), min_size=5, max_size=5),
    st.sampled_from(["position", "dv"]),
    st.booleans(),
    st.sampled_from([40, 100, 1000]),
)
def test_random_deletes_leave_the_same_rows_spliced_and_encoded(
    deleted: list[list[int]], kind: str, dictionary: bool, row_group_rows: int
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-splice-"))
    options: dict[str, Any] = {"max_rows_per_page": 7, "row_group_size": 25, "use_dictionary": dictionary}
    try:
        inputs = large_files(directory, files=5, count=60, **options)
        rows = {file.path: sorted(gone) for file, gone in zip(inputs, deleted, strict=True) if gone}
        if kind == "dv":
            deletes = tuple(deletion_vectors(directory / "vectors.puffin", rows, 5))
        else:
            places = [(path, row) for path, gone in rows.items() for row in gone]
            deletes = (position_delete(directory / "deletes.parquet", places, 5),)
        write = {"dictionary": dictionary, "row_group_rows": row_group_rows}
        with small_files_count():
            spliced, encoded = both(inputs, directory, NUMBERS, deletes=deletes, write=write)
        event(f"spliced: {spliced.bytes_spliced > 0}")
        assert_alike(spliced, encoded)
        expected = [
            numbers(number * 60, 60).take(np.setdiff1d(np.arange(60), gone)) for number, gone in enumerate(deleted)
        ]
        assert repr(rows_of(spliced).to_pylist()) == repr(pa.concat_tables(expected).to_pylist())
        for output in spliced.outputs:
            check_offsets(Path(output.path))
        assert rows_by_duckdb([o.path for o in spliced.outputs]) == rows_by_duckdb([o.path for o in encoded.outputs])
    finally:
        shutil.rmtree(directory)
