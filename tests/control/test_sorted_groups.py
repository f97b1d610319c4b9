"""Groups larger than memory are sorted by a shuffle, and then verified, committed and removed like all others."""

from collections.abc import Generator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection, SortOrder
from pyiceberg.table.sorting import SortField as TableSortField
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from tests.builders import sales_table
from tests.builders.control import AT_ONCE, ONE_BY_ONE, chunks, leftovers, make_control
from tests.builders.interrupted_jobs import die, run_until_dead
from tests.builders.sales_table import REF
from tests.builders.sorted_plans import shuffle_small_groups, sorted_plan
from tidyberg.control.sorted_groups import SortedGroups
from tidyberg.errors import DamagedFile, EngineError, VerificationFailed
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.order import gathering
from tidyberg.execute.kernel.order.ranges import RangeBounds
from tidyberg.execute.kernel.range_sort import ipc_chunks
from tidyberg.execute.kernel.range_sort.cut import Cut
from tidyberg.execute.kernel.range_sort.merge import MergeRanges
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.shuffle import ArrivedChunks, ShuffleAttempt, ShuffleResult
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.model.task import TaskResult
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes
from tidyberg.testing.warehouse import local_path

ROWS = 900
BY_COUNT = SortKey((SortField(2, descending=True), SortField(1)))
NUMBERS = Schema(NestedField(1, "id", LongType()), NestedField(2, "key", LongType()), NestedField(3, "x", StringType()))
BY_KEY = SortKey((SortField(2),))


@pytest.fixture(autouse=True)
def _small_groups_take_the_way_of_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffle_small_groups(monkeypatch)


def sales(warehouse: Warehouse, format_version: int = 2) -> Table:
    table = warehouse.create_table("db.sales", format_version=format_version)
    return warehouse.append_files(table, 6, ROWS)


def sort(
    warehouse: Warehouse,
    key: SortKey,
    *,
    outputs: int = 4,
    verify: VerifyMode = VerifyMode.FULL,
    options: PlanOptions = AT_ONCE,
    engine: InlineEngine | None = None,
) -> Any:
    with make_control(warehouse, engine) as control:
        return control.apply(sorted_plan(control.plan(REF, options), key, outputs), verify=verify)


def outputs_of(warehouse: Warehouse, table: Table, *columns: str) -> list[pa.Table]:
    """The live files in the order of their names, which is the order of their parts."""
    files = sorted(file.path for file in warehouse.live_files(table))
    return [pq.read_table(local_path(path), columns=list(columns)) for path in files]


def write_numbers(warehouse: Warehouse, keys: list[list[int | None]]) -> Table:
    """A file for each list of keys."""
    table = warehouse.create_table("db.sales", NUMBERS)
    for number, some in enumerate(keys):
        ids = pa.array(range(number * len(some), (number + 1) * len(some)), pa.int64())
        texts = pa.array([f"text {key} of {number}" for key in some])
        table.append(pa.table({"id": ids, "key": pa.array(some, pa.int64()), "x": texts}))
    return table


@pytest.mark.parametrize("verify", list(VerifyMode))
@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_are_sorted_in_and_among_the_outputs(
    warehouse: Warehouse, format_version: int, verify: VerifyMode
) -> None:
    table = sales(warehouse, format_version)
    lineage = format_version == 3
    before = warehouse.rows(table, lineage=lineage)
    result = sort(warehouse, BY_COUNT, verify=verify)
    assert (result.outcome, result.groups_committed, result.job.commits) == ("committed", 1, 1)
    assert warehouse.rows(table, lineage=lineage) == before
    parts = outputs_of(warehouse, table, "count", "id")
    assert len(parts) == 4
    assert max(result.sizes_after) < 1.2 * min(result.sizes_after)
    together = pa.concat_tables(parts)
    nulls = together["count"].null_count
    expected = together.sort_by([("count", "descending"), ("id", "ascending")])
    # Iceberg's default is nulls first; Arrow sorts them last.
    expected = pa.concat_tables([expected.slice(len(expected) - nulls), expected.slice(0, len(expected) - nulls)])
    assert together["count"].to_pylist() == expected["count"].to_pylist()
    assert result.job.progress.bytes_read == result.plan.groups[0].bytes
    assert not leftovers(warehouse, table)


