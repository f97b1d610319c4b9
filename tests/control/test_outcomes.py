"""In rare orders of events, a job must not lose rows or files of the table, and must leave no files behind."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tests.builders.control import AT_ONCE, chunks, fences, leftovers, make_control
from tests.builders.engines import Meddling
from tests.builders.interrupted_jobs import go_on, kill
from tests.builders.sales_table import REF, REGIONS, delete_in, regional
from tidyberg.commit import cleanup
from tidyberg.commit.fence import fence_name
from tidyberg.control.control import Control
from tidyberg.control.job import JobWork
from tidyberg.control.uncommitted_files import UncommittedFiles
from tidyberg.errors import CommitStateUnknown, Conflict, StalePlan, StorageError, TableReplaced
from tidyberg.model.job import JobStatus
from tidyberg.model.report import Event, Notice
from tidyberg.storage import table_files as objects
from tidyberg.testing import Warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=REGIONS)


def rename(warehouse: Warehouse) -> Table:
    warehouse.catalog.rename_table("db.sales", "db.renamed")
    return warehouse.catalog.load_table("db.renamed")


def test_metadata_of_a_commit_outlives_a_death_before_it_was_forgotten_and_a_rename(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is noted as written may be the table's very metadata."""
    before = warehouse.rows(table)
    with make_control(warehouse) as control:
        monkeypatch.setattr(control.store, "forget_paths", lambda _: None)  # died before it
        monkeypatch.setattr(control.store, "forget", lambda _: None)
        job = control.compact(REF, AT_ONCE).job
        control.store.save(replace(job, status=JobStatus.RUNNING))
    renamed = rename(warehouse)
    with make_control(warehouse) as control:
        control.recover()
        assert control.history(REF)[0].status is JobStatus.SUCCEEDED
    assert warehouse.referenced_files(renamed) <= warehouse.files_on_disk(renamed)
    assert warehouse.rows(renamed) == before


def test_a_job_with_nothing_open_is_recovered_although_its_table_is_gone(warehouse: Warehouse, table: Table) -> None:
    with make_control(warehouse) as control:
        job = control.compact(REF, AT_ONCE).job
        assert job.intent is not None
        assert not job.intent.groups
        control.store.save(replace(job, status=JobStatus.RUNNING))
        rename(warehouse)
        assert len(control.recover()) == 1
        assert control.recover() == []


