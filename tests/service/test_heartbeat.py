"""The heartbeat renews a claim while its job runs, and stops a run that lost it."""

import time

import pytest

from tests.builders.services import Clock, claimed, submit, untidy_table, until
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Progress
from tidyberg.model.principal import LOCAL
from tidyberg.model.report import GroupFinished, Notice
from tidyberg.service.heartbeat import Heartbeat, StopReason
from tidyberg.service.job_events import JobEventWriter
from tidyberg.service.service import Service
from tidyberg.testing import Warehouse

TTL_MS = 400


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heartbeat(service: Service, warehouse: Warehouse, clock: Clock) -> Heartbeat:
    untidy_table(warehouse)
    submit(service)
    self_claimed = claimed(service, "first", clock)
    return Heartbeat(service.records.queue, self_claimed, CancelToken(), ttl_ms=TTL_MS, now_ms=clock)


def test_claim_is_renewed_beyond_its_lifetime(service: Service, heartbeat: Heartbeat, clock: Clock) -> None:
    with heartbeat:
        time.sleep(2 * TTL_MS / 1000)
        job = service.records.queue.submission(heartbeat._job_id)
        assert job is not None
        assert job.claim is not None
        assert job.claim.expires_ms > clock()
        assert heartbeat.stopped is None


def test_run_stops_if_its_claim_is_lost(service: Service, heartbeat: Heartbeat, clock: Clock) -> None:
    clock.added_ms = 60_000
    claimed(service, "second", clock)
    heartbeat.stop(StopReason.SHUTDOWN)
    with heartbeat:
        until(lambda: heartbeat.is_lost or None)
    assert heartbeat._cancel.cancelled


def test_cancellation_reaches_the_run(service: Service, heartbeat: Heartbeat) -> None:
    service.cancel(heartbeat._job_id, LOCAL)
    with heartbeat:
        until(lambda: heartbeat._cancel.cancelled or None)
    assert heartbeat.stopped is StopReason.CANCELLED


def test_progress_is_written_at_most_twice_a_second_and_the_last_is_kept(
    service: Service, warehouse: Warehouse
) -> None:
    untidy_table(warehouse)
    job, now = submit(service), [0.0]
    watch = JobEventWriter(service.records.queue, job.job_id, Clock(), lambda: False, lambda: now[0])
    for number in range(20):
        now[0] += 0.125
        watch(GroupFinished(number, "", Progress(groups_completed=number)))
    watch(Notice("info", "x" * 10_000))
    *progress, notice = service.events(job.job_id, LOCAL)
    assert [event.data["groups_completed"] for event in progress] == [0, 4, 8, 12, 16, 19]
    assert len(notice.data["message"]) == 2000
