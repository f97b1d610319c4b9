from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.events_table import REF
from tests.builders.inventories import BY_REGION, SCHEMA
from tidyberg.errors import DamagedFile, UnknownReference
from tidyberg.observe.pin import pin
from tidyberg.testing import Warehouse, forge_static_table


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.create_table("db.events", SCHEMA, BY_REGION, {"owner": "me"})


def test_main_of_an_empty_table_has_no_snapshot(table: Table) -> None:
    pinned = pin(table, REF)
    assert pinned.snapshot_id is None
    assert pinned.timestamp_ms is None
    assert pinned.sequence_number == 0
    assert pinned.properties["owner"] == "me"


def test_pinned_state_is_the_head_of_main_with_its_history(warehouse: Warehouse, table: Table) -> None:
    warehouse.append_files(table, 2, 3, files_per_commit=1)
    head = table.current_snapshot()
    assert head is not None
    pinned = pin(table, REF)
    assert pinned.snapshot_id == head.snapshot_id
    assert pinned.sequence_number == 2
    assert pinned.timestamp_ms == head.timestamp_ms
    assert pinned.uuid == str(table.metadata.table_uuid)
    assert pinned.metadata_location == table.metadata_location
    assert len(pinned.snapshots) == 2
    info = pinned.snapshots[head.snapshot_id]
    assert (info.operation, info.parent_id) == ("append", head.parent_snapshot_id)
    assert info.summary["added-data-files"] == str(len(list(table.scan().plan_files())) // 2)


def test_a_branch_is_pinned_at_its_own_head(warehouse: Warehouse, table: Table) -> None:
    warehouse.append_files(table, 1, 1)
    main = pin(table, REF)
    assert main.snapshot_id is not None
    table.manage_snapshots().create_branch(main.snapshot_id, "audit").commit()
    warehouse.append_files(table, 1, 1, branch="audit")
    assert pin(table, REF, "audit").snapshot_id != main.snapshot_id
    assert pin(table, REF).snapshot_id == main.snapshot_id


def test_an_unknown_branch_is_refused_with_the_names_of_those_that_exist(warehouse: Warehouse, table: Table) -> None:
    warehouse.append_files(table, 1, 1)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").create_tag(head.snapshot_id, "v1").commit()
    with pytest.raises(UnknownReference, match=r"no branch 'nowhere'.*audit, main\."):
        pin(table, REF, "nowhere")


def test_a_tag_cannot_be_pinned(warehouse: Warehouse, table: Table) -> None:
    warehouse.append_files(table, 1, 1)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_tag(head.snapshot_id, "release").commit()
    with pytest.raises(UnknownReference, match="'release' is a tag"):
        pin(table, REF, "release")


def test_a_branch_without_its_snapshot_is_damage(tmp_path: Path) -> None:
    lost = {"lost": {"snapshot-id": 99, "type": "branch"}}
    table = forge_static_table(tmp_path, [], schema=SCHEMA, specs=[BY_REGION], refs=lost)
    with pytest.raises(DamagedFile, match="snapshot 99"):
        pin(table, REF, "lost")


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_every_format_version_can_be_pinned(tmp_path: Path, format_version: int) -> None:
    table = forge_static_table(tmp_path, [], schema=SCHEMA, specs=[BY_REGION], format_version=format_version)
    pinned = pin(table, REF)
    assert (pinned.format_version, pinned.snapshot_id) == (format_version, 1)
    assert set(pinned.specs) == {0}
