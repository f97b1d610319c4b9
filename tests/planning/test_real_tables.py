"""Plans of tables that a writer wrote and the observer read, with real partition values."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
)

from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan, Rewrite
from tidyberg.model.table import TableRef
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.planning.document import plan_from_json, plan_to_json
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse
from tidyberg.testing.deletes import delete_equal, delete_positions

LATER_MS = 86_400_000
NIGHT = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
NOON = dt.datetime(2026, 1, 3, 12, tzinfo=dt.UTC)


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with Warehouse(tmp_path) as opened:
        yield opened


def plan(table: Table, options: PlanOptions) -> Plan:
    pinned = pin(table, TableRef("lab", ("db",), "events"))
    inventory = take_inventory(table, pinned)
    assert pinned.timestamp_ms is not None
    now_ms = pinned.timestamp_ms + LATER_MS
    statistics = partition_statistics(
        inventory,
        small_file_threshold=options.small_file_threshold,
        hot_window_seconds=options.hot_window_seconds,
        now_ms=now_ms,
    )
    return make_plan(inventory, statistics, options, now_ms=now_ms)


@pytest.mark.parametrize(
    ("column", "transform", "here", "there", "where"),
    [
        ("id", IdentityTransform(), 5, 6, "id = 5"),
        ("count", BucketTransform(16), 5, 6, "count in (5)"),
        ("count", TruncateTransform(10), 5, -5, "count between 0 and 9"),
        ("price", IdentityTransform(), Decimal("1.20"), Decimal("1.30"), "price < 1.25"),
        ("price", TruncateTransform(100), Decimal("1.20"), Decimal("9.30"), "price = 1.2"),
        ("name", IdentityTransform(), "eu/west", "us", "name like 'eu%'"),
        ("name", TruncateTransform(2), "eu-west", "us-west", "name = 'eu-west'"),
        ("day", IdentityTransform(), dt.date(2026, 1, 2), dt.date(2025, 1, 2), "day >= '2026-01-01'"),
        ("day", MonthTransform(), dt.date(2026, 1, 2), None, "day is not null"),
        ("created", DayTransform(), NIGHT, NOON, "created < '2026-01-02 06:00:00'"),
        ("seen", HourTransform(), NIGHT, NOON, "seen <= '2026-01-02T05:30:00+02:00'"),
        ("seen", IdentityTransform(), NIGHT, None, "seen = '2026-01-02 03:00:00'"),
        ("active", IdentityTransform(), True, False, "active"),
        ("clock", IdentityTransform(), dt.time(10), dt.time(11), "clock < '10:30'"),
    ],
)
def test_filters_match_the_partition_values_of_real_tables(
    warehouse: Warehouse, column: str, transform: Transform[Any, Any], here: Any, there: Any, where: str
) -> None:
    source = SAMPLE_SCHEMA.find_field(column)
    spec = PartitionSpec(PartitionField(source.field_id, 1000, transform, "part"))
    table = warehouse.create_table(partition_spec=spec)
    for value in (here, there):
        warehouse.append_files(table, 5, 5, values={column: value})
    unfiltered = plan(table, PlanOptions())
    assert [row.verdict.kind for row in unfiltered.partitions] == ["rewrite", "rewrite"]
    filtered = plan(table, PlanOptions(where=where))
    verdicts = [row.verdict for row in filtered.partitions]
    assert [verdict.files for verdict in verdicts if isinstance(verdict, Rewrite)] == [5]
    assert plan_from_json(plan_to_json(filtered)) == filtered


def test_a_plan_of_a_real_table_lists_the_deletes_that_apply(warehouse: Warehouse) -> None:
    table = warehouse.create_table()
    warehouse.append_files(table, 6, 50)
    paths = sorted(task.file.file_path for task in table.scan().plan_files())
    delete_positions(table, paths[0], [1, 2])
    delete_positions(table, paths[1], [3], file_scoped=False)
    delete_equal(table, paths[2], {"id": [7, 8, 9]})
    warehouse.append_files(table, 1, 50)
    made = plan(table, PlanOptions(force=True))
    assert [(len(group.files), group.deletes) for group in made.groups] == [(7, (0, 1, 2))]
    found = {(delete.kind, delete.referenced_data_file, delete.records) for delete in made.deletes}
    assert found == {("position", paths[0], 2), ("position", None, 1), ("equality", None, 3)}
    assert [delete.equality_ids for delete in made.deletes if delete.kind == "equality"] == [(1,)]
    touched = plan(table, PlanOptions(strategy=Strategy.DELETE_FILES))
    assert sorted(file.path for group in touched.groups for file in group.files) == paths
    assert plan_from_json(plan_to_json(made)) == made


def test_a_table_that_was_never_written_gives_an_empty_plan(warehouse: Warehouse) -> None:
    table = warehouse.create_table()
    pinned = pin(table, TableRef("lab", ("db",), "events"))
    inventory = take_inventory(table, pinned)
    empty = make_plan(inventory, (), PlanOptions(where="id = 1"), now_ms=0)
    assert (empty.is_empty, empty.snapshot_id, empty.health) == (True, None, 100)
