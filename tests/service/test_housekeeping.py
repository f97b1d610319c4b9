"""Housekeeping: old jobs are deleted and dead runs recovered, also after errors."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.control import leftovers
from tests.builders.services import Clock, ended, submit, untidy_table, until
from tidyberg.errors import StorageError, UnknownJob, UnknownPlan
from tidyberg.model.job import Intent, JobStatus, Owner
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Limits
from tidyberg.model.table import TableRef
from tidyberg.model.task import output_name
from tidyberg.service.background_loop import BackgroundLoop
from tidyberg.service.housekeeping import DAY_MS, Housekeeping
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.serving import Retention
from tidyberg.testing import Warehouse
from tidyberg.testing.reading import local_path


def upkeep(service: Service, clock: Clock, **retention: float) -> Housekeeping:
    return Housekeeping(service.control, service.records, Retention.model_validate(retention), clock)


def test_jobs_plans_and_audit_entries_are_deleted_after_their_retention(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    plan = service.plan(SubmitRequest("db.events"), LOCAL)
    service.start()
    job = ended(service, submit(service).job_id)
    waiting = service.records.queue.submit(replace(job, job_id="waiting", status=JobStatus.QUEUED, finished_ms=None))
    clock = Clock(8 * DAY_MS)
    upkeep(service, clock).forget_old()
    assert service.job(job.job_id, LOCAL).run is not None, "jobs are kept for 30 days"
    with pytest.raises(UnknownPlan):  # plans are kept for 7 days
        service.apply(plan.hash, LOCAL)
    clock.added_ms = 31 * DAY_MS
    upkeep(service, clock).forget_old()
    with pytest.raises(UnknownJob):
        service.job(job.job_id, LOCAL)
    assert job.run_id is not None
    assert service.records.store.get(job.run_id) is None, "its runs too"
    assert service.job(waiting.job_id, LOCAL), "what has not ended is kept"
    assert service.audit(LOCAL), "the audit log is kept for ever"
    upkeep(service, clock, audit_days=30).forget_old()
    assert not service.audit(LOCAL)


def test_plan_is_kept_while_its_job_waits(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    plan = service.plan(SubmitRequest("db.events"), LOCAL)
    clock = Clock(6 * DAY_MS)
    service.now_ms = clock
    job = service.apply(plan.hash, LOCAL)
    clock.added_ms = 8 * DAY_MS
    upkeep(service, clock).forget_old()
    service.start()
    assert ended(service, job.job_id).outcome == "committed"


def leave_dead_run(service: Service, warehouse: Warehouse, submission_id: str | None) -> Path:
    """Creates a run that died while it wrote a file, and returns the file."""
    table = warehouse.catalog.load_table("db.events")
    directory = f"{table.location()}/data"
    path = Path(local_path(directory)) / output_name("dead", 0, 0, 0)
    path.write_bytes(b"half a file")
    ref = TableRef("lab", ("db",), "events")
    done = service.control.compact(ref, service._options(ref, SubmitRequest("db.events"))).job
    service.records.store.save(
        replace(
            done,
            job_id="dead",
            submission_id=submission_id,
            status=JobStatus.RUNNING,
            finished_ms=None,
            commits=0,
            snapshot_id=None,
            owner=Owner("elsewhere", 1, 1.0),
            intent=Intent("dead", 1, {0: directory}, 1, {0: 1}, 0.0),
        )
    )
    return path


def test_files_of_a_dead_run_are_removed_without_a_new_job(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    left = leave_dead_run(service, warehouse, None)
    assert len(upkeep(service, Clock()).recover_dead_runs()) == 1
    assert not left.exists()
    assert not leftovers(warehouse, warehouse.catalog.load_table("db.events"))
    assert upkeep(service, Clock()).recover_dead_runs() == []


def test_files_of_a_dead_run_stay_for_the_next_attempt(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    job = submit(service)
    clock = Clock()
    claimed = service.records.queue.claim("dead", now_ms=clock(), ttl_ms=1, limits=Limits(1))
    assert claimed is not None
    left = leave_dead_run(service, warehouse, job.job_id)
    assert upkeep(service, clock).recover_dead_runs() == []
    assert left.exists()
    service.cancel(job.job_id, LOCAL)
    service.start()
    assert ended(service, job.job_id).status is JobStatus.CANCELLED
    upkeep(service, clock).recover_dead_runs()
    until(lambda: not left.exists() or None)  # the service may remove it at the same time


def test_background_loop_continues_after_errors() -> None:
    steps: list[Exception] = [StorageError("down"), ZeroDivisionError()]
    done = threading.Event()

    def step() -> None:
        if steps:
            raise steps.pop()
        done.set()

    loop = BackgroundLoop("test", step, 0.01)
    loop.start()
    assert done.wait(10)
    loop.stop(10)