def test_a_job_that_ends_while_recovery_looks_for_dead_ones_keeps_its_outcome(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before recovery holds the table, the job may have succeeded, or another recovery may have concluded it."""
    with make_control(warehouse) as control:
        job = control.compact(REF, AT_ONCE).job
        running = replace(job, status=JobStatus.RUNNING, commits=0, snapshot_id=None)
        monkeypatch.setattr(control.store, "find", lambda **_: [running])
        assert control.recover() == []
        assert control.store.get(job.job_id) == job


def test_adopted_outputs_are_removed_when_the_job_fails_before_it_begins(warehouse: Warehouse, table: Table) -> None:
    kill(warehouse)
    assert leftovers(warehouse, table)

    def fail(event: Event) -> None:
        if isinstance(event, Notice) and "taken over by the next job" in event.message:
            raise KeyboardInterrupt

    with make_control(warehouse) as control:
        with pytest.raises(KeyboardInterrupt):
            control.compact(REF, AT_ONCE, on_event=fail)
        assert leftovers(warehouse, table)
        assert control.recover()
    assert not leftovers(warehouse, table)


def roll_back_and_go_on(warehouse: Warehouse, table: Table, *, gap: bool) -> None:
    """Undo the last commit, write on, and forget that it ever was, and perhaps also what shows that."""
    undone = table.refresh().metadata.current_snapshot_id
    assert undone is not None
    parent = table.metadata.snapshot_by_id(undone)
    assert parent is not None
    assert parent.parent_snapshot_id is not None
    table.manage_snapshots().set_current_snapshot(snapshot_id=parent.parent_snapshot_id).commit()
    warehouse.append_files(table.refresh(), 1, 5, values={"region": "asia"}, seed=70)
    between = table.refresh().metadata.current_snapshot_id
    assert between is not None
    warehouse.append_files(table.refresh(), 1, 5, values={"region": "asia"}, seed=71)
    table.refresh().maintenance.expire_snapshots().by_ids([undone, between] if gap else [undone]).commit()


def outputs_left(warehouse: Warehouse, table: Table) -> set[str]:
    """Here expired snapshots leave files of their own."""
    return {path for path in leftovers(warehouse, table) if "/tidyberg-" in path}


@pytest.mark.parametrize("gap", [False, True])
def test_rows_whose_deletion_was_undone_meanwhile_are_not_lost(warehouse: Warehouse, table: Table, gap: bool) -> None:
    delete_in(warehouse, table, "eu")
    after: list[Any] = []

    def meddle() -> None:
        roll_back_and_go_on(warehouse, table, gap=gap)
        after.append(warehouse.rows(table))

    with make_control(warehouse, Meddling(meddle)) as control:
        control.compact(REF, AT_ONCE)
    assert warehouse.rows(table) == after[0]
    assert not outputs_left(warehouse, table)


@pytest.mark.parametrize("gap", [False, True])
def test_rows_whose_deletion_was_undone_are_not_lost_when_a_job_continues(
    warehouse: Warehouse, table: Table, gap: bool
) -> None:
    delete_in(warehouse, table, "eu")
    kill(warehouse, calls=5)
    roll_back_and_go_on(warehouse, table, gap=gap)
    before = warehouse.rows(table)
    assert go_on(warehouse) == [5]  # planned again; the others are reused
    assert warehouse.rows(table) == before
    assert not outputs_left(warehouse, table)


def recreate_before(method: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(JobWork, method)

    def recreated(*args: Any) -> Any:
        warehouse.catalog.drop_table("db.sales")
        regional(warehouse)
        return original(*args)

    monkeypatch.setattr(JobWork, method, recreated)


def test_a_table_created_again_before_conflicts_are_replanned_is_left_alone(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    recreate_before("plan_again", warehouse, monkeypatch)
    with make_control(warehouse, Meddling(lambda: delete_in(warehouse, table, "eu"))) as control:
        result = control.compact(REF, AT_ONCE)
    assert isinstance(result.failure, TableReplaced)
    assert not chunks(warehouse.catalog.load_table("db.sales"))


def test_a_table_created_again_while_the_job_waits_for_it_is_left_alone(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    recreate_before("prepare", warehouse, monkeypatch)
    with make_control(warehouse) as control, pytest.raises(TableReplaced):
        control.compact(REF, AT_ONCE)
    assert not chunks(warehouse.catalog.load_table("db.sales"))


def test_a_catalog_that_shows_an_old_state_after_the_commit_costs_no_file(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata of the commit is in no snapshot of that state."""
    old = warehouse.catalog.load_table("db.sales")
    before = warehouse.rows(table)
    with make_control(warehouse, Meddling(lambda: delete_in(warehouse, table, "eu")), replans=0) as control:
        monkeypatch.setattr(UncommittedFiles, "_fresh", lambda _: old)
        job = control.compact(REF, AT_ONCE).job
        assert job.unresolved
    monkeypatch.undo()
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    assert len(warehouse.rows(table)) == len(before) - 1
    with make_control(warehouse) as control:
        control.recover()
    assert not leftovers(warehouse, table)
    assert len(warehouse.rows(table)) == len(before) - 1


def branch_off(warehouse: Warehouse, table: Table) -> None:
    """A branch that waits to be published."""
    head = table.refresh().metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "audit").commit()
    warehouse.append_files(table.refresh(), 1, 5, values={"region": "eu"}, seed=80, branch="audit")


def test_a_branch_that_waits_to_be_published_when_a_plan_is_applied_is_not_locked_out(
    warehouse: Warehouse, control: Control, table: Table
) -> None:
    plan, willing = control.plan(REF, AT_ONCE), control.plan(REF, replace(AT_ONCE, ignore_wap_branches=True))
    branch_off(warehouse, table)
    with pytest.raises(StalePlan, match="branch audit is ahead of main"):
        control.apply(plan)
    assert not chunks(table.refresh())
    assert not leftovers(warehouse, table)
    assert control.apply(willing).outcome == "committed"


