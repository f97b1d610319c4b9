"""Pages are moved only of files that no delete touches, as the plan sees it."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.delete_files import deletion_vectors
from tests.builders.divided_tasks import divided_task, made_plain, run_divided, write_groups
from tests.builders.rewrite_results import group, result
from tests.builders.splice_tasks import small_files_count
from tests.builders.tasks import STORAGE, run
from tidyberg.errors import DamagedFile, VerificationFailed
from tidyberg.execute.tasks.division import divided
from tidyberg.model.plan import DeleteFile
from tidyberg.verify.delete_paths import DeletePaths
from tidyberg.verify.parts import joined
from tidyberg.verify.splices import splice_problems

FIRST, SECOND = "file:/in/0.parquet", "file:/in/1.parquet"


def delete(
    kind: Literal["position", "equality", "dv"], number: int, of: str | None = None, rows: int = 3
) -> DeleteFile:
    return DeleteFile(f"file:/deletes/{kind}", kind, 100, rows, number, "file:/m.avro", of)


def names_the_first(_: DeleteFile) -> Collection[str]:
    return {FIRST}


def is_named_by_the_plan(_: DeleteFile) -> Collection[str]:
    raise AssertionError("nothing has to be read for it")


def problems(path: str, *deletes: DeleteFile, paths_of: Any = is_named_by_the_plan, **changes: Any) -> list[str]:
    """Of a group whose files have the sequence number 1, when pages of one of them were moved."""
    planned = replace(group(), deletes=tuple(range(len(deletes))), **changes)
    return list(splice_problems(planned, result(bytes_spliced=1, spliced_files=(path,)), deletes, paths_of))


def test_pages_of_files_without_deletes_may_be_moved() -> None:
    assert problems(FIRST) == []
    assert problems(SECOND, delete("dv", 2, FIRST), delete("position", 2, FIRST)) == []
    assert problems(SECOND, delete("position", 2), paths_of=names_the_first) == []


@pytest.mark.parametrize(
    ("found", "touches"),
    [
        (delete("dv", 1, FIRST), True),
        (delete("dv", 0, FIRST), False),  # older than the file
        (delete("dv", 2, FIRST, rows=0), False),
        (delete("position", 1, FIRST), True),
        (delete("position", 1), True),
        (delete("position", 0), False),
        (delete("equality", 2), True),
        (delete("equality", 1), False),  # of the same commit
    ],
)
def test_pages_of_a_file_with_deletes_must_not_be_moved(found: DeleteFile, touches: bool) -> None:
    said = problems(FIRST, found, paths_of=names_the_first)
    expected = f"pages of {FIRST} were moved as they are, but {found.path} may delete rows of it"
    assert said == ([expected] if touches else [])


def test_position_deletes_are_ignored_beside_a_vector() -> None:
    vector = delete("dv", 2, FIRST, rows=0)
    assert problems(FIRST, vector, delete("position", 2), paths_of=names_the_first) == []
    assert problems(SECOND, vector, delete("position", 2), paths_of=lambda _: {SECOND}) != []


def test_moved_pages_must_be_reported() -> None:
    assert list(splice_problems(group(), result(bytes_spliced=7), (), is_named_by_the_plan)) == [
        "7 bytes of pages were moved as they are, from 0 files"
    ]
    assert list(splice_problems(group(), result(spliced_files=(FIRST,)), (), is_named_by_the_plan)) != []
    assert problems("file:/in/other.parquet") == ["pages of file:/in/other.parquet were moved, which is no file of it"]
    assert "sorts its rows into other partitions" in problems(FIRST, output_spec_id=1)[0]


def test_delete_files_are_asked_for_the_files_they_name(tmp_path: Path) -> None:
    """By the id of the column or, where a writer left it out, by its name; delta-encoded paths too."""
    path = tmp_path / "deletes.parquet"
    for metadata in ({b"PARQUET:field_id": b"2147483546"}, None):
        name = "file_path" if metadata is None else "another"
        schema = pa.schema([pa.field(name, pa.string(), metadata=metadata), pa.field("pos", pa.int64())])
        rows = pa.table([["a", "a", "b"], [1, 2, 3]], schema=schema)
        pq.write_table(rows, path, use_dictionary=False, column_encoding={name: "DELTA_BYTE_ARRAY"})
        found = replace(delete("position", 1), path=str(path), size=path.stat().st_size)
        assert DeletePaths(STORAGE)(found) == {"a", "b"}
    path.write_bytes(b"PAR1")
    with pytest.raises(DamagedFile):
        DeletePaths(STORAGE)(replace(found, size=4))


def test_divided_groups_report_the_files_of_all_their_tasks(tmp_path: Path) -> None:
    inputs = [
        made_plain(write_groups(tmp_path / f"in-{n}.parquet", [1_000], n * 1_000, sequence_number=1)) for n in range(6)
    ]
    vectors = deletion_vectors(tmp_path / "vectors.puffin", {inputs[0].path: [1, 2]}, 5)
    task = divided_task(inputs, tmp_path / "out", parts=2, target=1 << 20)
    task = replace(task, deletes=tuple(vectors))
    with small_files_count(judged=2):
        whole = run_divided(task)
        parts = [run(part) for part in divided([task])]
    assert whole.spliced_files == tuple(path for part in parts for path in part.spliced_files)
    assert set(whole.spliced_files) <= {file.path for file in inputs[1:]}
    assert len(whole.spliced_files) >= 4


@pytest.mark.parametrize("taken", [((0, 400), (400, 1000)), ((0, 1000), (1000, 1000))])
def test_pages_of_a_file_that_tasks_share_must_not_be_moved(tmp_path: Path, taken: tuple[tuple[int, int], ...]) -> None:
    file = write_groups(tmp_path / "in.parquet", [1_000], 0)
    task = divided_task([file], tmp_path / "out", parts=2, target=1 << 20)
    parts = [
        result(part=number, rows_taken={file.path: rows}, spliced_files=(file.path,) if number == 0 else ())
        for number, rows in enumerate(taken)
    ]
    if taken[0] == (0, 1000):
        assert joined(task, parts, {}).spliced_files == (file.path,)
        parts[1] = replace(parts[1], spliced_files=(file.path,))
    with pytest.raises(VerificationFailed, match=r"pages of .* were moved as they are by"):
        joined(task, parts, {})
