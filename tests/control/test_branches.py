"""Branches end to end: only the named branch changes, and branches that wait can still be published."""

from dataclasses import replace

import pytest
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE
from tests.builders.events_table import REF
from tidyberg.control.control import Control
from tidyberg.model.plan import Skip
from tidyberg.testing import Warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    """Six files on main, six more on a branch that builds on it."""
    table = warehouse.append_files(warehouse.create_table(), 6, 10)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(
        head.snapshot_id, "audit", max_ref_age_ms=10**12, min_snapshots_to_keep=3
    ).create_tag(head.snapshot_id, "v1").commit()
    return warehouse.append_files(table, 6, 10, seed=50, branch="audit")


def heads(table: Table) -> dict[str, int]:
    return {name: found.snapshot_id for name, found in table.refresh().metadata.refs.items()}


def test_a_branch_is_compacted_and_nothing_else_moves(warehouse: Warehouse, control: Control, table: Table) -> None:
    before = heads(table)
    rows, main_rows = warehouse.rows(table, branch="audit"), warehouse.rows(table)
    retention = table.metadata.refs["audit"].model_dump(exclude={"snapshot_id"})

    result = control.compact(REF, replace(AT_ONCE, branch="audit"))

    assert result.outcome == "committed"
    assert heads(table) == {**before, "audit": result.snapshot_id}
    assert table.metadata.refs["audit"].model_dump(exclude={"snapshot_id"}) == retention
    assert warehouse.rows(table, branch="audit") == rows
    assert warehouse.rows(table) == main_rows
    head = table.metadata.snapshot_by_name("audit")
    assert head is not None
    assert head.parent_snapshot_id == before["audit"]


def test_main_is_left_alone_while_a_branch_waits_to_be_published(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    before = heads(table)
    result = control.compact(REF, AT_ONCE)
    assert result.outcome == "refused"
    assert {v.code for row in result.plan.partitions if isinstance(v := row.verdict, Skip)} == {"wap-branch"}
    assert heads(table) == before

    assert control.compact(REF, replace(AT_ONCE, ignore_wap_branches=True)).outcome == "committed"
    assert heads(table)["audit"] == before["audit"]
    assert len(warehouse.rows(table, branch="audit")) == 120


def test_main_is_compacted_after_the_branch_was_published(warehouse: Warehouse, control: Control, table: Table) -> None:
    table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    rows = warehouse.rows(table)
    assert len(rows) == 120
    assert control.compact(REF, AT_ONCE).outcome == "committed"
    assert warehouse.rows(table) == rows
