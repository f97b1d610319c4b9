"""Which delete files are removed with the files they applied to, and which must stay for others [I4]."""

from dataclasses import replace

import pytest
from pyiceberg.table import Table

from tests.builders.finished_groups import groups_of, inventory_of, plan_for
from tests.builders.sales_table import regional
from tidyberg.commit.conflicts import identities, validate_groups
from tidyberg.commit.dangling import dangling_deletes
from tidyberg.model.inventory import Inventory
from tidyberg.model.plan import DeleteFile, FileGroup, Mode
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import delete_equal, delete_positions


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=("eu", "us"))


def deletes_of(inventory: Inventory) -> list[DeleteFile]:
    return [
        DeleteFile(row["path"], row["kind"], row["size"], row["records"], row["sequence_number"], "")
        for row in inventory.delete_files.to_pylist()
    ]


def removed(parent: Inventory, groups: list[FileGroup]) -> int:
    """How many of the parent's delete files go when these groups are replaced, all deletes having been applied."""
    validation = validate_groups(groups, parent, plan_for(parent, deletes_of(parent)))
    assert not validation.conflicts
    return len(dangling_deletes(parent, validation.replaceable, set(identities(parent.delete_files))))


def part_of(group: FileGroup, files: int) -> FileGroup:
    return FileGroup(
        group.group_id, group.spec_id, group.partition_path, group.files[:files], 1, "encode", 1.0, group.estimate
    )


def test_a_file_scoped_delete_goes_with_its_file_only(table: Table) -> None:
    eu, us = groups_of(inventory_of(table))
    delete_positions(table, eu.files[0].path, [0])
    parent = inventory_of(table)
    assert removed(parent, [us]) == 0
    assert removed(parent, [part_of(eu, 1)]) == 1


def test_a_partition_scoped_delete_stays_while_a_file_of_its_time_is_left(table: Table) -> None:
    eu, us = groups_of(inventory_of(table))
    delete_positions(table, eu.files[0].path, [0], file_scoped=False)
    parent = inventory_of(table)
    assert removed(parent, [part_of(eu, 3)]) == 0
    assert removed(parent, [us]) == 0
    assert removed(parent, [eu]) == 1


def test_a_position_delete_does_not_stay_for_files_that_came_after_it(warehouse: Warehouse, table: Table) -> None:
    eu, _ = groups_of(inventory_of(table))
    delete_positions(table, eu.files[0].path, [0], file_scoped=False)
    warehouse.append_files(table, 1, 5, values={"region": "eu"})
    assert removed(inventory_of(table), [eu]) == 1


def test_an_equality_delete_stays_while_an_older_file_of_its_partition_is_left(
    warehouse: Warehouse, table: Table
) -> None:
    eu, us = groups_of(inventory_of(table))
    delete_equal(table, eu.files[0].path, {"id": [1]})
    warehouse.append_files(table, 1, 5, values={"region": "eu"})
    parent = inventory_of(table)
    assert removed(parent, [part_of(eu, 3)]) == 0
    assert removed(parent, [us]) == 0
    assert removed(parent, [eu]) == 1


def test_a_global_equality_delete_stays_while_any_older_file_is_left(warehouse: Warehouse) -> None:
    table = warehouse.create_table()
    warehouse.append_files(table, 2, 10)
    delete_equal(table, inventory_of(table).data_files["path"][0].as_py(), {"count": [1]})
    with table.update_spec() as update:
        update.add_identity("active")
    warehouse.append_files(table, 2, 10, seed=7)
    parent = inventory_of(table)
    assert parent.delete_files["scope"].to_pylist() == ["global"]
    groups = groups_of(parent)
    old = [group for group in groups if group.spec_id == 0]
    assert removed(parent, old) == 1  # files of the new spec are newer than it
    assert removed(parent, [group for group in groups if group.spec_id != 0]) == 0


def test_only_deletes_that_were_applied_are_considered(table: Table) -> None:
    eu, _ = groups_of(inventory_of(table))
    delete_positions(table, eu.files[0].path, [0])
    parent = inventory_of(table)
    validation = validate_groups([eu], parent, plan_for(parent, deletes_of(parent)))
    assert dangling_deletes(parent, validation.replaceable, set()).num_rows == 0


def test_an_equality_delete_of_v2_stays_for_files_whose_positions_were_merged(table: Table) -> None:
    eu, _ = groups_of(inventory_of(table))
    delete_positions(table, eu.files[0].path, [0])
    delete_equal(table, eu.files[0].path, {"id": [1]})
    parent = inventory_of(table)
    merged = replace(eu, mode="deletes", deletes=(0, 1))
    assert removed(parent, [merged]) == 1
    assert removed(parent, [eu]) == 2


@pytest.mark.parametrize("mode", ["encode", "deletes"])
def test_a_file_that_was_removed_and_added_again_is_a_conflict(table: Table, mode: Mode) -> None:
    """The deletes that the plan saw do not apply to a file with a higher sequence number [I3]."""
    parent = inventory_of(table)
    eu, us = groups_of(parent)
    older = replace(eu.files[0], sequence_number=eu.files[0].sequence_number - 1)
    changed = replace(eu, files=(older, *eu.files[1:]), mode=mode)
    validation = validate_groups([changed, us], parent, plan_for(parent, deletes_of(parent)))
    assert "removed and added again" in validation.conflicts[eu.group_id]
    assert us.group_id not in validation.conflicts
