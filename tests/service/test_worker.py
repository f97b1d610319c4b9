"""Jobs are run, retried, cancelled, put back and taken over. Each ends once, and its table keeps its rows."""

import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.services import (
    Clock,
    Failing,
    attempt,
    claimed,
    ended,
    settings_of,
    slow,
    submit,
    untidy_table,
    until,
)
from tidyberg.app import build_service
from tidyberg.errors import CatalogUnreachable, StorageError, VerificationFailed
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.principal import LOCAL
from tidyberg.model.report import CompactionResult
from tidyberg.model.submission import Query, Submission
from tidyberg.service.auto_mode import AUTO
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.testing import Warehouse


def test_job_runs_ends_and_reports_its_result(service: Service, warehouse: Warehouse) -> None:
    rows = untidy_table(warehouse)
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.outcome, job.attempts) == (JobStatus.SUCCEEDED, "committed", 1)
    assert job.run_id is not None
    assert job.dollars is not None
    assert job.estimated_seconds is not None
    run = service.job(job.job_id, LOCAL).run
    assert run is not None
    assert run.stats is not None
    assert run.stats.files_compacted == 6
    table = warehouse.catalog.load_table("db.events")
    assert warehouse.rows(table) == rows
    assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)
    events = until(lambda: _if_last(service, job.job_id, "succeeded"))
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.data["status"] for event in events if event.kind == "status"] == ["running", "succeeded"]
    assert "commit" in [event.data["stage"] for event in events if event.kind == "stage"]
    assert any(event.kind == "progress" and event.data["files_processed"] == 6 for event in events)
    assert service.events(job.job_id, LOCAL, after=events[-2].number) == events[-1:]


def _if_last(service: Service, job_id: str, status: str) -> Any:
    events = service.events(job_id, LOCAL)
    return events if events and events[-1].data.get("status") == status else None


def test_tidy_table_is_left_unchanged(service: Service, warehouse: Warehouse) -> None:
    warehouse.create_table()
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.outcome, job.error) == (JobStatus.SUCCEEDED, "tidy", None)


def test_kept_plan_is_run(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    plan = service.plan(SubmitRequest("db.events"), LOCAL)
    service.start()
    job = ended(service, service.apply(plan.hash, LOCAL).job_id)
    assert (job.status, job.outcome) == (JobStatus.SUCCEEDED, "committed")
    again = ended(service, service.apply(plan.hash, LOCAL).job_id)
    assert (again.status, again.error_code) == (JobStatus.FAILED, "stale-plan")


def test_many_jobs_on_few_tables_run_one_at_a_time_on_each(
    make_service: Callable[..., Service], warehouse: Warehouse
) -> None:
    rows = {name: untidy_table(warehouse, name) for name in ("db.a", "db.b", "db.c")}
    service = make_service(workers=4)
    service.start()
    jobs = [submit(service, name).job_id for name in rows for _ in range(4)]
    outcomes = [(ended(service, job).status, ended(service, job).outcome) for job in jobs]
    assert {status for status, _ in outcomes} == {JobStatus.SUCCEEDED}
    assert [outcome for _, outcome in outcomes].count("committed") == 3, "the others found a tidy table"
    for name, expected in rows.items():
        table = warehouse.catalog.load_table(name)
        assert warehouse.rows(table) == expected
        assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)


def test_transient_errors_are_retried(service: Service, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    untidy_table(warehouse)
    failing = Failing(service.control, CatalogUnreachable("Down."), StorageError("Full."))
    monkeypatch.setattr(service.control, "compact", failing)
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.outcome, job.attempts) == (JobStatus.SUCCEEDED, "committed", 3)
    assert job.run_id != job.job_id
    assert job.error is None
    reasons = [str(event.data.get("reason")) for event in service.events(job.job_id, LOCAL) if event.kind == "status"]
    assert reasons[1].startswith("catalog-unreachable")
    assert reasons[3].startswith("storage")


