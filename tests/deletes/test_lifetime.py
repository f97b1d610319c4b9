"""A delete file stays as long as a data file may need it, and no longer [I4]."""

from dataclasses import replace

import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from tests.builders.control import leftovers
from tests.builders.events_table import (
    BY_REGION,
    SCHEMA,
    append,
    compact,
    delete_files,
    make_table,
    options,
    paths,
    rows_of,
)
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions

SMALL = PlanOptions(strategy=Strategy.SMALL_FILES, min_input_files=2, small_file_threshold=15_000)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Unpartitioned: one file that `SMALL` leaves alone, then four small ones."""
    table = warehouse.create_table("db.events", SCHEMA)
    warehouse.append_files(table, 1, rows=lambda _: rows_of(100, "eu", 5000))
    return append(warehouse, table, [0, 1, 2, 3], "eu")


def test_equality_deletes_stay_while_an_unchanged_file_needs_them(warehouse: Warehouse, table: Table) -> None:
    big, small, *_ = paths(warehouse, table)
    delete_equal(table, small, {"amount": [3]})
    before = warehouse.rows(table)

    result = compact(warehouse, SMALL)

    assert result.outcome == "committed"
    assert big in paths(warehouse, table)
    assert warehouse.rows(table) == before
    assert len(delete_files(warehouse, table)) == 1
    assert not leftovers(warehouse, table)
    compact(warehouse, replace(options(), force=True))
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []


def test_equality_deletes_are_removed_when_only_newer_files_remain(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA)
    append(warehouse, table, [0, 1, 2, 3], "eu")
    delete_equal(table, paths(warehouse, table)[0], {"amount": [3]})
    warehouse.append_files(table, 1, rows=lambda _: rows_of(100, "eu", 5000))
    before = warehouse.rows(table)

    assert compact(warehouse, SMALL).outcome == "committed"

    assert len(paths(warehouse, table)) == 2
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []


def test_position_deletes_stay_while_they_name_an_unchanged_file(warehouse: Warehouse, table: Table) -> None:
    big, small, other, *_ = paths(warehouse, table)
    commit_deletes(table, Positions({big: [7], small: [0, 1]}), Positions({other: [5]}, file_scoped=True))
    before = warehouse.rows(table)

    compact(warehouse, SMALL)

    assert warehouse.rows(table) == before
    (left,) = delete_files(warehouse, table)
    assert big in paths(warehouse, table)
    compact(warehouse, replace(options(), force=True))
    assert warehouse.rows(table) == before
    assert left not in delete_files(warehouse, table)


def test_file_scoped_position_deletes_are_removed_with_their_file_and_no_others(
    warehouse: Warehouse, table: Table
) -> None:
    big, small, *_ = paths(warehouse, table)
    delete_positions(table, small, [0, 1])
    delete_positions(table, big, [0, 1])
    before = warehouse.rows(table)
    _, on_big = delete_files(warehouse, table)

    compact(warehouse, SMALL)

    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == [on_big]


def test_deletes_of_a_partition_that_was_not_selected_stay(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    delete_equal(table, files[0], {"amount": [3]})
    commit_deletes(table, EqualTo({"amount": [4]}, files[-1]), Positions({files[-1]: [0]}))
    before = warehouse.rows(table)
    _, *in_us = delete_files(warehouse, table)

    compact(warehouse, options(where="region = 'eu'"))

    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == in_us
    compact(warehouse, options(where="region = 'us'"))
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []


def test_keys_for_the_whole_table_stay_while_another_spec_needs_them(warehouse: Warehouse) -> None:
    """No data file is in the delete's own spec: that alone does not make it dangle."""
    table = warehouse.create_table("db.events", SCHEMA)
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    append(warehouse, table, [0, 1], "eu")
    append(warehouse, table, [2, 3], "us")
    commit_deletes(table, EqualTo({"amount": [3]}, spec_id=0))
    before = warehouse.rows(table)
    assert len(before) == 32

    compact(warehouse, options(where="region = 'eu'"))

    assert warehouse.rows(table) == before
    assert len(delete_files(warehouse, table)) == 1
    compact(warehouse, options())
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []


def test_one_manifest_of_several_deletes_loses_only_what_nothing_needs(warehouse: Warehouse) -> None:
    """Three commits of deletes, of which the compaction may drop the middle one alone."""
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    delete_positions(table, files[-1], [3])
    delete_positions(table, files[0], [3])
    delete_positions(table, files[-2], [3])
    before = warehouse.rows(table)
    oldest, _, newest = delete_files(warehouse, table)
    compact(warehouse, options(where="region = 'eu'"))
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == [oldest, newest]
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["removed-delete-files"] == "1"


def test_removed_delete_files_remain_on_disk_for_older_snapshots(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    delete_positions(table, paths(warehouse, table)[0], [3])
    before = warehouse.rows(table)
    (delete,) = delete_files(warehouse, table)
    result = compact(warehouse)
    assert local_path(delete) in warehouse.files_on_disk(table)
    assert warehouse.rows(table, snapshot_id=result.plan.snapshot_id) == before
