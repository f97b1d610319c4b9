"""Row lineage of format v3 survives every rewrite, compared with a plain model, and repeated rewrites [I8]."""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.builders.delete_files import deletion_vectors, position_delete
from tests.builders.planned_groups import group_of
from tests.builders.tasks import STORAGE, field, make_task, read_rows, write_file
from tidyberg.errors import VerificationFailed
from tidyberg.execute.kernel.columns.lineage import LINEAGE_FIELDS, with_lineage
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import ColumnFacts, Task, TaskDelete, TaskInput, TaskResult, WriteSettings
from tidyberg.verify.contents import checksum_tasks, verify_contents
from tidyberg.verify.counts import verify_counts

IDS = pa.schema([field("id", pa.int64(), 1)])
TABLE = Schema(NestedField(1, "id", LongType(), required=False))

Row = tuple[int, int | None, int | None]  # id, row id, last update


@dataclasses.dataclass(frozen=True)
class DataFile:
    """A data file: its stored lineage by row, and what its rows inherit."""

    first_id: int
    stored: list[tuple[int | None, int | None]] | int  # or only a number of rows, without the columns
    first_row_id: int | None
    sequence: int

    @property
    def rows(self) -> int:
        return self.stored if isinstance(self.stored, int) else len(self.stored)

    def write(self, path: Path) -> TaskInput:
        ids = list(range(self.first_id, self.first_id + self.rows))
        table = pa.table([pa.array(ids, pa.int64())], schema=IDS)
        if not isinstance(self.stored, int):
            for position, column in enumerate(LINEAGE_FIELDS):
                values = [stored[position] for stored in self.stored]
                table = table.append_column(column, pa.array(values, pa.int64()))
        file = write_file(path, table, row_group_size=5)
        return dataclasses.replace(file, sequence_number=self.sequence, first_row_id=self.first_row_id)

    def model(self) -> list[Row]:
        found: list[Row] = []
        stored = [(None, None)] * self.stored if isinstance(self.stored, int) else self.stored
        for position, (row_id, updated) in enumerate(stored):
            inherited = None if self.first_row_id is None else self.first_row_id + position
            found.append(
                (
                    self.first_id + position,
                    inherited if row_id is None else row_id,
                    self.sequence if updated is None else updated,
                )
            )
        return found


def lineage_task(directory: Path, inputs: Sequence[TaskInput], **changes: Any) -> Task:
    modes = {1: "full", ROW_ID: "truncate(16)", LAST_UPDATED: "truncate(16)"}
    return make_task(
        inputs, IDS, directory / "out", lineage=True, checksum=True, write=WriteSettings(metrics_modes=modes), **changes
    )


def rewrite(task: Task) -> tuple[TaskResult, list[Row]]:
    """Runs a task, verifies it in both ways, and reads its outputs."""
    result = run_task(task, 0, STORAGE)
    assert isinstance(result, TaskResult)
    verify_counts(group_of(task), result, TABLE, lineage=True)
    read_back = [run_task(each, 0, STORAGE) for each in checksum_tasks([task], [result])]
    verify_contents([result], read_back)  # type: ignore[arg-type]
    return result, stored_rows(result)


def stored_rows(result: TaskResult) -> list[Row]:
    rows = read_rows([output.path for output in result.outputs])
    return [(row["id"], row["_row_id"], row["_last_updated_sequence_number"]) for row in rows]


@st.composite
def data_files(draw: st.DrawFn) -> list[DataFile]:
    """Files as tables hold them: ids are given once, and rows that were moved or updated store theirs."""
    files: list[DataFile] = []
    free = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(1, 14))
        first_row_id = draw(st.one_of(st.none(), st.just(free)))
        free += rows
        stored: list[tuple[int | None, int | None]] | int = rows
        if draw(st.booleans()):
            kinds = draw(st.lists(st.sampled_from(["new", "updated", "moved"]), min_size=rows, max_size=rows))
            stored = []
            for kind in kinds:
                updated = draw(st.integers(1, 9)) if kind == "moved" else None
                stored.append((None if kind == "new" else free, updated))
                free += 1
        first_id = 1000 * len(files)
        files.append(DataFile(first_id, stored, first_row_id, draw(st.integers(1, 9))))
    return files


