"""Jobs of dead replicas are taken over by the clock of the store. This is logged and costs no attempt."""

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders.services import Clock, attempt, claimed, ended, settings_of, slow, submit, untidy_table
from tests.servers.redis import RedisServer
from tidyberg.app import build_service
from tidyberg.errors import StoreUnreachable
from tidyberg.model.job import JobStatus, Stage
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Limits
from tidyberg.record.clock import wall_clock_ms
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.service.store_clock import StoreClock
from tidyberg.settings.store import Store
from tidyberg.testing import Warehouse


def test_takeover_is_logged_and_costs_no_attempt(
    make_service: Callable[..., Service], warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    untidy_table(warehouse)
    service, clock = make_service(max_attempts=2), Clock()
    job = submit(service)
    first = claimed(service, "first", clock)
    options = service._options(job.table, SubmitRequest("db.events"))
    run = service.control.compact(
        job.table, replace(options, where="id < 0"), job_id="dead", submission_id=job.job_id
    ).job
    service.records.store.save(replace(run, status=JobStatus.RUNNING, stage=Stage.EXECUTE, finished_ms=None))
    assert first.claim is not None
    service.records.queue.update(job.job_id, first.claim.token, {"run_id": "dead"})
    clock.added_ms = 60_000
    second = claimed(service, "second", clock)
    assert (second.attempts, second.run_id) == (1, "dead")
    with caplog.at_level(logging.WARNING):
        attempt(service, second, clock).run()
    assert "job taken over: " in caplog.text
    done = service.job(job.job_id, LOCAL).submission
    assert (done.status, done.attempts) == (JobStatus.SUCCEEDED, 1)
    assert any("stopped responding" in str(event.data.get("message")) for event in service.events(job.job_id, LOCAL))


def test_stopping_service_puts_jobs_back_without_costing_an_attempt(
    make_service: Callable[..., Service], warehouse: Warehouse
) -> None:
    untidy_table(warehouse)
    service = make_service(grace_seconds=0, max_attempts=1)
    engine = slow(service)
    service.start()
    job = submit(service)
    assert engine.begun.wait(60)
    service.stop()
    again = make_service(max_attempts=1)
    waiting = again.job(job.job_id, LOCAL).submission
    assert (waiting.status, waiting.attempts) == (JobStatus.QUEUED, 0)
    again.start()
    assert ended(again, job.job_id).status is JobStatus.SUCCEEDED


def test_replica_with_a_wrong_clock_takes_over_nothing(
    warehouse: Warehouse, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    untidy_table(warehouse)
    store = Store.model_validate({"url": redis_server.url, "prefix": "skew:"})
    service = build_service(settings_of(warehouse).model_copy(update={"store": store}))
    assert isinstance(service.now_ms, StoreClock)
    assert service.control.now_ms is service.now_ms, "leases are judged by it too"
    assert service.records.clock_ms is not None
    job = submit(service)
    claim = service.records.queue.claim("here", now_ms=service.now_ms(), ttl_ms=30_000, limits=Limits(running=9))
    assert claim is not None
    skews: list[float] = []
    for added_ms in (120_000, -120_000):
        wrong = StoreClock(service.records.clock_ms, skews.append, lambda added=added_ms: wall_clock_ms() + added)  # type: ignore[misc]
        with caplog.at_level(logging.WARNING):
            assert abs(wrong() - wall_clock_ms()) < 5_000
        taken = service.records.queue.claim("wrong", now_ms=wrong(), ttl_ms=30_000, limits=Limits(running=9))
        assert taken is None, "it is another's"
    assert [round(skew / 10) for skew in skews] == [12, -12]
    assert "the local clock is" in caplog.text
    assert service.job(job.job_id, LOCAL).submission.status is JobStatus.RUNNING
    service.stop()


def test_clock_asks_again_after_a_store_outage() -> None:
    answers: list[int | None] = [None, 5_000_000]

    def ask() -> int:
        answer = answers.pop(0)
        if answer is None:
            raise StoreUnreachable("away")
        return answer

    clock = StoreClock(ask, local_ms=lambda: 1_000_000)
    assert clock() == 1_000_000
    clock._asked = float("-inf")
    assert clock() == 5_000_000
