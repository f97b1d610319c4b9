"""Expiry as a job of the service: who may submit it, what it does, and what happens after failures and deaths."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import age, change_metadata
from tests.builders.events_table import REF, make_table
from tests.builders.services import Clock, attempt, claimed, ended, settings_of
from tests.servers.redis import RedisServer
from tidyberg.app import build_service
from tidyberg.control.expiry_work import ExpiryWork
from tidyberg.errors import AccessDenied, BadInput, CatalogUnreachable, IdempotencyMismatch, Unsupported
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Schedule, Submission
from tidyberg.service.access import Access
from tidyberg.service.kinds import kind_of
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.job_options import ExpireJobOptions
from tidyberg.settings.store import Store
from tidyberg.testing import Warehouse

OPERATOR = Principal("olga", Role.OPERATOR)
OLD = [10, 9, 8, 7, 6, 1]  # the ages of the six snapshots in days


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return age(make_table(warehouse), OLD)


def ids_of(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots]


def expire(service: Service, who: Principal = LOCAL, key: str | None = None, **options: Any) -> Submission:
    return service.submit(SubmitRequest("db.events", kind=EXPIRE, options=options), who, key)


def run(service: Service, clock: Clock | None = None) -> Submission:
    """Runs the next job in this thread, as a worker does."""
    clock = clock or Clock()
    job = claimed(service, "worker", clock)
    attempt(service, job, clock).run()
    return service.job(job.job_id, LOCAL).submission


def run_of(service: Service, job: Submission) -> Job:
    found = service.job(job.job_id, LOCAL).run
    assert found is not None
    return found


def test_job_expires_snapshots_and_says_what_it_did(service: Service, warehouse: Warehouse, table: Table) -> None:
    rows = warehouse.rows(table)
    submitted = expire(service, older_than="5d")
    assert (submitted.kind, submitted.strategy, submitted.options) == (EXPIRE, EXPIRE, {"older_than": "5d"})
    done = run(service)
    assert (done.status, done.outcome, done.attempts) == (JobStatus.SUCCEEDED, "committed", 1)
    assert len(ids_of(table)) == 1
    assert warehouse.rows(table) == rows
    totals = run_of(service, done).expired
    assert totals is not None
    assert (totals.snapshots_expired, totals.snapshots_kept, totals.files_refused) == (5, 1, 0)
    assert totals.files_deleted > 0
    stages = [event.data.get("stage") for event in service.events(done.job_id, LOCAL)]
    assert {"observe", "commit", "execute", "done"} <= set(stages)
    text = service.metrics.render().decode()
    assert 'tidyberg_jobs_total{kind="expire",status="success"} 1' in text
    assert "tidyberg_snapshots_expired_total 5" in text
    assert f"tidyberg_files_deleted_total {totals.files_deleted}" in text
    assert 'compaction_jobs_total{status="success"} 0' in text


def test_second_job_has_nothing_to_do(service: Service, table: Table) -> None:
    for outcome in ("committed", "tidy"):
        expire(service)
        assert run(service).outcome == outcome
    assert len(ids_of(table)) == 1


INVALID: tuple[dict[str, Any], ...] = (
    {"older_than": "five days"},
    {"older_than": "9" * 20 + "d"},
    {"older_than": 5},
    {"older_than": ""},
    {"retain_last": 0},
    {"retain_last": "many"},
    {"snapshot_ids": "12"},
    {"snapshot_ids": [-1]},
    {"snapshot_ids": [True]},
    {"snapshot_ids": [2**63]},
    {"snapshot_ids": [1.5]},
    {"older_thn": "5d"},
    {"strategy": "full"},
    {"verify": "counts"},
)


def test_invalid_options_are_refused(service: Service, table: Table) -> None:
    for options in INVALID:
        with pytest.raises(BadInput):
            expire(service, **options)
    assert {entry.outcome for entry in service.audit(LOCAL)} == {"failed"}
    assert len(ids_of(table)) == len(OLD)


def test_kinds_that_do_not_exist_are_refused(service: Service, table: Table) -> None:
    with pytest.raises(BadInput, match="did you mean 'expire'"):
        service.submit(SubmitRequest("db.events", kind="expir"), LOCAL)
    with pytest.raises(BadInput, match="strategy"):
        service.submit(SubmitRequest("db.events", kind=EXPIRE, strategy="full"), LOCAL)
    with pytest.raises(Unsupported):
        kind_of("of a newer version")
    assert len(ids_of(table)) == len(OLD)


def test_a_table_whose_files_others_may_share_is_refused_at_once(service: Service, table: Table) -> None:
    change_metadata(table, lambda document: document["properties"].update({"gc.enabled": "false"}))
    with pytest.raises(BadInput, match=r"gc\.enabled"):
        expire(service)


def test_only_admins_may_expire_unless_the_settings_say_otherwise(service: Service, table: Table) -> None:
    with pytest.raises(AccessDenied, match=r"need an admin"):
        expire(service, OPERATOR)
    entry = service.audit(LOCAL)[0]
    assert (entry.outcome, entry.action, entry.details["kind"]) == ("denied", "job.submit", EXPIRE)
    service.access = Access(job_roles={EXPIRE: Role.OPERATOR})
    assert expire(service, OPERATOR).kind == EXPIRE
    with pytest.raises(AccessDenied):
        expire(service, Principal("vera", Role.VIEWER))
    assert len(ids_of(table)) == len(OLD)


@pytest.mark.parametrize(
    "options", [{"expire_snapshots": True}, {"expire-snapshots": "true", "snapshot-retention-hours": 1}], ids=str
)
def test_a_compaction_that_expires_snapshots_needs_the_same_right(
    service: Service, table: Table, options: dict[str, Any]
) -> None:
    with pytest.raises(AccessDenied):
        service.submit(SubmitRequest("db.events", options=options), OPERATOR)
    assert service.submit(SubmitRequest("db.events", options={"expire_snapshots": False}), OPERATOR)
    plan = service.plan(SubmitRequest("db.events", strategy="full", options=options), OPERATOR)
    with pytest.raises(AccessDenied):
        service.apply(plan.hash, OPERATOR)
    assert service.apply(plan.hash, LOCAL).plan_hash == plan.hash
    with pytest.raises(AccessDenied):
        service.save_schedule(Schedule("s", "@daily", None, "db.events", options=options), OPERATOR)
    assert len(ids_of(table)) == len(OLD)


def test_keys_tell_kinds_apart(service: Service, table: Table) -> None:
    first = expire(service, key="once", older_than="5d")
    assert expire(service, key="once", older_than="5d").job_id == first.job_id
    for other in (SubmitRequest("db.events"), SubmitRequest("db.events", kind=EXPIRE, options={"older_than": "6d"})):
        with pytest.raises(IdempotencyMismatch):
            service.submit(other, LOCAL, "once")
    assert len(ids_of(table)) == len(OLD)


def test_transient_failures_are_retried(make_service: Callable[..., Service], table: Table) -> None:
    service, clock = make_service(max_attempts=2), Clock()
    wanted = service.control.expire

    def away(*_: Any, **__: Any) -> Any:
        service.control.expire = wanted  # type: ignore[method-assign]
        raise CatalogUnreachable("It is away.")

    service.control.expire = away  # type: ignore[method-assign]
    expire(service)
    assert run(service, clock).status is JobStatus.QUEUED
    clock.added_ms = 60_000
    done = run(service, clock)
    assert (done.status, done.attempts, len(ids_of(table))) == (JobStatus.SUCCEEDED, 2, 1)


def died(service: Service, job: Submission, token: int, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Runs the expiry of this job, and makes it look as if its process had died right after the commit."""

    def stop(*_: Any) -> Any:
        raise RuntimeError("killed")

    asked = ExpireJobOptions.model_validate(dict(job.options)).to_options()
    with monkeypatch.context() as patch:
        patch.setattr(ExpiryWork, "_delete", stop)
        with pytest.raises(RuntimeError):
            service.control.expire(REF, asked, job_id="dead", submission_id=job.job_id)
    found = service.records.store.get("dead")
    assert found is not None
    left = replace(found, status=JobStatus.RUNNING, stage=Stage.EXECUTE, finished_ms=None, error=None, error_code=None)
    service.records.store.save(left)
    service.records.queue.update(job.job_id, token, {"run_id": "dead"})
    return left


