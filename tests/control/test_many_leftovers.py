"""Tens of thousands of leftovers of a dead job are found by listing, and a recovery can be cancelled."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tests.builders.control import leftovers, make_control
from tests.builders.events_table import REF, eight_files
from tests.builders.interrupted_jobs import dead_job
from tidyberg.commit import cleanup
from tidyberg.control import recovery as recovery_module
from tidyberg.errors import Cancelled
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, Stage
from tidyberg.model.report import Event, StageStarted
from tidyberg.model.task import output_name
from tidyberg.storage import table_files as objects
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

MANY = 3000


@pytest.fixture(autouse=True)
def table(warehouse: Warehouse) -> Table:
    return eight_files(warehouse)


@pytest.fixture
def job(warehouse: Warehouse) -> Job:
    """One that rolled far more often than planned, with gaps, in several attempts."""
    job = dead_job(warehouse, "execution")
    assert job.intent is not None
    for number in range(1, MANY + 1):
        path = Path(local_path(job.intent.directories[0])) / output_name(job.job_id, 0, number % 7, 3 * number)
        path.write_bytes(b"")
    return job


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    calls: list[str] = []
    original = getattr(objects, name)

    def counting(io: FileIO, path: str, *arguments: Any, **options: Any) -> Any:
        calls.append(path)
        return original(io, path, *arguments, **options)

    monkeypatch.setattr(objects, name, counting)
    return calls


def test_many_leftovers_are_found_by_one_listing(
    warehouse: Warehouse, table: Table, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings, look_ups = counted(monkeypatch, "files_in"), counted(monkeypatch, "exists")
    with make_control(warehouse) as control:
        (said,) = control.recover()
    assert f"{MANY + 1:,} leftovers removed" in said
    assert not leftovers(warehouse, table)
    assert len(listings) == 1
    assert not look_ups


def test_a_recovery_reports_its_progress(
    warehouse: Warehouse, table: Table, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_module, "PROGRESS_SECONDS", 0.0)
    events: list[Event] = []
    with make_control(warehouse) as control:
        control.recover(on_event=events.append)
    reported = [event.message for event in events if isinstance(event, StageStarted) and event.stage is Stage.RECOVER]
    assert f"job {job.job_id}: 1,000 of {MANY + 1:,} leftovers removed" in reported


@pytest.mark.parametrize("recover_only", [True, False], ids=["recover", "the next job"])
def test_a_cancelled_recovery_stops_at_once_and_the_next_one_finishes(
    warehouse: Warehouse, table: Table, job: Job, monkeypatch: pytest.MonkeyPatch, recover_only: bool
) -> None:
    from tests.builders.control import AT_ONCE

    cancel, delete = CancelToken(), objects.delete
    deleted: list[str] = []

    def delete_and_cancel(io: FileIO, path: str) -> None:
        delete(io, path)
        deleted.append(path)
        if len(deleted) == 10:
            cancel.cancel()

    with make_control(warehouse) as control:
        with monkeypatch.context() as patched:
            patched.setattr(cleanup, "delete", delete_and_cancel)
            with pytest.raises(Cancelled):
                control.recover(cancel=cancel) if recover_only else control.compact(REF, AT_ONCE, cancel=cancel)
        assert len(deleted) < 100
        found = control.store.get(job.job_id)
        assert found is not None
        assert found.is_open
        assert len(leftovers(warehouse, table)) > MANY - 100
        control.recover()
    assert not leftovers(warehouse, table)


def test_a_record_cannot_make_recovery_sleep_for_long(warehouse: Warehouse) -> None:
    from dataclasses import replace

    job = dead_job(warehouse, "execution")
    assert job.intent is not None
    slept: list[float] = []
    with make_control(warehouse, sleep=slept.append) as control:
        control.store.save(replace(job, intent=replace(job.intent, settle_seconds=1e9)))
        control.recover()
    assert max(slept) <= recovery_module.MOST_SETTLE_SECONDS
