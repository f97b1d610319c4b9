"""During an outage of Redis or the catalog, workers wait, nothing crashes and every job ends once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.builders.control import chunks, leftovers
from tests.builders.engines import Slow
from tests.builders.services import ended, settings_of, slow, submit, untidy_table, until
from tests.servers.redis import RedisServer
from tidyberg.app import build_service
from tidyberg.errors import TidybergError
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


def service_on(redis: RedisServer, warehouse: Warehouse, **queue: Any) -> Service:
    own = settings_of(warehouse, claim_seconds=1, lease_seconds=1, upkeep_seconds=0.5, **queue)
    return build_service(Settings.model_validate(own.model_dump() | {"store": {"url": redis.url}}))


@pytest.fixture
def redis_service(redis_to_kill: RedisServer, warehouse: Warehouse) -> Iterator[Service]:
    service = service_on(redis_to_kill, warehouse)
    yield service
    service.stop()


def go_on_while_away(service: Service, redis: RedisServer, engine: Slow, job_id: str) -> None:
    """Redis dies while the job runs. The job continues after its claim has expired, then Redis returns."""
    assert engine.begun.wait(60)
    redis.kill()
    assert engine.go.wait(60), "a run that cannot renew its claim is told to stop"
    with pytest.raises(TidybergError) as refused:
        service.submit(SubmitRequest("db.events"), LOCAL)
    assert refused.value.http_status == 503
    assert not service.ready().ok
    redis.start()
    done = ended(service, job_id)
    assert (done.status, done.outcome) == (JobStatus.SUCCEEDED, "committed")


@pytest.mark.slow
def test_jobs_survive_a_redis_outage(redis_service: Service, redis_to_kill: RedisServer, warehouse: Warehouse) -> None:
    rows = untidy_table(warehouse)
    engine = slow(redis_service)
    redis_service.start()
    job = submit(redis_service)
    go_on_while_away(redis_service, redis_to_kill, engine, job.job_id)
    table = warehouse.catalog.load_table("db.events")
    assert warehouse.rows(table) == rows
    assert len(chunks(table)) == 1, "it is committed once"
    until(lambda: not leftovers(warehouse, table) or None)
    until(lambda: redis_service.ready().ok or None)  # the result is cached for two seconds


def test_jobs_wait_for_a_catalog_that_does_not_answer(warehouse: Warehouse) -> None:
    untidy_table(warehouse)
    service = build_service(settings_of(warehouse))
    with closing(sqlite3.connect(warehouse.directory / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")  # callers get a lock error after some seconds
        service.start()
        job = submit(service)
        until(lambda: service.job(job.job_id, LOCAL).submission.attempts > 1 or None)
    try:
        done = ended(service, job.job_id)
        assert (done.outcome, done.error) == ("committed", None)
        reasons = [str(event.data.get("reason")) for event in service.events(job.job_id, LOCAL)]
        assert any(reason.startswith("catalog-unreachable") for reason in reasons)
    finally:
        service.stop()
