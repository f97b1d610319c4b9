"""Deletes that are committed between planning and our commit are neither lost nor applied twice [I2 I3 I4]."""

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table

from tests.builders.control import leftovers
from tests.builders.engines import Meddling
from tests.builders.events_table import (
    BY_REGION,
    SCHEMA,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    ids,
    make_table,
    options,
    paths,
)
from tidyberg.errors import Conflict
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions

every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@every_spec
def test_an_equality_delete_and_a_later_append_during_the_job_both_count(
    warehouse: Warehouse, spec: PartitionSpec
) -> None:
    """The race of apache/iceberg#10312: the new delete must survive the commit, and not apply to the later row."""
    table = warehouse.create_table("db.events", SCHEMA, spec)
    append(warehouse, table, [0, 1, 2, 3], "eu", per_commit=4)
    first = paths(warehouse, table)[0]

    def meddle() -> None:
        delete_equal(table, first, {"id": [3, 14]})
        append(warehouse, table, [0], "eu")

    result = compact(warehouse, engine=Meddling(meddle))

    expected = sorted([*(i for i in range(40) if i not in (3, 14)), *range(10)])
    assert result.outcome == "committed"
    assert ids(warehouse, table) == expected
    assert len(delete_files(warehouse, table)) == 1
    assert [file.sequence_number for file in data_files(warehouse, table)] == [1, 3]
    assert not leftovers(warehouse, table)

    assert compact(warehouse).outcome == "committed"
    assert ids(warehouse, table) == expected
    assert delete_files(warehouse, table) == []


@every_spec
def test_an_equality_delete_during_the_job_outlives_those_that_were_applied(
    warehouse: Warehouse, spec: PartitionSpec
) -> None:
    table = make_table(warehouse, spec)
    first = paths(warehouse, table)[0]
    delete_equal(table, first, {"id": [3]})
    delete_positions(table, first, [0])

    compact(warehouse, engine=Meddling(lambda: delete_equal(table, first, {"id": [14, 3]})))

    assert ids(warehouse, table) == [i for i in range(60) if i not in (0, 3, 14)]
    assert len(delete_files(warehouse, table)) == 1


@pytest.mark.parametrize("file_scoped", [True, False], ids=["of-the-file", "of-the-partition"])
def test_a_position_delete_during_the_job_leaves_its_group_out_and_no_other(
    warehouse: Warehouse, file_scoped: bool
) -> None:
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    delete_positions(table, files[0], [0])
    delete_positions(table, files[-1], [0])

    engine = Meddling(lambda: delete_positions(table, files[1], [4], file_scoped=file_scoped))
    result = compact(warehouse, engine=engine, replans=0)

    assert result.groups_committed == 1
    assert len(result.groups_left) == 1
    expected = [i for i in range(60) if i not in (0, 14, 50)]
    assert ids(warehouse, table) == expected
    assert set(files[:4]) < set(paths(warehouse, table))
    assert len(delete_files(warehouse, table)) == 2
    assert not leftovers(warehouse, table)

    assert compact(warehouse).outcome == "committed"
    assert ids(warehouse, table) == expected
    assert delete_files(warehouse, table) == []


def test_a_position_delete_on_a_newer_file_is_no_conflict(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)

    def meddle() -> None:
        append(warehouse, table, [6], "eu")
        delete_positions(table, paths(warehouse, table)[-1], [4])

    result = compact(warehouse, engine=Meddling(meddle))

    assert not result.groups_left
    assert ids(warehouse, table) == [i for i in range(70) if i != 64]
    assert len(delete_files(warehouse, table)) == 1


def test_inputs_that_another_writer_replaced_are_left_out(warehouse: Warehouse) -> None:
    """Another compaction removed the files and deletes meanwhile: ours must not bring them back."""
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    delete_positions(table, files[0], [0])
    delete_positions(table, files[-1], [0])
    before = warehouse.rows(table)

    def other() -> None:
        compact(warehouse, options(where="region = 'eu'"), jobs="other.db")

    result = compact(warehouse, engine=Meddling(other))

    assert result.groups_committed == 1
    assert warehouse.rows(table) == before
    assert delete_files(warehouse, table) == []
    assert compact(warehouse).outcome == "tidy"


def test_a_delete_file_that_still_had_readers_when_the_job_began_can_go_at_its_end(warehouse: Warehouse) -> None:
    """The commit's parent decides which deletes can be removed, not the plan's snapshot."""
    table = make_table(warehouse, BY_REGION)
    with table.update_spec() as update:
        update.remove_field("region")
    commit_deletes(table, EqualTo({"amount": [3]}, spec_id=table.spec().spec_id))

    def drop_us() -> None:
        table.refresh().delete("region == 'us'")

    compact(warehouse, options(where="region = 'eu'"), engine=Meddling(drop_us))

    assert ids(warehouse, table) == [i for i in range(40) if i % 5 != 3]
    assert delete_files(warehouse, table) == []


def test_an_append_during_the_job_keeps_no_positions_alive_that_cannot_name_it(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    commit_deletes(table, Positions({files[0]: [0], files[1]: [0]}))

    compact(warehouse, engine=Meddling(lambda: append(warehouse, table, [6], "eu")))

    assert ids(warehouse, table) == [i for i in range(70) if i not in (0, 10)]
    assert delete_files(warehouse, table) == []


@pytest.mark.parametrize("by_keys", [False, True], ids=["positions", "keys"])
def test_a_branch_moved_to_another_history_is_a_conflict(warehouse: Warehouse, by_keys: bool) -> None:
    """Deletes of that history may be older than the plan's snapshot and still unknown to it."""
    table = make_table(warehouse, BY_REGION)
    files = paths(warehouse, table)
    head = table.refresh().current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    delete = EqualTo({"id": [14]}, files[0]) if by_keys else Positions({files[1]: [4]}, file_scoped=True)
    commit_deletes(table, delete, branch="audit")
    audited = table.refresh().metadata.snapshot_by_name("audit")
    assert audited is not None
    append(warehouse, table, [6], "us")

    def publish_audit() -> None:
        _move_main(table, audited.snapshot_id)

    with pytest.raises(Conflict):
        compact(warehouse, options(where="region = 'eu'"), engine=Meddling(publish_audit), replans=0)

    assert ids(warehouse, table) == [i for i in range(60) if i != 14]
    assert not leftovers(warehouse, table)


def _move_main(table: Table, snapshot_id: int) -> None:
    table.refresh().manage_snapshots().set_current_snapshot(snapshot_id=snapshot_id).commit()
