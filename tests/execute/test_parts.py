"""A group divided among several tasks: every row is in exactly one task, and the combined result is the same."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField

from tests.builders.delete_files import deletion_vectors, equality_delete, position_delete
from tests.builders.divided_tasks import (
    COLUMNS,
    EVOLVED,
    TABLE,
    assert_same,
    groups_of_files,
    run_divided,
    write_groups,
)
from tests.builders.tasks import STORAGE, field, make_task, read_rows, run
from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.read.open_files import open_file
from tidyberg.execute.kernel.read.row_ranges import row_at
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.tasks.division import divided
from tidyberg.model.task import Share, Task, TaskDelete, TaskInput, TaskResult
from tidyberg.storage.file_io import Storage
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.parts import Joining

BY_ID = pa.schema([field("id", pa.int64(), 1)])


@settings(max_examples=25)
@given(
    files=groups_of_files(),
    parts=st.integers(2, 5),
    more_outputs=st.integers(0, 4),
    target=st.sampled_from([1, 2_000, 1 << 20]),
    batch_rows=st.sampled_from([7, 65_536]),
    lineage=st.booleans(),
    data=st.data(),
)
def test_a_divided_group_is_the_same_as_one_that_is_not(
    files: list[list[int]],
    parts: int,
    more_outputs: int,
    target: int,
    batch_rows: int,
    lineage: bool,
    data: st.DataObject,
) -> None:
    """Random row groups and cuts, under deletes of every kind, with a column that no file has, with row ids."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        inputs, first = [], 0
        for number, row_groups in enumerate(files):
            about = {"sequence_number": 1, "first_row_id": 1_000 + first if lineage else None}
            inputs.append(write_groups(directory / f"in-{number}.parquet", row_groups, first, **about))
            first += sum(row_groups)
        task = make_task(
            inputs,
            EVOLVED,
            directory / "alone",
            outputs=parts + more_outputs,
            target=target,
            batch_rows=batch_rows,
            deletes=tuple(draw_deletes(data, directory, inputs, first)),
            equality_schemas={(1,): bytes(BY_ID.serialize())},
            constants={4: "old"},
            lineage=lineage,
            checksum=True,
        )
        task = dataclasses.replace(task, max_bytes=1 << 30)
        alone = run(task)
        task = dataclasses.replace(task, output_directory=str(directory / "divided"), parts=parts)
        whole = run_divided(task)
        if any(0 in row_groups for row_groups in files):  # which tell nothing, and here nobody asks them
            whole = dataclasses.replace(whole, input_facts=alone.input_facts)
        assert_same(whole, alone)


def draw_deletes(data: st.DataObject, directory: Path, files: Sequence[TaskInput], rows: int) -> list[TaskDelete]:
    kinds = data.draw(st.sets(st.sampled_from(["position", "equality", "dv"])))
    with_rows = [file for file in files if file.records]

    def places(file: TaskInput) -> list[int]:
        return sorted(data.draw(st.sets(st.integers(0, file.records - 1), max_size=20)))

    deletes: list[TaskDelete] = []
    if "position" in kinds:
        positions = [(file.path, place) for file in with_rows for place in places(file)]
        deletes.append(position_delete(directory / "positions.parquet", sorted(positions), sequence=2))
    if "dv" in kinds:
        deletes += deletion_vectors(directory / "vectors.puffin", {with_rows[0].path: places(with_rows[0])}, sequence=2)
    if "equality" in kinds:
        keys = sorted(data.draw(st.sets(st.integers(0, rows), max_size=20)))
        deletes.append(equality_delete(directory / "keys.parquet", BY_ID, {"id": keys}, (1,), sequence=2))
    return deletes


@given(
    groups=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 10_000)), max_size=8),
    footer=st.integers(1, 500),
    slack=st.integers(0, 2_000),
    data=st.data(),
)
def test_cuts_are_rows_in_the_order_of_their_bytes(
    groups: list[tuple[int, int]], footer: int, slack: int, data: st.DataObject
) -> None:
    rows, size = sum(count for count, _ in groups), sum(stored for _, stored in groups) + footer
    cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=6)))
    found = [row_at(groups, cut, size, slack) for cut in (0, *cuts, size)]
    assert (found[0], found[-1]) == (0, rows)
    assert found == sorted(found)


def test_a_cut_is_made_between_row_groups_where_one_is_near() -> None:
    groups = [(100, 1_000), (100, 1_000), (300, 1_000)]
    assert row_at(groups, 950, 3_000, slack=60) == row_at(groups, 1_050, 3_000, slack=60) == 100
    assert row_at(groups, 950, 3_000, slack=40) == 95
    assert row_at(groups, 2_500, 3_000, slack=40) == 350


def test_parts_take_as_much_of_the_inputs_as_of_the_outputs(tmp_path: Path) -> None:
    inputs = [TaskInput(str(tmp_path / "a"), 700, 70), TaskInput(str(tmp_path / "b"), 300, 30)]
    first, second = divided([make_task(inputs, COLUMNS, tmp_path, outputs=5, target=320, parts=2)])
    assert (first.outputs, second.outputs) == (2, 3)
    assert first.inputs == (dataclasses.replace(inputs[0], share=Share(0, 400, 10)),)
    assert second.inputs == (dataclasses.replace(inputs[0], share=Share(400, 700, 10)), inputs[1])
    assert [file.bytes_taken for file in (*first.inputs, *second.inputs)] == [400, 300, 300]
    assert [file.rows_expected for file in (*first.inputs, *second.inputs)] == [40, 30, 30]


