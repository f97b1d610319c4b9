"""Sorted files that do not overlap are written one after the other. All others are merged."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.delete_files import position_delete
from tests.builders.tasks import field, make_task, read_rows, run, write_file
from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import Task, TaskInput, TaskResult

SCHEMA = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])
KEY = SortKey((SortField(1, descending=True, nulls_last=True), SortField(2)), order_id=3)
Rows = list[tuple[int | None, str]]


def table_of(rows: Rows) -> pa.Table:
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA)


def files_of(directory: Path, contents: list[Rows], **options: Any) -> list[TaskInput]:
    return [
        write_file(directory / f"{number}.parquet", table_of(rows), **options) for number, rows in enumerate(contents)
    ]


def merge_task(inputs: list[TaskInput], directory: Path, **changes: Any) -> Task:
    return make_task(inputs, SCHEMA, directory, **{"mode": "merge", "sort_key": KEY, **changes})


def written(result: TaskResult) -> Rows:
    tables = [pq.ParquetFile(output.path).read() for output in result.outputs]
    return [(row["id"], row["name"]) for table in tables for row in table.to_pylist()]


def descending(first: int, count: int) -> Rows:
    return [(number, f"n{number}") for number in range(first + count - 1, first - 1, -1)]


@pytest.fixture
def no_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    for writer in ("sort.SortingWriter", "merge_runs.RunMerger"):
        monkeypatch.setattr(f"tidyberg.execute.kernel.{writer}.write", None)


@pytest.fixture
def no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tidyberg.execute.kernel.rewrite._claiming")


@pytest.mark.usefixtures("no_merge")
@pytest.mark.parametrize("mode", ["copy", "encode"])
def test_files_that_do_not_overlap_follow_each_other_in_the_order_of_their_keys(tmp_path: Path, mode: str) -> None:
    contents = [descending(100, 50), descending(0, 100), descending(150, 70)]
    inputs = files_of(tmp_path / "in", contents, row_group_size=20)
    result = run(merge_task(inputs, tmp_path / "out", splices=mode == "copy", outputs=2, target=2000))
    assert written(result) == descending(0, 220)
    assert len(result.outputs) == 2 if mode == "copy" else result.outputs
    assert {output.sort_order_id for output in result.outputs} == {3}
    assert result.mode == mode
    assert (result.mode_reason, result.warnings) == ("", ())


@pytest.mark.usefixtures("no_merge")
def test_nulls_are_at_their_end_and_neighbours_may_share_a_key(tmp_path: Path) -> None:
    nulls: Rows = [(None, "a"), (None, "b")]
    contents: list[Rows] = [nulls, [(5, "x"), (4, "x")], [(4, "x"), (4, "x"), (1, "y"), (None, "a")]]
    result = run(merge_task(files_of(tmp_path / "in", contents), tmp_path / "out"))
    assert written(result) == [(5, "x"), (4, "x"), (4, "x"), (4, "x"), (1, "y"), (None, "a"), *nulls]
    assert {output.sort_order_id for output in result.outputs} == {3}


@pytest.mark.usefixtures("no_copy")
@pytest.mark.parametrize(
    "contents",
    [
        [[(9, "a"), (5, "a")], [(6, "a"), (1, "a")]],
        [[(9, "a"), (5, "b")], [(5, "a"), (1, "a")]],
        [[(9, "a"), (1, "a")], [(6, "a"), (5, "a")]],
        [[(9, "a"), (5, "a")], [(1, "a"), (2, "a")]],
        [[(9, "a"), (None, "b")], [(None, "a")]],
    ],
    ids=["overlap", "second field", "inside", "a false claim", "nulls"],
)
def test_files_that_overlap_or_are_not_sorted_are_merged(tmp_path: Path, contents: list[Rows]) -> None:
    result = run(merge_task(files_of(tmp_path / "in", contents), tmp_path / "out"))
    rows = written(result)
    assert is_sorted(table_of(rows), KEY)
    assert sorted(map(repr, rows)) == sorted(repr(row) for content in contents for row in content)


@pytest.mark.usefixtures("no_merge")
def test_deleted_rows_leave_and_row_ids_stay(tmp_path: Path) -> None:
    inputs = [
        dataclasses.replace(file, first_row_id=1000 * (number + 1), sequence_number=1)
        for number, file in enumerate(files_of(tmp_path / "in", [descending(0, 40), descending(40, 40), []]))
    ]
    deletes = (position_delete(tmp_path / "p.parquet", [(inputs[0].path, row) for row in range(0, 40, 3)], 2),)
    result = run(merge_task(inputs, tmp_path / "out", deletes=deletes, lineage=True))
    found = [(row["_row_id"], row["id"]) for row in read_rows([output.path for output in result.outputs])]
    later = [(2000 + at, 79 - at) for at in range(40)]
    earlier = [(1000 + at, 39 - at) for at in range(40) if at % 3]
    assert sorted(found) == sorted([*later, *earlier])
    assert [number for _, number in found] == sorted((number for _, number in found), reverse=True)
    assert {output.sort_order_id for output in result.outputs} == {3}
    assert result.rows_deleted == 14


def test_a_search_for_the_order_of_files_stops_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tidyberg.execute.kernel.disjoint_runs.OrderCheck.add_values")
    inputs = files_of(tmp_path / "in", [descending(0, 40), descending(40, 40)])
    with pytest.raises(KernelFailure, match="Stopped on request") as stopped:
        run(merge_task(inputs, tmp_path / "out"), should_stop=lambda: True)
    assert stopped.value.kind is FailureKind.STOPPED


@given(st.data())
def test_whatever_the_files_are_the_outputs_are_in_the_order_they_claim(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("runs")
    row = st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.sampled_from(["", "a", "ab", "b"]))
    everything = data.draw(st.lists(row, min_size=1, max_size=30))
    ordered = table_of(everything).take(pa.array(sorted_positions(table_of(everything), KEY)))
    rows: Rows = [(one["id"], one["name"]) for one in ordered.to_pylist()]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    contents = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    if data.draw(st.booleans()):
        moved = data.draw(st.sampled_from(contents))
        moved.reverse()
    contents = data.draw(st.permutations(contents))
    result = run(merge_task(files_of(directory / "in", contents), directory / "out"))
    found = written(result)
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    assert is_sorted(table_of(found), KEY)
    assert {output.sort_order_id for output in result.outputs} == {3}
