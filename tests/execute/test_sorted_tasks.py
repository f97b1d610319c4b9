"""Tasks that sort or merge: rows, deletes, lineage and partitions survive, and a claim is set only if it is true."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.delete_files import equality_delete, position_delete
from tests.builders.tasks import field, make_task, read_rows, run, write_file
from tidyberg.execute.kernel.merge_runs import RunMerger, is_small
from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.execute.kernel.write.spill import SpillFile
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.model.task import Task, TaskInput, TaskPartitionField, TaskResult

SCHEMA = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2), field("part", pa.int32(), 3)])
KEY = SortKey((SortField(1, descending=True, nulls_last=True), SortField(2)), order_id=3)
MERGED = ["in memory", "decoded", "as streams"]


def rows(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ids = pa.array(rng.integers(0, 1000, count), mask=rng.random(count) < 0.05)
    names = [f"name {number}" for number in rng.integers(0, 50, count)]
    return pa.table([ids, names, pa.array(rng.integers(0, 4, count), pa.int32())], schema=SCHEMA)


def sorted_rows(count: int, seed: int) -> pa.Table:
    table = rows(count, seed)
    return table.take(pa.array(sorted_positions(table, KEY)))


def runs(directory: Path, files: int = 6, count: int = 800) -> list[TaskInput]:
    return [
        write_file(directory / f"{n}.parquet", sorted_rows(count, n), row_group_size=100, data_page_size=500)
        for n in range(files)
    ]


def merge_task(inputs: list[TaskInput], directory: Path, way: str = "in memory", **changes: Any) -> Task:
    # With less memory the rows are not sorted at once, and with still less only pages of the files fit.
    memory = {"in memory": 256 * 1024 * 1024, "decoded": 120_000, "as streams": 40_000}[way]
    options = {"mode": "merge", "sort_key": KEY, "memory_bytes": memory, "batch_rows": 128, **changes}
    task = make_task(inputs, SCHEMA, directory, **options)
    assert is_small(task) == (way == "in memory") or not any(file.records for file in inputs)
    return task


def claims(result: TaskResult) -> set[int | None]:
    return {output.sort_order_id for output in result.outputs}


def written(result: TaskResult) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(output.path).read() for output in result.outputs])


def in_order(result: TaskResult, key: SortKey = KEY) -> bool:
    table = written(result)
    return is_sorted(pa.table(table.columns, schema=SCHEMA), key)


def multiset(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_a_sorted_task_writes_all_rows_in_order_and_claims_it(tmp_path: Path) -> None:
    tables = [rows(500, seed) for seed in range(4)]
    inputs = [write_file(tmp_path / f"{number}.parquet", table) for number, table in enumerate(tables)]
    result = run(make_task(inputs, SCHEMA, tmp_path / "out", outputs=3, target=3_000, mode="sort", sort_key=KEY))
    assert len(result.outputs) > 1
    assert in_order(result)
    assert claims(result) == {3}
    assert multiset(written(result)) == multiset(pa.concat_tables(tables))
    assert result.rows_read == result.rows_written == 2000


def test_a_key_that_is_no_order_of_the_table_is_not_claimed(tmp_path: Path) -> None:
    inputs = [write_file(tmp_path / "a.parquet", rows(500, 1))]
    own = dataclasses.replace(KEY, order_id=None)
    curve = SortKey((SortField(1), SortField(3)), Curve.HILBERT)
    for number, key in enumerate((own, curve)):
        result = run(make_task(inputs, SCHEMA, tmp_path / str(number), mode="sort", sort_key=key))
        assert claims(result) == {None}
        assert multiset(written(result)) == multiset(rows(500, 1))


def test_rows_beyond_the_memory_wait_on_disk(tmp_path: Path) -> None:
    inputs = [write_file(tmp_path / f"{n}.parquet", rows(800, n)) for n in range(6)]
    task = make_task(inputs, SCHEMA, tmp_path / "out", mode="sort", sort_key=KEY, memory_bytes=20_000, batch_rows=100)
    result = run(task)
    assert in_order(result)
    assert claims(result) == {3}
    assert multiset(written(result)) == multiset(pa.concat_tables([rows(800, n) for n in range(6)]))


@pytest.mark.parametrize(("mode", "way", "count"), [*(("merge", way, 800) for way in MERGED), ("sort", MERGED[0], 0)])
def test_files_with_uuids_inside_structs_are_sorted(tmp_path: Path, mode: str, way: str, count: int) -> None:
    place = field("place", pa.struct([field("key", pa.uuid(), 5)]), 4)
    keys = pa.array([bytes([number % 256]) * 16 for number in range(count)], pa.binary(16)).cast(pa.uuid())
    places = pa.StructArray.from_arrays([keys], fields=list(place.type))
    tables = [sorted_rows(count, seed).append_column(place, places) for seed in range(4)]
    inputs = [write_file(tmp_path / f"{n}.parquet", table, row_group_size=100) for n, table in enumerate(tables)]
    schema = bytes(SCHEMA.append(place).serialize())
    result = run(merge_task(inputs, tmp_path / "out", way, arrow_schema=schema, mode=mode))
    assert result.rows_written == 4 * count
    if count:
        assert is_sorted(written(result), KEY)
        assert multiset(written(result)) == multiset(pa.concat_tables(tables))


@pytest.mark.parametrize("key", [KEY, SortKey((SortField(1), SortField(3)), Curve.ZORDER)], ids=["order", "curve"])
def test_far_too_many_rows_are_refused_and_leave_nothing_behind(tmp_path: Path, key: SortKey) -> None:
    inputs = runs(tmp_path / "in")
    task = make_task(inputs, SCHEMA, tmp_path / "out", mode="sort", sort_key=key, memory_bytes=2_000, batch_rows=100)
    with pytest.raises(KernelFailure, match="cannot be sorted by one task") as failure:
        run(task)
    assert failure.value.kind is FailureKind.TOO_LARGE
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("way", MERGED)
def test_sorted_files_are_merged_in_order(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unused = {
        "in memory": ["merge_runs.RunMerger.write"],
        "decoded": ["sort.SortingWriter.write", "merge_runs._check_memory"],
        "as streams": ["sort.SortingWriter.write", "merge_runs.RunMerger._decoded"],
    }
    for name in unused[way]:
        monkeypatch.delattr(f"tidyberg.execute.kernel.{name}")
    inputs = runs(tmp_path / "in")
    result = run(merge_task(inputs, tmp_path / "out", way, outputs=2))
    assert in_order(result)
    assert claims(result) == {3}
    assert result.warnings == ()
    assert multiset(written(result)) == multiset(pa.concat_tables([sorted_rows(800, n) for n in range(6)]))
    assert result.rows_read == result.rows_written == 4800
    assert result.output_facts[1].values == result.input_facts[1].values == 4800


@pytest.mark.parametrize("kinds", [3, 40_000])
def test_merged_rows_keep_small_dictionaries_of_other_columns(
    tmp_path: Path, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file has other values, so the dictionaries differ. Some files have none at all."""
    merged: list[pa.Schema] = []
    write = RunMerger.write_in_order

    def write_in_order(merger: RunMerger, rows: pa.Table) -> None:
        merged.append(rows.schema)
        write(merger, rows)

    monkeypatch.setattr(RunMerger, "write_in_order", write_in_order)
    monkeypatch.setattr("tidyberg.execute.kernel.rewrite.is_small", lambda _: False)
    schema = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2), field("kind", pa.string(), 3)])
    random = np.random.default_rng(5)
    tables, inputs = [], []
    for number in range(5):
        ids = np.sort(random.integers(0, 100_000, 25_000))[::-1]
        names = [f"name {i % 7}" for i in ids]
        kind = [None if i % 11 == 0 else f"kind {number} {i % kinds}" for i in range(len(ids))]
        table = pa.table([pa.array(ids), pa.array(names), pa.array(kind)], schema=schema)
        table = table.take(pa.array(sorted_positions(table, KEY)))
        tables.append(table)
        options = {"row_group_size": 25_000, "use_dictionary": number != 4}
        inputs.append(write_file(tmp_path / "in" / f"{number}.parquet", table, **options))
    rows_of_one = [(inputs[1].path, row) for row in range(0, 25_000, 3)]
    taken = [position_delete(tmp_path / "deletes.parquet", rows_of_one, 2)]
    task = make_task(
        inputs, schema, tmp_path / "out", mode="merge", sort_key=KEY, memory_bytes=6_000_000, deletes=taken, outputs=2
    )
    result = run(task)
    assert {str(one.field("kind").type) for one in merged} == {
        "dictionary<values=string, indices=int32, ordered=0>" if kinds == 3 else "string"
    }
    assert {one.field("name").type for one in merged} == {pa.string()}, "it is part of the key"
    tables[1] = tables[1].filter(pa.array(np.arange(25_000) % 3 != 0))
    assert claims(result) == {3}
    assert is_sorted(written(result), KEY)
    assert multiset(written(result)) == multiset(pa.concat_tables(tables))