@pytest.mark.parametrize("named", [False, True], ids=["by age", "by id"])
def test_job_whose_process_died_after_its_commit_is_finished_not_repeated(
    service: Service, warehouse: Warehouse, table: Table, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rows = Clock(), warehouse.rows(table)
    first = ids_of(table)[0]
    options: dict[str, Any] = {"snapshot_ids": [first], "older_than": "36500d"} if named else {}
    job = expire(service, **options)
    mine = claimed(service, "first", clock)
    assert mine.claim is not None
    died(service, job, mine.claim.token, monkeypatch)
    kept = ids_of(table)
    assert first not in kept
    clock.added_ms = 60_000
    done = run(service, clock)
    assert (done.status, done.outcome, done.run_id) == (JobStatus.SUCCEEDED, "committed", "dead")
    totals = run_of(service, done).expired
    assert totals is not None
    assert totals.snapshots_expired == len(OLD) - len(kept)
    assert totals.files_deleted > 0
    assert ids_of(table) == kept
    assert warehouse.rows(table) == rows
    assert not warehouse.referenced_files(table) - warehouse.files_on_disk(table)


def test_named_snapshots_that_an_earlier_attempt_expired_are_not_missed(
    service: Service, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result was lost, so the job runs again."""
    clock = Clock()
    job = expire(service, snapshot_ids=[ids_of(table)[0]], older_than="36500d")
    mine = claimed(service, "first", clock)
    assert mine.claim is not None
    dead = died(service, job, mine.claim.token, monkeypatch)
    service.records.store.save(replace(dead, status=JobStatus.FAILED, error_code="storage", error="away", expired=None))
    clock.added_ms = 60_000
    done = run(service, clock)
    assert (done.status, len(ids_of(table))) == (JobStatus.SUCCEEDED, len(OLD) - 1)


def test_cancelled_job_changes_nothing(service: Service, table: Table) -> None:
    job = expire(service)
    assert service.cancel(job.job_id, LOCAL).status is JobStatus.CANCELLED
    assert len(ids_of(table)) == len(OLD)


AFTERWARDS = {"expire_snapshots": True, "snapshot_retention_hours": 120}


def test_compaction_expires_snapshots_afterwards(service: Service, warehouse: Warehouse, table: Table) -> None:
    rows = warehouse.rows(table)
    service.submit(SubmitRequest("db.events", strategy="full", options=AFTERWARDS), LOCAL)
    done = run(service)
    found = run_of(service, done)
    assert (done.status, done.outcome, done.kind) == (JobStatus.SUCCEEDED, "committed", "compact")
    assert found.stats is not None
    assert (found.stats.files_compacted, found.stats.snapshots_expired, len(ids_of(table))) == (6, 5, 2)
    assert warehouse.rows(table) == rows
    assert "tidyberg_snapshots_expired_total 5" in service.metrics.render().decode()


def fail_to_expire(service: Service, *, times: int) -> None:
    expire_snapshots, left = service.control.expire, [None] * times

    def sometimes(*args: Any, **kwargs: Any) -> Any:
        if left:
            left.pop()
            raise CatalogUnreachable("It is away.")
        return expire_snapshots(*args, **kwargs)

    service.control.expire = sometimes  # type: ignore[method-assign]


def test_expiry_that_failed_is_tried_again_without_a_second_compaction(
    make_service: Callable[..., Service], table: Table
) -> None:
    service, clock = make_service(max_attempts=3), Clock()
    fail_to_expire(service, times=1)
    service.submit(SubmitRequest("db.events", strategy="full", options=AFTERWARDS), LOCAL)
    assert run(service, clock).status is JobStatus.QUEUED
    committed = ids_of(table)[-1]
    clock.added_ms = 60_000
    done = run(service, clock)
    found = run_of(service, done)
    assert (done.status, done.outcome, done.error) == (JobStatus.SUCCEEDED, "committed", None)
    assert found.stats is not None
    assert (found.snapshot_id, found.stats.snapshots_expired) == (committed, 5)
    assert ids_of(table)[-1] == committed, "the table was compacted once"


def test_expiry_that_keeps_failing_leaves_the_compaction_and_says_so(
    make_service: Callable[..., Service], table: Table
) -> None:
    service = make_service(max_attempts=1)
    fail_to_expire(service, times=5)
    service.submit(SubmitRequest("db.events", strategy="full", options=AFTERWARDS), LOCAL)
    done = run(service)
    found = run_of(service, done)
    assert (done.status, done.outcome, done.error_code) == (JobStatus.SUCCEEDED, "partly", "catalog-unreachable")
    assert found.stats is not None
    assert (found.stats.snapshots_expired, found.stats.files_compacted) == (0, 6)
    assert len(ids_of(table)) == len(OLD) + 1
    service.submit(SubmitRequest("db.events", strategy="full", options=AFTERWARDS), LOCAL)
    again = run(service)
    assert (again.status, again.error_code) == (JobStatus.FAILED, "catalog-unreachable"), "it did nothing at all"


def test_compaction_whose_expiry_died_after_its_commit_counts_what_expired(
    service: Service, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    job = service.submit(SubmitRequest("db.events", strategy="full", options=AFTERWARDS), LOCAL)
    mine = claimed(service, "first", clock)
    assert mine.claim is not None
    options = replace(service._options(REF, SubmitRequest("db.events", strategy="full")), expire_snapshots=True)
    with monkeypatch.context() as patch:
        patch.setattr(ExpiryWork, "_delete", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            service.control.compact(REF, options, job_id="first", submission_id=job.job_id)
    service.records.queue.update(job.job_id, mine.claim.token, {"run_id": "first"})
    kept = ids_of(table)
    clock.added_ms = 60_000
    done = run(service, clock)
    found = run_of(service, done)
    assert (done.status, done.outcome, done.run_id) == (JobStatus.SUCCEEDED, "committed", "first")
    assert found.stats is not None
    assert (found.stats.snapshots_expired, ids_of(table)) == (5, kept)


def test_settings_decide_for_everybody_and_operators_may_switch_it_off(warehouse: Warehouse, table: Table) -> None:
    given = settings_of(warehouse)
    own = given.compaction.model_copy(update={"expire_snapshots": True})
    service = build_service(given.model_copy(update={"compaction": own}))
    try:
        service.submit(SubmitRequest("db.events", strategy="full", options={"expire_snapshots": False}), OPERATOR)
        run(service)
        assert len(ids_of(table)) == len(OLD) + 1
        service.submit(SubmitRequest("db.events", strategy="full"), OPERATOR)
        assert run(service).outcome == "tidy"
        assert len(ids_of(table)) == 2
    finally:
        service.stop()


def test_replicas_on_redis_run_it_once(warehouse: Warehouse, table: Table, redis_server: RedisServer) -> None:
    store = Store.model_validate({"url": redis_server.url, "prefix": "expire-jobs:"})
    replicas = [build_service(settings_of(warehouse).model_copy(update={"store": store})) for _ in range(2)]
    try:
        for replica in replicas:
            replica.start()
        job = expire(replicas[0], older_than="5d")
        done = ended(replicas[1], job.job_id)
        assert (done.kind, done.status, done.outcome, done.attempts) == (EXPIRE, JobStatus.SUCCEEDED, "committed", 1)
        totals = run_of(replicas[1], done).expired
        assert totals is not None
        assert (totals.snapshots_expired, len(ids_of(table))) == (5, 1)
    finally:
        for replica in replicas:
            replica.stop()
