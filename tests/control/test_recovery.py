"""Jobs that died at a known point, and how recovery concludes each of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, fences, leftovers, make_control
from tests.builders.events_table import REF, eight_files
from tests.builders.interrupted_jobs import dead_job
from tidyberg.commit.fence import KEPT_MS, fence_name
from tidyberg.commit.ownership import metadata_file_id
from tidyberg.control.recovery import COMMIT_GRACE_MS, Recovery
from tidyberg.model.job import JobStatus
from tidyberg.model.task import output_name
from tidyberg.record.process import this_process
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path


@pytest.fixture(autouse=True)
def table(warehouse: Warehouse) -> Table:
    return eight_files(warehouse)


@pytest.mark.parametrize(
    ("point", "status", "leaves"),
    [
        ("planning", JobStatus.FAILED, False),
        ("execution", JobStatus.FAILED, True),
        ("manifests", JobStatus.FAILED, True),
        ("before the commit is sent", JobStatus.FAILED, True),
        ("between metadata file and swap", JobStatus.FAILED, True),
        ("after the commit", JobStatus.SUCCEEDED, False),
    ],
)
def test_recovery_knows_what_a_dead_job_did_and_removes_what_it_left(
    warehouse: Warehouse, point: str, status: JobStatus, leaves: bool
) -> None:
    table = warehouse.catalog.load_table("db.events")
    rows = warehouse.rows(table)
    job = dead_job(warehouse, point)
    assert bool(leftovers(warehouse, table)) is leaves

    with make_control(warehouse) as control:
        (said,) = control.recover()
        (found,) = control.history(REF)
        assert control.recover() == []

    assert job.job_id in said
    assert found.status is status
    assert not found.unresolved
    assert not leftovers(warehouse, table)
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    assert warehouse.rows(table) == rows
    if status is JobStatus.SUCCEEDED:
        assert found.snapshot_id == table.refresh().metadata.current_snapshot_id


def test_the_next_job_of_the_table_recovers_by_itself(warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("db.events")
    dead_job(warehouse, "execution")
    with make_control(warehouse) as control:
        assert control.compact(REF, AT_ONCE).outcome == "committed"
    assert not leftovers(warehouse, table)


def test_files_of_a_commit_whose_snapshot_was_expired_are_kept(warehouse: Warehouse) -> None:
    """The job's id is in no snapshot any more, yet its outputs live on: not finding it proves nothing."""
    table = warehouse.catalog.load_table("db.events")
    dead_job(warehouse, "after the commit")
    committed = table.refresh().metadata.current_snapshot_id
    assert committed is not None
    warehouse.append_files(table, 1, 5)
    table.refresh().maintenance.expire_snapshots().by_id(committed).commit()
    rows = warehouse.rows(table)

    with make_control(warehouse) as control:
        control.recover()
        (job,) = control.history(REF)

    assert warehouse.rows(table) == rows
    assert job.status is JobStatus.SUCCEEDED


def test_outputs_of_failed_attempts_are_removed_even_if_the_job_had_committed(warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "after the commit")
    assert job.intent is not None
    with make_control(warehouse) as control:
        store = control.store
        store.save(replace(job, intent=replace(job.intent, attempts=3)))
        stray = Path(local_path(job.intent.directories[0])) / output_name(job.job_id, 0, 2, 0)
        stray.write_bytes(b"half a file")
        control.recover()
    assert not stray.exists()
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)


def another_kind_of_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a catalog server: that the process is dead does not say that its request is."""
    monkeypatch.setattr("tidyberg.control.recovery.swaps_in_process", lambda _: False)


def test_files_of_a_sent_commit_are_kept_while_it_may_still_succeed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_kind_of_catalog(monkeypatch)
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "between metadata file and swap")
    kept = leftovers(warehouse, table)

    def refuse(*_: object) -> None:
        raise ForbiddenError("no tags here")

    with make_control(warehouse, sleep=lambda _: None) as control:
        with monkeypatch.context() as patched:
            patched.setattr(warehouse.catalog, "commit_table", refuse)
            (said,) = control.recover()
        assert "may still land (no tags here)" in said
        assert leftovers(warehouse, table) == kept
        assert fences(table) == []

        warehouse.append_files(table, 1, 5)  # its sequence number is taken: it can never land now
        control.recover()
        assert fences(table) == [], "nor is a fence needed"
        assert not leftovers(warehouse, table)
        found = control.store.get(job.job_id)
        assert found is not None
        assert found.status is JobStatus.FAILED
        assert not found.unresolved


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_fence_decides_a_sent_commit_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_version: int
) -> None:
    another_kind_of_catalog(monkeypatch)
    with Warehouse(tmp_path / "fenced") as warehouse:
        table = warehouse.create_table(format_version=format_version)
        warehouse.append_files(table, 4, 10, files_per_commit=2)
        rows = warehouse.rows(table)
        job = dead_job(warehouse, "between metadata file and swap")
        with make_control(warehouse) as control:
            (said,) = control.recover()
            assert "had not committed" in said
            assert not leftovers(warehouse, table)
            assert fences(table) == [fence_name(job.job_id, 0)]
            ref = table.metadata.refs[fence_name(job.job_id, 0)]
            head = table.metadata.current_snapshot()
            assert head is not None
            assert ref.snapshot_id == head.snapshot_id
            assert ref.max_ref_age_ms is not None
            assert KEPT_MS <= ref.max_ref_age_ms < KEPT_MS + 60_000, "expiry drops it when its time is over"
            assert control.recover() == []
            assert not control.audit(REF).is_damaged

            assert control.compact(REF, AT_ONCE).outcome == "committed"
        assert warehouse.rows(table) == rows
        assert not leftovers(warehouse, table)
        assert bool(fences(table)) is (format_version == 1), "without sequence numbers it stays until it expires"


def test_a_swap_that_a_database_server_may_still_carry_out_is_fenced(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its COMMIT may wait for a disk or a standby, unseen: files that it is about to make the table's must not go."""
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "between metadata file and swap")
    monkeypatch.setattr(warehouse.catalog.engine.dialect, "name", "postgresql")
    before = table.metadata_location
    with make_control(warehouse) as control:
        (said,) = control.recover()
    assert "had not committed" in said
    assert fences(table) == [fence_name(job.job_id, 0)]
    assert table.metadata_location != before, "the swap compares locations"


