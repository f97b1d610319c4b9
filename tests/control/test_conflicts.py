"""Groups that other writers changed meanwhile are left out, planned again, and committed in the next round."""

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, chunks, leftovers, make_control
from tests.builders.engines import Meddling, OneAtATime
from tests.builders.sales_table import REF, delete_in, regional
from tidyberg.errors import Conflict, TableReplaced
from tidyberg.model.job import JobStatus
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import Positions, commit_deletes


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse)


def test_a_group_that_conflicted_is_planned_again_and_committed(warehouse: Warehouse, table: Table) -> None:
    engine = Meddling(lambda: delete_in(warehouse, table, "eu"))
    with make_control(warehouse, engine) as control:
        result = control.compact(REF, AT_ONCE)
    assert (result.groups_committed, result.groups_left, result.job.commits) == (2, (), 2)
    assert any("planned again" in note for note in result.job.notes)
    assert (result.stats.files_before, result.stats.files_after, result.stats.files_compacted) == (8, 2, 8)
    assert len(warehouse.rows(table)) == 79
    assert len(warehouse.live_files(table)) == 2
    assert not leftovers(warehouse, table)


def test_when_all_conflict_the_next_round_commits_them(warehouse: Warehouse, table: Table) -> None:
    def both() -> None:
        delete_in(warehouse, table, "eu")
        delete_in(warehouse, table, "us")

    with make_control(warehouse, Meddling(both)) as control:
        result = control.compact(REF, AT_ONCE)
    assert (result.outcome, result.groups_committed) == ("committed", 2)
    assert len(warehouse.rows(table)) == 78
    assert len(set(chunks(table))) == len(chunks(table)) == 1
    assert not leftovers(warehouse, table)


def test_a_group_that_keeps_conflicting_is_left_after_so_many_rounds(warehouse: Warehouse, table: Table) -> None:
    deleted: list[int] = []

    def again() -> None:
        file = min(f.path for f in warehouse.live_files(table) if "region=eu" in f.path)
        commit_deletes(table, Positions({file: [len(deleted)]}, file_scoped=True))
        deleted.append(1)

    with make_control(warehouse, Meddling(again, times=99), replans=2) as control:
        result = control.compact(REF, AT_ONCE)
    assert (result.groups_committed, len(result.groups_left), len(deleted)) == (1, 1, 3)
    assert len(warehouse.rows(table)) == 77
    assert not leftovers(warehouse, table)


def test_only_the_partitions_of_groups_that_conflicted_are_planned_again(warehouse: Warehouse, table: Table) -> None:
    def meddle() -> None:
        delete_in(warehouse, table, "eu")
        warehouse.append_files(table, 6, 5, values={"region": "asia"}, seed=50)

    with make_control(warehouse, Meddling(meddle)) as control:
        result = control.compact(REF, AT_ONCE)
    assert result.groups_committed == 2
    assert sum("region=asia" in file.path for file in warehouse.live_files(table)) == 6


def test_a_plan_that_was_given_is_not_planned_again(warehouse: Warehouse, table: Table) -> None:
    with make_control(warehouse, Meddling(lambda: delete_in(warehouse, table, "eu"))) as control:
        result = control.apply(control.plan(REF, AT_ONCE))
    assert (result.groups_committed, len(result.groups_left)) == (1, 1)
    assert not leftovers(warehouse, table)


def roll_back(table: Table) -> None:
    oldest = table.refresh().metadata.snapshots[1].snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id=oldest).commit()


def test_a_branch_rolled_back_while_the_job_runs_is_planned_again(warehouse: Warehouse, table: Table) -> None:
    with make_control(warehouse, Meddling(lambda: roll_back(table))) as control:
        result = control.compact(REF, AT_ONCE)
    assert result.outcome == "committed"
    assert len(warehouse.rows(table)) == 40
    assert len(warehouse.live_files(table)) == 1
    assert not leftovers(warehouse, table)