@pytest.mark.parametrize("way", ["decoded", "as streams"])
def test_a_false_claim_is_found_while_files_are_merged(tmp_path: Path, way: str) -> None:
    """The rows are sorted then, so the outputs are in order all the same, and a warning names the file."""
    inputs = [*runs(tmp_path / "in"), write_file(tmp_path / "in" / "false.parquet", rows(800, 9))]
    result = run(merge_task(inputs, tmp_path / "out", way))
    assert claims(result) == {3}
    assert in_order(result)
    assert "false.parquet claims a sort order, but its live row" in result.warnings[0]
    assert result.warnings[0].endswith("The claim is false.")
    expected = [*(sorted_rows(800, n) for n in range(6)), rows(800, 9)]
    assert multiset(written(result)) == multiset(pa.concat_tables(expected))
    assert len(list((tmp_path / "out").iterdir())) == len(result.outputs), "I6: the merge left nothing behind"


def test_files_with_a_false_claim_are_sorted_if_they_fit_in_memory(tmp_path: Path) -> None:
    inputs = [write_file(tmp_path / f"{n}.parquet", rows(500, n)) for n in range(3)]
    result = run(merge_task(inputs, tmp_path / "out"))
    assert in_order(result)
    assert claims(result) == {3}


@pytest.mark.parametrize("way", MERGED)
def test_deleted_rows_leave_on_the_way(tmp_path: Path, way: str) -> None:
    inputs = [dataclasses.replace(file, sequence_number=1) for file in runs(tmp_path / "in")]
    names = pa.schema([SCHEMA.field("name")])
    deletes = (
        position_delete(tmp_path / "p.parquet", [(inputs[0].path, row) for row in range(0, 800, 3)], 2),
        equality_delete(tmp_path / "e.parquet", names, {"name": ["name 7"]}, (2,), 2),
    )
    schemas = {(2,): bytes(names.serialize())}
    result = run(merge_task(inputs, tmp_path / "out", way, deletes=deletes, equality_schemas=schemas))
    live = [row for at, row in enumerate(sorted_rows(800, 0).to_pylist()) if at % 3]
    live += [row for number in range(1, 6) for row in sorted_rows(800, number).to_pylist()]
    expected = [row for row in live if row["name"] != "name 7"]
    assert multiset(written(result)) == sorted(map(repr, expected))
    assert result.rows_deleted == 4800 - len(expected)
    assert claims(result) == {3}
    assert in_order(result)