def test_a_group_that_fits_into_memory_is_sorted_by_one_task(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a sample has to tell, or the sizes of the files do."""
    for most_memory_per_byte in (20, 1 << 40):
        monkeypatch.undo()
        monkeypatch.setattr("tidyberg.execute.tasks.range_sort._MOST_MEMORY_PER_BYTE", most_memory_per_byte)
        table = sales(warehouse)
        before = warehouse.rows(table)
        with make_control(warehouse) as control:
            options = PlanOptions(sort="count desc nulls last", target_file_size=60_000)
            assert [group.tasks > 1 for group in control.plan(REF, options).groups] == [True]
            assert control.compact(REF, options, verify=VerifyMode.FULL).outcome == "committed"
        assert warehouse.rows(table) == before
        counts = [n for part in outputs_of(warehouse, table, "count") for n in part["count"].to_pylist()]
        assert counts == sorted(counts, key=lambda n: (n is None, -(n or 0)))
        assert all("-g00000-a00-" in file.path for file in warehouse.live_files(table))
        warehouse.catalog.drop_table("db.sales")


@pytest.mark.parametrize("most", [None, 400_000])
def test_a_curve_of_more_rows_than_the_engine_allows_a_task_is_shuffled(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    monkeypatch.undo()
    table = sales(warehouse)
    before = warehouse.rows(table)
    with make_control(warehouse, InlineEngine(task_memory_bytes=most)) as control:
        assert control.compact(REF, PlanOptions(zorder="id, count", force=True)).outcome == "committed"
    assert warehouse.rows(table) == before
    names = [Path(file.path).name for file in warehouse.live_files(table)]
    assert all(("-g00000p" in name) == (most is not None) for name in names)


def test_a_curve_of_rows_that_only_dictionaries_make_small_is_shuffled(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    table = warehouse.create_table("db.sales", NUMBERS)
    for _ in range(3):
        numbers = pa.array(range(5_000), pa.int64())
        texts = pa.array([f"a long text that repeats often: {number % 9} " * 5 for number in range(5_000)])
        table.append(pa.table({"id": numbers, "key": numbers, "x": texts}))
    with make_control(warehouse, InlineEngine(task_memory_bytes=1_000_000)) as control:
        assert control.compact(REF, PlanOptions(zorder="id, key", force=True)).outcome == "committed"
    assert table.refresh().scan().count() == 15_000


def test_deletes_are_applied_on_the_way(warehouse: Warehouse) -> None:
    for version, kind in ((2, "positions"), (3, "vectors")):
        table = sales(warehouse, version)
        file = min(file.path for file in warehouse.live_files(table))
        positions = {file: [*range(0, ROWS, 7), ROWS - 1]}
        commit_deletes(table, Positions(positions, file_scoped=True) if kind == "positions" else Vectors(positions))
        commit_deletes(table, EqualTo({"id": [row["id"] for row in table.scan().to_arrow().to_pylist()[5::90]]}))
        before = warehouse.rows(table)
        assert len(before) < 6 * ROWS
        assert sort(warehouse, BY_COUNT).outcome == "committed"
        assert warehouse.rows(table) == before
        assert len(warehouse.live_files(table)) == 4
        warehouse.catalog.drop_table("db.sales")


def test_a_group_whose_rows_are_all_deleted_has_no_outputs(warehouse: Warehouse) -> None:
    table = write_numbers(warehouse, [[3, 1, 2], [6, 5, 4]])
    commit_deletes(table, EqualTo({"id": list(range(6))}))
    assert sort(warehouse, BY_KEY).outcome == "committed"
    assert not warehouse.rows(table)
    assert not warehouse.live_files(table)


@pytest.mark.parametrize("curve", list(Curve))
def test_curves_keep_all_rows(warehouse: Warehouse, curve: Curve) -> None:
    table = sales(warehouse)
    before = warehouse.rows(table)
    assert sort(warehouse, SortKey((SortField(2), SortField(6), SortField(9)), curve)).outcome == "committed"
    assert warehouse.rows(table) == before
    assert len(warehouse.live_files(table)) == 4


def test_a_heavy_key_is_divided_among_outputs_that_touch_but_do_not_overlap(warehouse: Warehouse) -> None:
    keys: list[list[int | None]] = [[50 if n % 2 else (n * 37 + file) % 100 for n in range(1_000)] for file in range(4)]
    table = write_numbers(warehouse, keys)
    before = warehouse.rows(table)
    result = sort(warehouse, BY_KEY, outputs=8)
    assert warehouse.rows(table) == before
    parts = [part["key"] for part in outputs_of(warehouse, table, "key")]
    assert len(parts) == 8
    assert sum(50 in part.to_pylist() for part in parts) >= 4
    bounds = [(pc.min(part).as_py(), pc.max(part).as_py()) for part in parts]
    assert all(before[1] <= after[0] for before, after in pairwise(bounds))
    assert max(result.sizes_after) < 1.5 * min(result.sizes_after)


@pytest.mark.parametrize("keys", [[None] * 300, [7] * 300, [None, 1] * 150], ids=["nulls", "one value", "two values"])
def test_keys_with_hardly_any_values_are_divided_too(warehouse: Warehouse, keys: list[int | None]) -> None:
    table = write_numbers(warehouse, [keys] * 3)
    before = warehouse.rows(table)
    assert sort(warehouse, BY_KEY, outputs=3).outcome == "committed"
    assert warehouse.rows(table) == before
    parts = outputs_of(warehouse, table, "key")
    assert [abs(part.num_rows - 300) < 30 for part in parts] == [True] * 3
    together = pa.concat_tables(parts)["key"].to_pylist()
    assert together == sorted(together, key=lambda key: (key is not None, key))


def test_each_partition_is_sorted_and_committed_by_itself(warehouse: Warehouse) -> None:
    table = sales_table.regional(warehouse)
    before = warehouse.rows(table)
    result = sort(warehouse, SortKey((SortField(3),)), outputs=2, options=ONE_BY_ONE)
    assert result.groups_committed == len(chunks(table)) == 2
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def without_rows(chunk: pa.Buffer) -> pa.Buffer:
    (empty,) = ipc_chunks.to_chunks(ipc_chunks.from_chunk(chunk).slice(0, 0))
    return empty


def test_a_chunk_of_rows_that_does_not_arrive_is_found_without_reading_outputs_back(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sales(warehouse)
    files = warehouse.files_on_disk(table)
    original = MergeRanges.reduce

    class Fewer:
        def __init__(self, chunks: ArrivedChunks) -> None:
            self._chunks = chunks
            self.bytes_by_tag = chunks.bytes_by_tag

        def tagged(self, tag: int) -> Any:
            first, *others = self._chunks.tagged(tag)
            return others or [replace(first, data=without_rows(first.data))]

    def lossy(self: MergeRanges, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> TaskResult:
        return original(self, Fewer(chunks), attempt)  # type: ignore[arg-type]

    monkeypatch.setattr(MergeRanges, "reduce", lossy)
    with pytest.raises(VerificationFailed, match=r"rows were sent to part 0, but \d+ were written"):
        sort(warehouse, BY_COUNT, verify=VerifyMode.COUNTS)
    assert warehouse.files_on_disk(table) == files


def test_rows_that_change_between_cut_and_merge_are_found_by_full_verification(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sales(warehouse)
    files = warehouse.files_on_disk(table)
    original = gathering.gathered

    def repeating(columns: Any, positions: Any, schema: Any) -> pa.RecordBatch:
        positions = positions.copy()
        positions[-1] = positions[-2]  # in order, but one row is there twice
        return original(columns, positions, schema)

    monkeypatch.setattr("tidyberg.execute.kernel.range_sort.merge.gathered", repeating)
    with pytest.raises(VerificationFailed):
        sort(warehouse, BY_COUNT)
    assert warehouse.files_on_disk(table) == files


def test_a_failure_between_shuffles_leaves_what_was_committed_and_nothing_else(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sales_table.regional(warehouse)
    before = warehouse.rows(table)
    original = SortedGroups.run

    def failing(self: SortedGroups, *args: Any) -> Generator[TaskResult, None, None]:
        results = original(self, *args)
        yield next(results)
        next(results)
        raise EngineError("the engine is gone")

    monkeypatch.setattr(SortedGroups, "run", failing)
    result = sort(warehouse, SortKey((SortField(3),)), outputs=2, options=ONE_BY_ONE)
    assert isinstance(result.failure, EngineError)
    assert len(chunks(table)) == 1
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)


def test_scratch_space_is_empty_afterwards(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    sales(warehouse)
    seen: list[str] = []

    class Watching(InlineEngine):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            seen.extend(path.name for path in scratch.iterdir())
            return super().run(*args, **kwargs)

    sort(warehouse, BY_COUNT, engine=Watching())
    assert any(name.startswith("tidyberg-shuffle-") for name in seen)
    assert not list(scratch.iterdir())


def shuffles_of(monkeypatch: pytest.MonkeyPatch) -> list[ShuffleResult]:
    """The results of all shuffles from now on."""
    seen: list[ShuffleResult] = []
    original = InlineEngine.shuffle

    def watched(self: InlineEngine, *args: Any, **kwargs: Any) -> Any:
        for result in original(self, *args, **kwargs):
            seen.append(result)
            yield result

    monkeypatch.setattr(InlineEngine, "shuffle", watched)
    return seen


def test_the_result_of_a_shuffle_says_how_much_memory_it_took(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales(warehouse)
    seen = shuffles_of(monkeypatch)
    sort(warehouse, BY_COUNT)
    (result,) = seen
    assert all(part.peak_rss_bytes > 0 for part in (*result.reports, *result.results))
    assert sum(sum(report.rows_sent) for report in result.reports) == 6 * ROWS


def test_outputs_claim_an_order_of_the_table_but_never_a_curve(warehouse: Warehouse) -> None:
    warehouse.catalog.create_namespace_if_not_exists("db")
    order = SortOrder(TableSortField(2, IdentityTransform(), SortDirection.ASC))
    table = warehouse.catalog.create_table("db.sales", SAMPLE_SCHEMA, sort_order=order)
    warehouse.append_files(table, 6, ROWS)
    for key, claimed in (
        (SortKey((SortField(2),), order_id=1), 1),
        (SortKey((SortField(3),)), None),
        (SortKey((SortField(2), SortField(1)), Curve.ZORDER, order_id=1), None),
    ):
        assert sort(warehouse, key, options=replace(AT_ONCE, force=True)).outcome == "committed"
        snapshot = table.refresh().current_snapshot()
        assert snapshot is not None
        entries = [e for m in snapshot.manifests(table.io) for e in m.fetch_manifest_entry(table.io)]
        assert [entry.data_file.sort_order_id for entry in entries] == [claimed] * 4


def test_rows_that_are_not_in_order_are_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sales(warehouse)
    files = warehouse.files_on_disk(table)
    original = RangeBounds.sorted_positions
    monkeypatch.setattr(RangeBounds, "sorted_positions", lambda self, rows: original(self, rows)[::-1].copy())
    with pytest.raises(DamagedFile, match=r"Part \d of group 0 was not written in order"):
        sort(warehouse, BY_COUNT, verify=VerifyMode.COUNTS)
    assert warehouse.files_on_disk(table) == files


def test_rows_that_no_map_task_takes_are_found(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file is divided among map tasks. Two of them report that they took the same rows."""
    table = warehouse.create_table("db.sales", properties={"write.parquet.row-group-limit": "100"})
    warehouse.append_files(table, 1, ROWS)
    (file,) = warehouse.live_files(table)
    target = Path(local_path(file.path)).stat().st_size // 4
    options = PlanOptions(strategy=Strategy.FULL, target_file_size=target)
    original = InlineEngine.shuffle

    def changed(self: InlineEngine, *args: Any, **kwargs: Any) -> Any:
        for result in original(self, *args, **kwargs):
            first, second, *others = result.reports
            assert first.rows_taken
            assert second.rows_taken
            second = replace(second, rows_taken=first.rows_taken)
            yield replace(result, reports=(first, second, *others))

    monkeypatch.setattr(InlineEngine, "shuffle", changed)
    with pytest.raises(VerificationFailed, match=f"of the {ROWS} rows of .*, tasks took 0 to "):
        sort(warehouse, BY_COUNT, verify=VerifyMode.COUNTS, options=options)


def test_a_killed_job_is_continued_and_its_scratch_space_removed(warehouse: Warehouse, tmp_path: Path) -> None:
    table = sales(warehouse)
    before, scratch = warehouse.rows(table), tmp_path / "scratch"
    scratch.mkdir()
    for moment in ("merge", "cut"):
        run_until_dead(die_while_sorting, str(warehouse.directory), str(scratch), moment)
        assert list(scratch.iterdir())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tempfile.tempdir", str(scratch))
        shuffle_small_groups(patched)
        assert sort(warehouse, BY_COUNT).outcome == "committed"
    assert warehouse.rows(table) == before
    assert not leftovers(warehouse, table)
    assert not list(scratch.iterdir())


def die_while_sorting(directory: str, scratch: str, moment: str) -> None:
    """In a process of its own: sort, and be gone in the middle of the second map or reduce task."""
    patched = pytest.MonkeyPatch()
    patched.setattr("tempfile.tempdir", scratch)
    shuffle_small_groups(patched)
    calls: list[int] = []
    owner, name = (MergeRanges, "reduce") if moment == "merge" else (Cut, "_cut")
    original = getattr(owner, name)

    def counted(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            die()
        return original(*args)

    patched.setattr(owner, name, counted)
    with Warehouse(directory) as warehouse:
        sort(warehouse, BY_COUNT, engine=InlineEngine(max_parallelism=1))


@pytest.mark.parametrize("shuffled", [True, False])
def test_decimals_at_the_limit_of_their_type_are_sorted_by_their_truncated_values(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    if not shuffled:
        monkeypatch.undo()
    least = -(10**38) + 1
    table = warehouse.create_table("db.sales", Schema(NestedField(1, "amount", DecimalType(38, 0))))
    for number in range(4):
        amounts = [Decimal(least + (7 * row + number) % 400) for row in range(100)]
        table.append(pa.table({"amount": pa.array([*amounts, None], pa.decimal128(38, 0))}))
    before = warehouse.rows(table)
    options = replace(AT_ONCE, sort="truncate(50, amount)", strategy=Strategy.SORT)
    result = sort(warehouse, SortKey((SortField(1, transform="truncate[50]"),)), options=options)
    assert result.outcome == "committed"
    assert warehouse.rows(table) == before
    found = pa.concat_tables(outputs_of(warehouse, table, "amount"))["amount"].to_pylist()
    units = [-1 if amount is None else 1 + (int(amount) // 50 - least // 50) for amount in found]
    assert units == sorted(units)
    assert len(set(units)) == 10


def test_a_key_that_has_no_order_is_an_error_of_the_table_when_the_sample_is_divided(warehouse: Warehouse) -> None:
    """Samples are divided by kernels too, but not on a worker, whose failures the engine converts."""
    sales(warehouse)
    with pytest.raises(DamagedFile, match="partition transform hour cannot be applied to int64") as caught:
        sort(warehouse, SortKey((SortField(1, transform="hour"),)))
    assert "tidyberg-failure" not in str(caught.value)