def test_parts_have_equal_sizes_though_rows_differ_in_size(tmp_path: Path) -> None:
    """The file is divided by bytes: the first half of the rows has an eighth of them."""
    wide = pa.schema([field("blob", pa.binary(), 1)])
    blobs = [bytes([i % 251]) * (160 if i < 5_000 else 1_440) for i in range(10_000)]
    path = tmp_path / "in.parquet"
    pq.write_table(
        pa.table([pa.array(blobs)], schema=wide),
        path,
        row_group_size=500,
        compression="none",
        use_dictionary=False,
        store_schema=False,
    )
    file = TaskInput(str(path), path.stat().st_size, 10_000)
    plain = {"compression": "uncompressed", "dictionary": False, "row_group_bytes": 200_000}
    task = make_task([file], wide, tmp_path / "out", outputs=4, parts=2)
    task = dataclasses.replace(task, write=dataclasses.replace(task.write, **plain))  # type: ignore[arg-type]
    result = run_divided(task, Schema(NestedField(1, "blob", BinaryType(), required=False)))
    assert [row["blob"] for row in read_rows([output.path for output in result.outputs])] == blobs
    assert len(result.outputs) == 4
    first, second = (sum(o.size for o in result.outputs if f"p000{part}-" in o.path) for part in range(2))
    assert first == pytest.approx(second, rel=0.05)


def test_outputs_of_parts_have_names_of_their_own(tmp_path: Path) -> None:
    file = write_groups(tmp_path / "in.parquet", [100] * 8, 0)
    result = run_divided(make_task([file], COLUMNS, tmp_path / "out", outputs=2, parts=2, group_id=3))
    names = [Path(output.path).name for output in result.outputs]
    assert names == [f"tidyberg-job-g00003p000{part}-a00-0000.parquet" for part in range(2)]


def test_row_groups_of_other_tasks_are_not_read(tmp_path: Path) -> None:
    """Their bytes are overwritten, so a task that reads them fails."""
    file = write_groups(tmp_path / "in.parquet", [1_000] * 4, 0)
    footer = pq.read_metadata(file.path)
    start = footer.row_group(2).column(0).dictionary_page_offset
    content = bytearray(Path(file.path).read_bytes())
    content[start : start + 3_000] = bytes(3_000)
    Path(file.path).write_bytes(content)
    first, second = divided([make_task([file], COLUMNS, tmp_path / "out", outputs=4, parts=2)])
    assert run(first).rows_taken == {file.path: (0, 2_000)}
    with pytest.raises(Exception, match=r"in\.parquet"):
        run(second)


def test_expected_rows_follow_the_share_of_the_file(tmp_path: Path) -> None:
    file = write_groups(tmp_path / "in.parquet", [100] * 4, 0, sequence_number=1)
    delete = position_delete(tmp_path / "d.parquet", [(file.path, place) for place in range(50)], sequence=2)
    first, second = divided([make_task([file], COLUMNS, tmp_path, outputs=4, parts=2, deletes=(delete,))])
    for part, surviving in ((first, 150), (second, 200)):
        deleted = DeletedRows(part, Storage(STORAGE), lambda: False)
        assert deleted.surviving_rows == 175  # half of what is left of the file
        deleted.positions(open_file(Storage(STORAGE), part.inputs[0]))
        assert deleted.surviving_rows == surviving


def parts_of(tmp_path: Path) -> tuple[Task, list[TaskResult]]:
    file = write_groups(tmp_path / "in.parquet", [100] * 4, 0)
    task = make_task([file], COLUMNS, tmp_path / "out", outputs=4, parts=2, checksum=True)
    return task, [run(part) for part in divided([task])]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((0, 200), (201, 400), "0 to 200, 201 to 400"),
        ((0, 201), (200, 400), "0 to 201, 200 to 400"),
        ((0, 200), (200, 399), "0 to 200, 200 to 399"),
        ((1, 200), (200, 400), "1 to 200, 200 to 400"),
    ],
)
def test_a_gap_or_an_overlap_between_parts_is_found(
    tmp_path: Path, first: tuple[int, int], second: tuple[int, int], said: str
) -> None:
    task, results = parts_of(tmp_path)
    joining = Joining({0: task}, TABLE)
    for result, taken in zip(results, (first, second), strict=True):
        changed = dataclasses.replace(result, rows_taken={task.inputs[0].path: taken})
        if result is results[0]:
            assert joining.take(changed) is None
        else:
            with pytest.raises(VerificationFailed, match=f"of the 400 rows of .*in.parquet, tasks took {said}"):
                joining.take(changed)


def test_a_divided_group_counts_its_attempts_and_requests(tmp_path: Path) -> None:
    task, (first, second) = parts_of(tmp_path)
    joining = Joining({0: task}, TABLE)
    joining.take(dataclasses.replace(first, attempt=1, requests={"get": 2}, seconds=1.0, warnings=("w",)))
    whole = joining.take(dataclasses.replace(second, requests={"get": 1, "put": 4}, seconds=2.0, warnings=("w",)))
    assert whole is not None
    assert (whole.part, whole.attempt, whole.requests) == (None, 1, {"get": 3, "put": 4})
    assert (whole.seconds, whole.warnings, whole.rows_taken) == (3.0, ("w",), {})


def test_outputs_of_a_divided_group_are_read_back_by_as_many_tasks(tmp_path: Path) -> None:
    task, results = parts_of(tmp_path)
    joining = Joining({0: task}, TABLE)
    whole = [joining.take(result) for result in results][-1]
    assert whole is not None
    checks = checksum_tasks([task], [whole])
    assert [len(check.inputs) for check in checks] == [1, 1]
    found: list[Any] = [run_task(check, 0, STORAGE) for check in checks]
    verify_contents([whole], found)
    with pytest.raises(VerificationFailed, match="wrote 400 rows, 200 were read back"):
        verify_contents([whole], found[:1])
