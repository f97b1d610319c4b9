"""One job per table: another one waits or fails, and a job that lost its table does no harm when it wakes up [I7]."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.control import AT_ONCE, chunks, leftovers, make_control
from tests.builders.engines import Meddling, OneAtATime
from tests.builders.sales_table import REF, REGIONS, regional
from tidyberg.control.lease import LEASE_MS
from tidyberg.errors import Cancelled, Conflict, StorageError, TableBusy
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import JobStatus
from tidyberg.record.process import is_alive, this_process
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return regional(warehouse, regions=REGIONS)


def elsewhere(warehouse: Warehouse) -> SqliteStore:
    """The store as a replica on another machine sees it: of other processes only their leases tell."""
    return SqliteStore(warehouse.directory / "jobs.db", lambda _: None)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def after_the_lease() -> int:
    return now_ms() + LEASE_MS + 1


def test_a_job_that_waits_runs_after_the_other_and_finds_it_done(warehouse: Warehouse, table: Table) -> None:
    before, busy = warehouse.rows(table), threading.Event()
    outcomes: list[str] = []

    def second() -> None:
        busy.wait(30)
        with Warehouse(warehouse.directory) as mine, make_control(mine, wait_seconds=60) as control:
            outcomes.append(control.compact(REF, AT_ONCE).outcome)

    thread = threading.Thread(target=second)
    thread.start()
    with make_control(warehouse, OneAtATime(lambda _: busy.set())) as control:
        assert control.compact(REF, AT_ONCE).outcome == "committed"
    thread.join()
    assert outcomes == ["tidy"]
    assert len(chunks(table)) == 1
    assert warehouse.rows(table) == before


def test_waiting_ends_with_its_time_and_with_a_cancel(warehouse: Warehouse, table: Table) -> None:
    slept: list[float] = []
    uuid = str(table.metadata.table_uuid)
    with make_control(warehouse, wait_seconds=2.5, sleep=slept.append) as control:
        control.store.acquire(uuid, "another", this_process(), now_ms=now_ms(), ttl_ms=LEASE_MS)
        with pytest.raises(TableBusy, match="--wait"):
            control.compact(REF, AT_ONCE)
        assert slept == [1.0, 1.0, 0.5]
        cancel = CancelToken()
        cancel.cancel()
        with pytest.raises(Cancelled):
            control.compact(REF, AT_ONCE, cancel=cancel)


class Stuck(SqliteStore):
    """Cannot release a table so many times."""

    def __init__(self, warehouse: Warehouse, failures: int) -> None:
        super().__init__(warehouse.directory / "jobs.db", is_alive)
        self._failures = failures

    def release(self, table_uuid: str, job_id: str) -> None:
        self._failures -= 1
        if self._failures >= 0:
            raise StorageError("The job store did not answer.")
        super().release(table_uuid, job_id)


def test_a_store_that_hiccups_when_a_table_is_released_does_not_keep_it_busy(
    warehouse: Warehouse, table: Table
) -> None:
    with make_control(warehouse, store=Stuck(warehouse, 2), sleep=lambda _: None) as control:
        assert control.compact(REF, AT_ONCE).outcome == "committed"
        assert control.compact(REF, AT_ONCE).outcome == "tidy"


def test_a_table_that_could_not_be_released_is_free_when_the_lease_ends(warehouse: Warehouse, table: Table) -> None:
    """The job did its work and ended; only its process lives on, as a service does."""
    with make_control(warehouse, store=Stuck(warehouse, 1000), sleep=lambda _: None) as control:
        assert control.compact(REF, AT_ONCE).outcome == "committed"
        with make_control(warehouse) as other, pytest.raises(TableBusy):
            other.compact(REF, AT_ONCE)
        with make_control(warehouse, now_ms=after_the_lease) as other:
            assert other.compact(REF, AT_ONCE).outcome == "tidy"


@pytest.mark.parametrize("recover_only", [True, False], ids=["recovered", "gone on with"])
def test_a_replica_that_lost_its_lease_commits_and_deletes_nothing(
    warehouse: Warehouse, table: Table, recover_only: bool
) -> None:
    before, other_engine = warehouse.rows(table), OneAtATime()

    def overtake() -> None:
        """Another replica takes over the table while this one sleeps with all its groups finished."""
        with make_control(warehouse, other_engine, store=elsewhere(warehouse), now_ms=after_the_lease) as other:
            if recover_only:
                other.recover()
            else:
                assert other.compact(REF, AT_ONCE).outcome == "committed"

    with make_control(warehouse, Meddling(overtake)) as control, pytest.raises(Conflict):
        control.compact(REF, AT_ONCE)
    assert other_engine.rewritten == [], "the other went on with what the sleeper had finished, or removed it"
    assert len(chunks(table)) == (0 if recover_only else 1)
    assert warehouse.rows(table) == before
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    with make_control(warehouse) as control:
        control.recover()
        assert all(job.status.is_final and not job.unresolved for job in control.history(REF))
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    assert not leftovers(warehouse, table)


def finish_and_wait(directory: str, finished: str) -> None:
    """In a process of its own: rewrite everything, tell so, and wait to be stopped before the commit."""

    def tell_and_wait() -> None:
        Path(finished).touch()
        time.sleep(2)

    engine = Meddling(tell_and_wait)
    with Warehouse(directory) as warehouse, make_control(warehouse, engine, store=elsewhere(warehouse)) as control:
        control.compact(REF, AT_ONCE)


def test_a_process_stopped_until_another_took_its_table_does_no_harm_when_it_continues(
    warehouse: Warehouse, table: Table, tmp_path: Path
) -> None:
    before, finished = warehouse.rows(table), tmp_path / "finished"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.control.test_lease"])
    process = context.Process(target=finish_and_wait, args=(str(warehouse.directory), str(finished)))
    process.start()
    assert process.pid is not None
    while not finished.exists():
        assert process.is_alive()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with make_control(warehouse) as control, pytest.raises(TableBusy):
            control.compact(REF, AT_ONCE)  # on this machine one sees that it lives
        engine = OneAtATime()
        with make_control(warehouse, engine, store=elsewhere(warehouse), now_ms=after_the_lease) as control:
            assert control.compact(REF, AT_ONCE).outcome == "committed"
        assert engine.rewritten == []
    finally:
        os.kill(process.pid, signal.SIGCONT)
    process.join()
    assert process.exitcode == 1
    assert len(chunks(table)) == 1
    assert warehouse.rows(table) == before
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    with make_control(warehouse) as control:
        control.recover()
        assert {job.status for job in control.history(REF)} == {JobStatus.SUCCEEDED, JobStatus.FAILED}
    assert warehouse.referenced_files(table) <= warehouse.files_on_disk(table)
    assert not leftovers(warehouse, table)