@pytest.mark.parametrize("way", MERGED)
def test_row_ids_stay_with_their_rows(tmp_path: Path, way: str) -> None:
    inputs = [
        dataclasses.replace(file, first_row_id=10_000 * number, sequence_number=number + 1)
        for number, file in enumerate(runs(tmp_path / "in"))
    ]
    result = run(merge_task(inputs, tmp_path / "out", way, lineage=True))
    found = {row["_row_id"]: (row["id"], row["name"]) for row in read_rows([o.path for o in result.outputs])}
    expected = {
        10_000 * number + position: (row["id"], row["name"])
        for number in range(6)
        for position, row in enumerate(sorted_rows(800, number).to_pylist())
    }
    assert found == expected
    assert claims(result) == {3}


@pytest.mark.parametrize("mode", ["sort", "merge"])
def test_every_partition_is_in_order_if_rows_move_to_other_partitions(tmp_path: Path, mode: str) -> None:
    partitioning = (TaskPartitionField(3, "identity"),)
    inputs = runs(tmp_path / "in")
    result = run(merge_task(inputs, tmp_path / "out", partitioning=partitioning, mode=mode, target=10**9))
    assert len(result.outputs) == 4
    assert claims(result) == {3}
    for output in result.outputs:
        table = pq.ParquetFile(output.path).read()
        assert is_sorted(pa.table(table.columns, schema=SCHEMA), KEY)
        assert set(table["part"].to_pylist()) == {output.partition[0] if output.partition else None}


