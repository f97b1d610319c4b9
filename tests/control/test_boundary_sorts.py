"""Files that straddle boundaries are sorted and cut there. All rows stay, other files stay, and once is enough."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.control import leftovers, make_control
from tests.builders.interrupted_jobs import die, run_until_dead
from tests.builders.sorted_plans import shuffle_small_groups
from tidyberg.errors import VerificationFailed
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.order.segments import Segments
from tidyberg.execute.kernel.range_sort.merge import MergeRanges
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.plan import BOUNDARIES
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes
from tidyberg.testing.warehouse import local_path

REF = TableRef("lab", ("db",), "events")
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "key", LongType()), NestedField(3, "region", StringType())
)
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
FILES, ROWS = 8, 400
AT = PlanOptions(sort="key", boundaries="250, 500")
WAYS = ["in memory", "in runs on disk", "by a shuffle"]


def take_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "by a shuffle":
        shuffle_small_groups(monkeypatch)
    if way == "in runs on disk":
        monkeypatch.setattr("tidyberg.execute.kernel.sort.sort_limit", lambda _: 8_000)


def late_rows(number: int, region: str = "eu") -> pa.Table:
    """The rows of a file: keys that reach back into the range of the file before, and a few nulls."""
    random = np.random.default_rng(number)
    keys = random.integers(100 * number - 60, 100 * number + 100, ROWS)
    key = pa.array(keys, pa.int64(), mask=random.random(ROWS) < 0.02)
    ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    return pa.table({"id": ids, "key": key, "region": [region] * ROWS})


def events(warehouse: Warehouse, format_version: int = 2, spec: PartitionSpec | None = None) -> Table:
    table = warehouse.create_table(
        "db.events", SCHEMA, spec or UNPARTITIONED_PARTITION_SPEC, format_version=format_version
    )
    for region in ("eu",) if spec is None else ("eu", "us"):
        warehouse.append_files(table, FILES, rows=partial(late_rows, region=region))
    return table


def ranges(warehouse: Warehouse, table: Table) -> dict[str, tuple[int, int]]:
    """The least and the greatest key of each live file that has one."""
    found = {}
    for file in warehouse.live_files(table):
        if file.content is not DataFileContent.DATA:
            continue
        keys = [key for key in pq.read_table(local_path(file.path))["key"].to_pylist() if key is not None]
        if keys:
            found[file.path] = (min(keys), max(keys))
    return found


def straddling(files: dict[str, tuple[int, int]], boundaries: Sequence[int] = (250, 500)) -> set[str]:
    return {path for path, (low, high) in files.items() if any(low < each <= high for each in boundaries)}


def sort(warehouse: Warehouse, options: PlanOptions = AT, engine: InlineEngine | None = None) -> Any:
    with make_control(warehouse, engine) as control:
        return control.compact(REF, options, verify=VerifyMode.FULL)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format_version", [2, 3])
def test_only_files_that_straddle_are_sorted_and_cut(
    warehouse: Warehouse, way: str, format_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    table = events(warehouse, format_version)
    files, lineage = ranges(warehouse, table), format_version == 3
    before = warehouse.rows(table, lineage=lineage)
    assert 2 <= len(straddling(files)) < FILES
    assert sort(warehouse).outcome == "committed"
    assert warehouse.rows(table, lineage=lineage) == before
    after = ranges(warehouse, table)
    assert not straddling(after)
    assert files.keys() - after.keys() == straddling(files)
    written = [pq.read_table(local_path(path))["key"].to_pylist() for path in after.keys() - files.keys()]
    assert all(keys == sorted(keys, key=lambda key: (key is not None, key)) for keys in written)
    assert not leftovers(warehouse, table)
    again = sort(warehouse)
    assert (again.outcome, ranges(warehouse, table)) == ("tidy", after)


@pytest.mark.parametrize("way", WAYS)
def test_rows_descend_through_the_boundaries_and_nulls_come_last(
    warehouse: Warehouse, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    table = events(warehouse)
    before, files = warehouse.rows(table), ranges(warehouse, table)
    assert sort(warehouse, replace(AT, sort="key desc nulls last")).outcome == "committed"
    assert warehouse.rows(table) == before
    after = ranges(warehouse, table)
    assert not straddling(after)
    new = sorted(after.keys() - files.keys())
    for group in ("g00000", "g00001"):
        paths = [path for path in new if f"-{group}" in path]
        keys = [key for path in paths for key in pq.read_table(local_path(path))["key"].to_pylist()]
        assert len(paths) > 1
        assert keys == sorted(keys, key=lambda key: (key is None, -(key or 0)))


@pytest.mark.parametrize("way", WAYS)
def test_deletes_of_files_that_straddle_are_applied_and_those_of_others_stay(
    warehouse: Warehouse, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    for version in (2, 3):
        table = events(warehouse, version)
        files = ranges(warehouse, table)
        of_all = {path: [*range(0, ROWS, 9), ROWS - 1] for path in files}
        commit_deletes(table, Vectors(of_all) if version == 3 else Positions(of_all))
        commit_deletes(table, EqualTo({"id": [*range(5, FILES * ROWS, 90)]}))
        before = warehouse.rows(table, lineage=version == 3)
        assert len(before) < FILES * ROWS * 0.9
        assert sort(warehouse).outcome == "committed"
        assert warehouse.rows(table, lineage=version == 3) == before
        assert files.keys() - ranges(warehouse, table).keys() == straddling(files)
        warehouse.catalog.drop_table("db.events")


def test_files_that_overlap_without_straddling_stay(warehouse: Warehouse) -> None:
    table = events(warehouse)
    files = ranges(warehouse, table)
    assert sort(warehouse, replace(AT, boundaries="2000, -5000")).outcome == "tidy"
    assert ranges(warehouse, table) == files


def test_each_partition_is_cut_by_itself(warehouse: Warehouse) -> None:
    table = events(warehouse, spec=BY_REGION)
    before = warehouse.rows(table)
    result = sort(warehouse)
    assert (result.outcome, result.groups_committed) == ("committed", 4)
    assert warehouse.rows(table) == before
    assert not straddling(ranges(warehouse, table))
    assert {group.boundaries for group in result.plan.groups} == {("fa00000000000000",), ("f401000000000000",)}


def test_a_plan_with_boundaries_can_be_applied_and_the_snapshot_records_them(warehouse: Warehouse) -> None:
    table = events(warehouse)
    with make_control(warehouse) as control:
        plan = control.plan(REF, AT)
        assert control.apply(plan).outcome == "committed"
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[BOUNDARIES] == "250, 500"
    assert not straddling(ranges(warehouse, table))


def test_the_bounds_of_files_prove_cuts_after_their_snapshot_is_gone(warehouse: Warehouse) -> None:
    """Other boundaries, of which the files straddle none, are no reason to sort them again either."""
    table = events(warehouse)
    assert sort(warehouse).outcome == "committed"
    files = ranges(warehouse, table)
    assert sort(warehouse, replace(AT, boundaries="500")).outcome == "tidy"
    assert ranges(warehouse, table) == files


@pytest.mark.parametrize("way", WAYS)
def test_outputs_on_both_sides_of_a_boundary_are_refused(
    warehouse: Warehouse, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    table = events(warehouse)
    on_disk = warehouse.files_on_disk(table)

    def one_segment(_: Segments, rows: pa.Table | pa.RecordBatch) -> Any:
        return np.zeros(rows.num_rows, np.int64)

    monkeypatch.setattr(Segments, "of", one_segment)
    with pytest.raises(VerificationFailed, match="but outputs end at"):
        sort(warehouse)
    assert warehouse.files_on_disk(table) == on_disk


def test_rows_of_another_writer_are_kept_and_its_deletes_are_applied(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = events(warehouse)
    path = min(straddling(ranges(warehouse, table)))
    original = InlineEngine.run
    calls: list[int] = []

    def interrupted(self: InlineEngine, *args: Any, **kwargs: Any) -> Any:
        if not calls:
            calls.append(1)
            warehouse.append_files(warehouse.catalog.load_table("db.events"), 1, rows=lambda _: late_rows(FILES))
            commit_deletes(warehouse.catalog.load_table("db.events"), Positions({path: [3]}, file_scoped=True))
        yield from original(self, *args, **kwargs)

    monkeypatch.setattr(InlineEngine, "run", interrupted)
    result = sort(warehouse)
    assert result.outcome == "committed"
    rows = warehouse.rows(table)
    assert len(rows) == (FILES + 1) * ROWS - 1
    assert not straddling(ranges(warehouse, table))
    assert not leftovers(warehouse, table)


def test_a_killed_job_is_continued(warehouse: Warehouse) -> None:
    table = events(warehouse)
    before = warehouse.rows(table)
    run_until_dead(die_while_sorting, str(warehouse.directory))
    assert sort(warehouse).outcome == "committed"
    assert warehouse.rows(table) == before
    assert not straddling(ranges(warehouse, table))
    assert not leftovers(warehouse, table)


def die_while_sorting(directory: str) -> None:
    """In a process of its own: sort, and be gone in the middle of the second reduce task."""
    patched = pytest.MonkeyPatch()
    shuffle_small_groups(patched)
    calls: list[int] = []
    original = MergeRanges.reduce

    def counted(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            die()
        return original(*args)

    patched.setattr(MergeRanges, "reduce", counted)
    with Warehouse(directory) as warehouse:
        sort(warehouse, engine=InlineEngine(max_parallelism=1))