def test_retries_are_limited(
    make_service: Callable[..., Service], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    untidy_table(warehouse)
    service = make_service(max_attempts=3)
    monkeypatch.setattr(service.control, "compact", Failing(service.control, *[CatalogUnreachable("Down.")] * 3))
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.attempts, job.error_code) == (JobStatus.FAILED, 3, "catalog-unreachable")


def test_terminal_errors_end_the_job(service: Service, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    untidy_table(warehouse)
    monkeypatch.setattr(service.control, "compact", Failing(service.control, VerificationFailed("Rows differ.")))
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.attempts, job.error_code) == (JobStatus.FAILED, 1, "verification-failed")


def test_job_error_names_no_namespaces_of_other_tenants(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "gone.events")
    untidy_table(warehouse, "others.secrets")
    job = submit(service, "gone.events")
    warehouse.catalog.drop_table("gone.events")
    warehouse.catalog.drop_namespace("gone")
    service.start()
    found = ended(service, job.job_id)
    assert (found.status, found.error_code) == (JobStatus.FAILED, "unknown-namespace")
    assert "others" not in str(found.error)


def test_unexpected_error_ends_the_job_and_shows_no_secret(
    service: Service, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    untidy_table(warehouse)

    def broken(*_: Any, **__: Any) -> CompactionResult:
        raise ZeroDivisionError("postgresql://me:secret@db/x")

    monkeypatch.setattr(service.control, "compact", broken)
    service.start()
    job = ended(service, submit(service).job_id)
    assert (job.status, job.error_code) == (JobStatus.FAILED, "internal")
    assert job.error is not None
    assert "secret" not in job.error
    monkeypatch.undo()
    assert ended(service, submit(service).job_id).status is JobStatus.SUCCEEDED, "the worker lives"


def test_cancelled_running_job_leaves_no_files(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    rows = untidy_table(warehouse)
    service = make_service(claim_seconds=1)
    engine = slow(service)
    service.start()
    job = submit(service)
    assert engine.begun.wait(60)
    assert service.cancel(job.job_id, LOCAL).cancel_requested
    assert ended(service, job.job_id).status is JobStatus.CANCELLED
    table = warehouse.catalog.load_table("db.events")
    assert warehouse.rows(table) == rows
    assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)


def test_stopping_service_puts_back_unfinished_jobs(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service = make_service(grace_seconds=0)
    engine = slow(service)
    service.start()
    job = submit(service)
    assert engine.begun.wait(60)
    service.stop()
    successor = make_service()
    waiting = successor.job(job.job_id, LOCAL).submission
    assert (waiting.status, waiting.claim) == (JobStatus.QUEUED, None)
    successor.start()
    assert ended(successor, job.job_id).outcome == "committed"


def test_stopping_service_waits_for_running_jobs(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service = make_service(grace_seconds=60)
    engine = slow(service)
    service.start()
    job = submit(service)
    assert engine.begun.wait(60)
    threading.Timer(0.2, engine.go.set).start()
    service.stop()
    assert make_service().job(job.job_id, LOCAL).submission.outcome == "committed"


def test_finished_run_counts_if_its_worker_died_before_reporting(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    clock, job = Clock(), submit(service)
    first = claimed(service, "first", clock)
    service.control.compact(
        first.table, service._options(first.table, SubmitRequest("events")), job_id=job.job_id, submission_id=job.job_id
    )
    service.records.queue.update(job.job_id, first.claim.token if first.claim else 0, {"run_id": job.job_id})
    clock.added_ms = 60_000
    attempt(service, claimed(service, "second", clock), clock).run()
    done = service.job(job.job_id, LOCAL)
    assert (done.submission.status, done.submission.outcome) == (JobStatus.SUCCEEDED, "committed")
    assert done.submission.run_id == job.job_id
    assert done.run is not None
    assert done.run.stage is Stage.DONE
    assert len(warehouse.catalog.load_table("db.events").metadata.snapshots) == 2, "it was compacted once"


def test_job_of_a_restored_store_overwrites_nothing(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    """In a backup, or a Redis replica that missed the last writes, the finished job is still queued."""
    untidy_table(warehouse)
    service, file = make_service(), warehouse.directory / "jobs.db"
    job = submit(service)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(file.with_name("backup.db"))) as backup:
        source.backup(backup)
    service.start()
    ended(service, job.job_id)
    service.stop()
    shutil.copy(file.with_name("backup.db"), file)
    table = warehouse.append_files(warehouse.catalog.load_table("db.events"), 6, rows_per_file=20)
    rows = warehouse.rows(table)
    again = make_service()
    again.start()
    status = ended(again, job.job_id).status
    assert warehouse.rows(warehouse.catalog.load_table("db.events")) == rows
    assert status is JobStatus.SUCCEEDED


@pytest.mark.parametrize("with_plan", [False, True])
def test_run_that_died_after_its_commit_counts(service: Service, warehouse: Warehouse, with_plan: bool) -> None:
    """A second run would find a stale plan, or rewrite tidy files."""
    untidy_table(warehouse)
    clock = Clock()
    if with_plan:
        job = service.apply(service.plan(SubmitRequest("db.events"), LOCAL).hash, LOCAL)
    else:
        job = submit(service, options={"force": True})
    attempt(service, claimed(service, "first", clock), clock).run()
    run = service.job(job.job_id, LOCAL).run
    assert run is not None
    again = service.records.queue.submit(replace(job, job_id="again", run_id="dead"))
    died = replace(
        run, job_id="dead", submission_id="again", status=JobStatus.RUNNING, stage=Stage.COMMIT, finished_ms=None
    )
    service.records.store.save(died)
    claimed(service, "second", clock)
    clock.added_ms = 60_000
    attempt(service, claimed(service, "third", clock), clock).run()
    done = service.job(again.job_id, LOCAL).submission
    assert (done.status, done.outcome, done.run_id) == (JobStatus.SUCCEEDED, "committed", "dead")
    assert len(warehouse.catalog.load_table("db.events").metadata.snapshots) == 2, "it was compacted once"


def test_worker_without_its_claim_writes_nothing(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    clock, job = Clock(), submit(service)
    late = attempt(service, claimed(service, "first", clock), clock)
    clock.added_ms = 60_000
    second = claimed(service, "second", clock)
    late.run()
    now = service.job(job.job_id, LOCAL).submission
    assert (now.status, now.claim, now.run_id) == (JobStatus.RUNNING, second.claim, None)
    assert not service.events(job.job_id, LOCAL)


def test_job_that_kills_its_processes_is_given_up(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service, clock = make_service(max_attempts=2), Clock()
    job = submit(service)
    for number in range(2):
        claim = claimed(service, f"worker {number}", clock)
        options = service._options(job.table, SubmitRequest("events"))
        run = service.control.compact(
            job.table, replace(options, where="id < 0"), job_id=f"{job.job_id}-{number}", submission_id=job.job_id
        ).job
        service.records.store.save(replace(run, status=JobStatus.FAILED, error_code="died"))
        assert claim.claim is not None
        service.records.queue.update(job.job_id, claim.claim.token, {"run_id": run.job_id})
        clock.added_ms += 60_000
    attempt(service, claimed(service, "the last", clock), clock).run()
    done = service.job(job.job_id, LOCAL).submission
    assert (done.status, done.error_code) == (JobStatus.FAILED, "given-up")


def test_a_job_cancelled_after_its_replica_died_ends_cancelled(service: Service, warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    clock, job = Clock(), submit(service)
    claimed(service, "first", clock)
    service.cancel(job.job_id, LOCAL)
    clock.added_ms = 60_000
    attempt(service, claimed(service, "second", clock), clock).run()
    assert service.job(job.job_id, LOCAL).submission.status is JobStatus.CANCELLED


class Outage:
    """A queue that does not answer for a while."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.is_down = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._queue, name)

        def may_fail(*args: Any, **kwargs: Any) -> Any:
            if self.is_down:
                raise StorageError("The job store did not answer.")
            return call(*args, **kwargs)

        return may_fail


@pytest.mark.parametrize("longer_than_the_claim", [False, True])
def test_workers_wait_for_the_store_and_then_continue(warehouse: Warehouse, longer_than_the_claim: bool) -> None:
    rows = untidy_table(warehouse)
    built = build_service(settings_of(warehouse, claim_seconds=1))
    outage = Outage(built.records.queue)
    service = Service(built.settings, built.control, replace(built.records, queue=outage))
    engine = slow(service)
    service.start()
    job = submit(service)
    assert engine.begun.wait(60)
    outage.is_down = True
    if longer_than_the_claim:
        assert engine.go.wait(60), "a run that cannot renew its claim is stopped"
    engine.go.set()
    threading.Event().wait(0.5)
    outage.is_down = False
    done = ended(service, job.job_id)
    assert (done.status, done.outcome) == (JobStatus.SUCCEEDED, "committed")
    assert done.attempts == 1, "that the store was down is no fault of the job's"
    table = warehouse.catalog.load_table("db.events")
    assert warehouse.rows(table) == rows
    until(lambda: warehouse.files_on_disk(table) == warehouse.referenced_files(table) or None)
    service.stop()


def test_repeated_request_has_an_estimate_at_once(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service = make_service(workers=0)
    service.start()
    first = submit(service)
    guess = first.estimated_seconds
    assert guess is not None, "the newest snapshot's summary tells how many files and bytes there are"
    until(lambda: service.job(first.job_id, LOCAL).submission.estimated_dollars)
    reported = service.job(first.job_id, LOCAL).submission.estimated_seconds
    second = submit(service)
    assert second.estimated_seconds == reported
    assert submit(service, strategy="full").estimated_seconds == guess, "another request"
    service._estimates.forget(first.table)
    assert submit(service).estimated_seconds == guess


def test_an_estimate_comes_from_earlier_jobs_of_the_table(
    make_service: Callable[..., Service], warehouse: Warehouse
) -> None:
    untidy_table(warehouse)
    service = make_service(workers=1)
    service.start()
    ended(service, submit(service).job_id)
    (run,) = service.control.history()
    assert run.started_ms is not None
    assert run.finished_ms is not None
    service._estimates.forget(run.table)
    assert submit(service).estimated_seconds == (run.finished_ms - run.started_ms) / 1000
    assert submit(service, strategy="full").estimated_seconds is not None, "from a job by another strategy"


def test_schedule_that_repeatedly_leaves_its_table_waiting_is_counted(
    make_service: Callable[..., Service], warehouse: Warehouse
) -> None:
    untidy_table(warehouse, files=3)
    service = make_service(workers=1)
    scheduler = service.settings.scheduler.model_copy(update={"waiting_in_a_row": 2})
    service.settings = service.settings.model_copy(update={"scheduler": scheduler})
    service.start()
    value = service.metrics.registry.get_sample_value
    for times, (who, starved) in enumerate([(AUTO, 0), (LOCAL, 0), (AUTO, 1), (AUTO, 2)], 1):
        job = ended(service, service.submit(SubmitRequest("db.events", options={"min_input_files": 5}), who).job_id)
        assert job.outcome == "waiting"
        until(lambda: value("compaction_outcomes_total", {"outcome": "waiting"}) == times or None)  # noqa: B023
        until(lambda: value("compaction_schedules_starved_total") == starved or None)  # noqa: B023


def test_without_workers_jobs_wait(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service = make_service(workers=0)
    service.start()
    job = submit(service)
    assert has_status(service, job.job_id, JobStatus.QUEUED)
    other = make_service()
    other.start()
    assert ended(service, job.job_id).outcome == "committed"
    assert service.jobs(Query(statuses=frozenset((JobStatus.SUCCEEDED,))), LOCAL).submissions[0].job_id == job.job_id


def has_status(service: Service, job_id: str, status: JobStatus) -> Submission | None:
    found = service.job(job_id, LOCAL).submission
    return found if found.status is status else None