def test_metadata_that_another_recovery_may_swap_in_is_kept_while_its_fence_is_in_doubt(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = dead_job(warehouse, "after the commit")
    table = warehouse.catalog.load_table("db.events")
    # Recovery deletes only files whose names carry the job's id.
    name = f"00099-{metadata_file_id(f'{job.job_id}/0/fence/another')}.metadata.json"
    location = f"{table.metadata_location.rpartition('/')[0]}/{name}"
    begun = Path(local_path(location))
    begun.write_text("{}")

    def refuse(*_: object) -> None:
        raise ForbiddenError("no tags here")

    with make_control(warehouse, sleep=lambda _: None) as control:
        control.store.note_paths(f"{job.job_id}/fence", [location])
        monkeypatch.setattr(warehouse.catalog, "commit_table", refuse)
        (said,) = control.recover()
    assert "had committed" in said
    assert begun.exists()


def test_a_fence_whose_answer_was_lost_is_found(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    another_kind_of_catalog(monkeypatch)
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "between metadata file and swap")
    commit = SqlCatalog.commit_table

    def lose_the_answer(*args: Any) -> None:
        commit(*args)
        raise OSError("connection reset")

    with make_control(warehouse, sleep=lambda _: None) as control:
        monkeypatch.setattr(SqlCatalog, "commit_table", lose_the_answer)
        (said,) = control.recover()
    assert "had not committed" in said
    assert fences(table) == [fence_name(job.job_id, 0)]
    assert not leftovers(warehouse, table)


def test_on_hive_a_fence_counts_only_after_the_grace_time(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its swap compares nothing: a process that lost its lock while it was stopped swaps all the same."""
    another_kind_of_catalog(monkeypatch)
    monkeypatch.setattr("tidyberg.control.recovery.swaps_blindly", lambda _: True)
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "between metadata file and swap")
    with make_control(warehouse) as control:
        (said,) = control.recover()
        assert "may still land" in said
        assert leftovers(warehouse, table)
        assert job.heartbeat_ms is not None
        later = job.heartbeat_ms + COMMIT_GRACE_MS + 1
        assert control.store.acquire(job.table_uuid, "us", this_process(), now_ms=later, ttl_ms=60_000) is None
        Recovery(control.store, "us", lambda: later).recover(warehouse.catalog, job)
    assert not leftovers(warehouse, table)


def test_a_recovery_that_lost_the_table_meanwhile_deletes_and_records_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused for longer than its lease, say: who took the table over may have taken over the outputs too."""
    table = warehouse.catalog.load_table("db.events")
    job = dead_job(warehouse, "execution")
    on_disk = warehouse.files_on_disk(table)
    with make_control(warehouse) as control:
        examine = Recovery.examine

        def examine_then_lose_the_table(recovery: Recovery, *arguments: Any) -> Any:
            finding = examine(recovery, *arguments)
            control.store.release(job.table_uuid, recovery.holder)
            assert control.store.acquire(job.table_uuid, "another", this_process(), now_ms=0, ttl_ms=1) is None
            return finding

        monkeypatch.setattr(Recovery, "examine", examine_then_lose_the_table)
        (said,) = control.recover()
        assert "took over" in said
        assert warehouse.files_on_disk(table) == on_disk
        assert control.store.get(job.job_id) == job


def test_a_job_whose_table_was_dropped_is_recovered(warehouse: Warehouse) -> None:
    table = warehouse.catalog.load_table("db.events")
    dead_job(warehouse, "execution")
    warehouse.catalog.drop_table("db.events")
    on_disk = warehouse.files_on_disk(table)
    with make_control(warehouse) as control:
        (said,) = control.recover()
        assert control.recover() == []
        (job,) = control.history(REF)
    assert job.status is JobStatus.FAILED
    assert "is gone or renamed; what the job may have left is kept" in said
    assert warehouse.files_on_disk(table) == on_disk, "only a table's metadata says which files are its own"