@settings(max_examples=60, deadline=None)
@given(data_files(), st.data(), st.integers(1, 7))
def test_surviving_rows_keep_their_lineage(files: list[DataFile], data: st.DataObject, batch_rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        inputs = [file.write(directory / f"{number}.parquet") for number, file in enumerate(files)]
        deleted = [data.draw(st.sets(st.integers(0, file.rows - 1)), label="deleted") for file in files]
        deletes: list[TaskDelete] = []
        for number, positions in enumerate(deleted):
            path = directory / f"delete-{number}"
            if data.draw(st.booleans(), label="as a vector"):
                deletes += deletion_vectors(path, {inputs[number].path: sorted(positions)}, 9)
            else:
                deletes.append(position_delete(path, [(inputs[number].path, row) for row in sorted(positions)], 9))
        task = lineage_task(directory, inputs, deletes=tuple(deletes), batch_rows=batch_rows)
        result, found = rewrite(task)
        expected = [
            row
            for file, positions in zip(files, deleted, strict=True)
            for position, row in enumerate(file.model())
            if position not in positions
        ]
        assert found == expected
        for output in result.outputs:
            assert output.null_value_counts[LAST_UPDATED] == 0


def test_a_second_rewrite_changes_no_lineage_whatever_the_outputs_inherit(tmp_path: Path) -> None:
    files = [DataFile(0, 10, 100, 3), DataFile(1000, [(7, None), (None, None), (9, 2)], 500, 5)]
    inputs = [file.write(tmp_path / f"{number}.parquet") for number, file in enumerate(files)]
    vectors = deletion_vectors(tmp_path / "v.puffin", {inputs[0].path: [0, 4]}, 6)
    first, expected = rewrite(lineage_task(tmp_path / "first", inputs, deletes=tuple(vectors)))
    again = [TaskInput(o.path, o.size, o.records, 6, first_row_id=9000) for o in first.outputs]
    _, found = rewrite(lineage_task(tmp_path / "second", again))
    assert found == expected
    assert [row_id for _, row_id, _ in found] == [101, 102, 103, 105, 106, 107, 108, 109, 7, 501, 9]
    assert [updated for *_, updated in found] == [3] * 8 + [5, 5, 2]


def test_rows_without_ids_get_them_by_the_next_commit(tmp_path: Path) -> None:
    """A table upgraded to v3: its files have no first row id, but a sequence number, which must not become later."""
    inputs = [
        DataFile(0, 3, None, 2).write(tmp_path / "a.parquet"),
        DataFile(9, 1, 40, 4).write(tmp_path / "b.parquet"),
    ]
    result, found = rewrite(lineage_task(tmp_path, inputs))
    assert found == [(0, None, 2), (1, None, 2), (2, None, 2), (9, 40, 4)]
    (output,) = result.outputs
    assert output.null_value_counts[ROW_ID] == 3
    assert ROW_ID not in output.lower_bounds, "the bounds would have to cover ids that are not known yet"
    assert output.lower_bounds[LAST_UPDATED] == (2).to_bytes(8, "little")


def test_metrics_contain_the_range_of_ids(tmp_path: Path) -> None:
    inputs = [DataFile(0, 10, 100, 3).write(tmp_path / "a.parquet")]
    (output,) = rewrite(lineage_task(tmp_path, inputs))[0].outputs
    assert output.value_counts[ROW_ID] == output.value_counts[LAST_UPDATED] == 10
    assert output.lower_bounds[ROW_ID] == (100).to_bytes(8, "little")
    assert output.upper_bounds[ROW_ID] == (109).to_bytes(8, "little")


def test_a_column_that_only_has_the_name_is_not_lineage(tmp_path: Path) -> None:
    """Files without field ids are matched by name, but reserved columns are known by their ids alone."""
    named = pa.table({"id": pa.array([1, 2]), "_row_id": pa.array([77, 78])})
    file = dataclasses.replace(write_file(tmp_path / "a.parquet", named), sequence_number=4, first_row_id=10)
    _, found = rewrite(lineage_task(tmp_path, [file]))
    assert found == [(1, 10, 4), (2, 11, 4)]


def test_tasks_without_lineage_write_none(tmp_path: Path) -> None:
    inputs = [DataFile(0, [(5, 1)], 100, 3).write(tmp_path / "a.parquet")]
    result = run_task(make_task(inputs, IDS, tmp_path / "out"), 0, STORAGE)
    assert isinstance(result, TaskResult)
    assert read_rows([result.outputs[0].path]) == [{"id": 0}]


def eight_byte(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


@pytest.mark.parametrize(
    ("field_id", "after", "said"),
    [
        (ROW_ID, ColumnFacts(10, 1, eight_byte(100), eight_byte(109)), "1 nulls, though at most 0"),
        (ROW_ID, ColumnFacts(9, 0, eight_byte(100), eight_byte(109)), "9 values in 10 rows"),
        (ROW_ID, ColumnFacts(10, 0, eight_byte(99), eight_byte(109)), "lowest value 100 before, 99 after"),
        (ROW_ID, ColumnFacts(10, 0, eight_byte(100), eight_byte(110)), "highest value 109 before, 110 after"),
        (ROW_ID, ColumnFacts(10, 0, eight_byte(100), eight_byte(104)), "rows share ids"),
        (LAST_UPDATED, ColumnFacts(10, 1, eight_byte(3), eight_byte(3)), "1 nulls"),
        (LAST_UPDATED, ColumnFacts(10, 0, eight_byte(3), eight_byte(4)), "highest value 3 before, 4 after"),
        (LAST_UPDATED, None, "the outputs lack it"),
    ],
)
def test_verification_refuses_lineage_that_changed(
    tmp_path: Path, field_id: int, after: ColumnFacts | None, said: str
) -> None:
    task = lineage_task(tmp_path, [DataFile(0, 10, 100, 3).write(tmp_path / "a.parquet")])
    result, _ = rewrite(task)
    facts = dict(result.output_facts)
    facts.pop(field_id)
    if after is not None:
        facts[field_id] = after
    with pytest.raises(VerificationFailed, match=said):
        verify_counts(group_of(task), dataclasses.replace(result, output_facts=facts), TABLE, lineage=True)


def test_verification_by_the_plan_notices_row_ids_that_never_reached_the_task(tmp_path: Path) -> None:
    task = lineage_task(tmp_path, [DataFile(0, 10, 100, 3).write(tmp_path / "a.parquet")])
    forgetful = dataclasses.replace(task.inputs[0], first_row_id=None)
    result = run_task(dataclasses.replace(task, inputs=(forgetful,)), 0, STORAGE)
    assert isinstance(result, TaskResult)
    with pytest.raises(VerificationFailed, match="_row_id: 10 nulls, though at most 0"):
        verify_counts(group_of(task), result, TABLE, lineage=True)


def test_full_verification_notices_swapped_row_ids(tmp_path: Path) -> None:
    task = lineage_task(tmp_path, [DataFile(0, 3, 100, 3).write(tmp_path / "a.parquet")])
    result, _ = rewrite(task)
    swapped = pa.table([pa.array([0, 1, 2]), pa.array([101, 100, 102]), pa.array([3, 3, 3])], schema=with_lineage(IDS))
    write_file(Path(result.outputs[0].path), swapped)
    (check,) = checksum_tasks([task], [result])
    with pytest.raises(VerificationFailed, match="checksum"):
        verify_contents([result], [run_task(check, 0, STORAGE)])  # type: ignore[list-item]