@pytest.mark.parametrize("way", MERGED)
def test_no_rows_give_no_outputs(tmp_path: Path, way: str) -> None:
    inputs = [write_file(tmp_path / f"{n}.parquet", SCHEMA.empty_table()) for n in range(2)]
    result = run(merge_task(inputs, tmp_path / "out", way))
    assert result.outputs == ()


def test_rows_that_take_more_memory_than_footers_say_are_sorted_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages may hold far fewer bytes than rows in memory, as those with dictionaries do."""
    spilled: list[int] = []
    write = SpillFile.write

    def counted(file: SpillFile, rows: pa.Table) -> list[int]:
        spilled.append(rows.num_rows)
        return write(file, rows)

    monkeypatch.setattr(SpillFile, "write", counted)
    monkeypatch.setattr("tidyberg.execute.kernel.merge_runs._DECODED_PER_PLAIN", 0.001)
    result = run(merge_task(runs(tmp_path / "in"), tmp_path / "out", "decoded", memory_bytes=50_000))
    assert claims(result) == {3}
    assert in_order(result)
    assert result.warnings == ()
    assert multiset(written(result)) == multiset(pa.concat_tables([sorted_rows(800, n) for n in range(6)]))
    assert len(list((tmp_path / "out").iterdir())) == len(result.outputs)
    assert sum(spilled) == 4800


def test_a_merge_stops_on_request_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files have been read when the first rows are written, so only the merge itself can notice."""
    written_rows: list[int] = []
    write = RunMerger.write_in_order

    def write_in_order(merger: RunMerger, rows: pa.Table) -> None:
        written_rows.append(rows.num_rows)
        write(merger, rows)

    monkeypatch.setattr(RunMerger, "write_in_order", write_in_order)
    with pytest.raises(KernelFailure) as raised:
        run(merge_task(runs(tmp_path / "in"), tmp_path / "out", "decoded"), should_stop=lambda: bool(written_rows))
    assert raised.value.kind is FailureKind.STOPPED
    assert len(written_rows) == 1
    assert not list((tmp_path / "out").glob("*"))


def test_runs_of_a_few_rows_are_not_merged_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tidyberg.execute.kernel.merge_runs.RunMerger._decoded")
    result = run(merge_task(runs(tmp_path / "in", 20, 100), tmp_path / "out", "decoded", memory_bytes=30_000))
    assert claims(result) == {3}
    assert in_order(result)


def test_more_files_than_can_be_merged_at_once_are_sorted(tmp_path: Path) -> None:
    result = run(merge_task(runs(tmp_path / "in"), tmp_path / "out", "as streams", memory_bytes=20_000))
    assert claims(result) == {3}
    assert in_order(result)
    assert result.warnings == (), "nothing was lost"


def test_files_beyond_all_limits_are_rewritten_without_a_claim_and_with_a_warning(tmp_path: Path) -> None:
    result = run(merge_task(runs(tmp_path / "in"), tmp_path / "out", "as streams", memory_bytes=2_000))
    assert claims(result) == {None}
    assert "was not sorted, and its outputs claim no sort order: its rows take more than" in result.warnings[0]
    assert multiset(written(result)) == multiset(pa.concat_tables([sorted_rows(800, n) for n in range(6)]))


def test_files_that_were_fetched_in_pieces_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files beyond a size are not held in memory. Only buffers of their column chunks are."""
    monkeypatch.setattr("tidyberg.execute.kernel.merge_runs._STORED_BYTES", 0)
    result = run(merge_task(runs(tmp_path / "in"), tmp_path / "out", "as streams"))
    assert in_order(result)
    assert claims(result) == {3}
    assert result.warnings == ()