def test_a_branch_rolled_back_between_chunks_loses_nothing_of_what_it_holds(warehouse: Warehouse, table: Table) -> None:
    from tests.builders.control import ONE_BY_ONE

    with make_control(warehouse, OneAtATime(lambda _: roll_back(table)), replans=0) as control:
        result = control.compact(REF, ONE_BY_ONE)
    assert (result.groups_committed, len(result.groups_left)) == (1, 1)
    assert len(warehouse.rows(table)) == 40
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    assert not leftovers(warehouse, table)


def test_the_starting_snapshot_may_be_expired_between_chunks(warehouse: Warehouse, table: Table) -> None:
    from tests.builders.control import ONE_BY_ONE

    before, start = warehouse.rows(table), table.refresh().metadata.current_snapshot_id
    assert start is not None

    def expire(_: int) -> None:
        table.refresh().maintenance.expire_snapshots().by_id(start).commit()

    with make_control(warehouse, OneAtATime(expire)) as control:
        result = control.compact(REF, ONE_BY_ONE)
    assert result.groups_committed == 2
    assert warehouse.rows(table) == before


def test_a_job_whose_commit_was_expired_meanwhile_still_removes_what_conflicted(
    warehouse: Warehouse, table: Table
) -> None:
    from tests.builders.control import ONE_BY_ONE

    def delete_and_expire(_: int) -> None:
        committed = table.refresh().metadata.current_snapshot_id
        assert committed is not None
        delete_in(warehouse, table, "us")
        table.refresh().maintenance.expire_snapshots().by_id(committed).commit()

    with make_control(warehouse, OneAtATime(delete_and_expire), replans=0) as control:
        result = control.compact(REF, ONE_BY_ONE)
    assert (result.groups_committed, len(result.groups_left)) == (1, 1)
    assert not result.job.unresolved
    assert not [path for path in leftovers(warehouse, table) if path.endswith(".parquet")]


def test_a_table_created_again_at_the_same_location_between_chunks_is_left_alone(
    warehouse: Warehouse, table: Table
) -> None:
    from tests.builders.control import ONE_BY_ONE
    from tests.builders.sales_table import BY_REGION, SCHEMA

    location, before = table.location(), warehouse.rows(table)
    last: list[str] = []

    def replace_table(_: int) -> None:
        last.append(table.refresh().metadata_location)
        warehouse.catalog.drop_table("db.sales")
        anew = warehouse.catalog.create_table("db.sales", SCHEMA, partition_spec=BY_REGION, location=location)
        warehouse.append_files(anew, 4, 10, values={"region": "eu"}, seed=70)

    with make_control(warehouse, OneAtATime(replace_table)) as control:
        result = control.compact(REF, ONE_BY_ONE)
        (job,) = control.history(REF)
    assert (result.outcome, result.groups_committed) == ("partly", 1)
    assert isinstance(result.failure, TableReplaced)
    assert (job.status, job.unresolved) == (JobStatus.SUCCEEDED, False)
    anew = warehouse.catalog.load_table("db.sales")
    assert len(warehouse.rows(anew)) == 40
    assert not chunks(anew)
    with make_control(warehouse) as control:
        control.recover()
    assert warehouse.referenced_files(anew) <= warehouse.files_on_disk(anew)
    old = warehouse.catalog.register_table("db.old", last[0])
    assert len(chunks(old)) == 1
    assert warehouse.rows(old) == before, "what was committed to the old table is there still"


def test_the_conflict_is_reported_when_nothing_is_left_to_plan(warehouse: Warehouse, table: Table) -> None:
    def empty() -> None:
        warehouse.catalog.load_table("db.sales").delete(EqualTo(term="region", value="eu"))
        warehouse.catalog.load_table("db.sales").delete(EqualTo(term="region", value="us"))

    with make_control(warehouse, Meddling(empty)) as control, pytest.raises(Conflict, match="nothing to do"):
        control.compact(REF, AT_ONCE)
    assert not leftovers(warehouse, table)