def test_a_branch_that_begins_to_wait_while_the_job_runs_is_not_locked_out(warehouse: Warehouse, table: Table) -> None:
    with (
        make_control(warehouse, Meddling(lambda: branch_off(warehouse, table))) as control,
        pytest.raises(Conflict, match="branch audit is ahead of main"),
    ):
        control.compact(REF, AT_ONCE)
    assert not chunks(table.refresh())
    assert not leftovers(warehouse, table)


def map_names(table: Table) -> None:
    names = [{"field-id": field.field_id, "names": [f"old_{field.name}"]} for field in table.schema().fields]
    with table.refresh().transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": json.dumps(names)})


def test_groups_that_were_read_by_another_name_mapping_are_rewritten(warehouse: Warehouse, table: Table) -> None:
    """Files without field ids would hold other values now."""
    engine = Meddling(lambda: map_names(table))
    with make_control(warehouse, engine) as control:
        result = control.compact(REF, AT_ONCE)
    assert result.groups_committed == 5
    assert any("name mapping" in note for note in result.job.notes)
    assert not leftovers(warehouse, table)


def test_a_dead_jobs_groups_of_another_name_mapping_are_not_reused(warehouse: Warehouse, table: Table) -> None:
    kill(warehouse)
    map_names(table)
    assert go_on(warehouse) == [0, 1, 2, 3, 4]
    assert not leftovers(warehouse, table)


def test_a_leftover_that_could_not_be_removed_is_found_again_behind_gaps(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(warehouse, calls=1)
    with make_control(warehouse) as control:
        (job,) = control.history(REF)
        assert job.intent is not None
        first = next(path for path in leftovers(warehouse, table) if path.endswith(".parquet"))
        more = [Path(first.replace("-0000.parquet", f"-{number:04d}.parquet")) for number in range(1, 9)]
        for path in more:
            path.write_bytes(b"")

        def refuse(io: FileIO, path: str) -> None:
            if path.endswith(more[-1].name):
                raise PermissionError(path)
            objects.delete(io, path)

        with monkeypatch.context() as patched:
            patched.setattr(cleanup, "delete", refuse)
            control.recover()
        assert control.history(REF)[0].unresolved
        assert [path for path in more if path.exists()] == more[-1:]
        control.recover()
        (job,) = control.history(REF)
        assert not job.unresolved
    assert not leftovers(warehouse, table)


def test_an_interrupted_commit_keeps_its_files_until_a_fence_exists(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with make_control(warehouse) as control:
        monkeypatch.setattr(SqlCatalog, "commit_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            control.compact(REF, AT_ONCE)
        monkeypatch.undo()
        (job,) = control.history(REF)
        assert job.unresolved
        written = leftovers(warehouse, table)
        assert sum(path.endswith(".parquet") for path in written) == 5
        control.recover()
        assert fences(table) == [fence_name(job.job_id, 0)]
        assert not leftovers(warehouse, table)
        assert control.compact(REF, AT_ONCE).outcome == "committed"
    assert fences(table) == []
    assert not leftovers(warehouse, table)


@pytest.mark.parametrize(("database", "is_known"), [("sqlite", True), ("postgresql", False)])
def test_a_database_server_whose_answer_was_lost_may_still_carry_out_the_swap(
    warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch, database: str, is_known: bool
) -> None:
    """Its COMMIT may wait for its standby while the table still shows what was before: nothing is removed."""

    def lose(*_: Any) -> None:
        raise OperationalError("COMMIT", None, OSError("server closed the connection"))

    with make_control(warehouse, sleep=lambda _: None) as control:
        with monkeypatch.context() as patched:
            patched.setattr(SqlCatalog, "commit_table", lose)
            patched.setattr(warehouse.catalog.engine.dialect, "name", database)
            with pytest.raises(StorageError if is_known else CommitStateUnknown):
                control.compact(REF, AT_ONCE)
        assert bool(leftovers(warehouse, table)) is not is_known
        control.recover()
    assert bool(fences(table)) is not is_known
    assert not leftovers(warehouse, table)
