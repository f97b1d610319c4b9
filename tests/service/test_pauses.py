"""A paused table accepts no jobs from callers or schedules, and its queued jobs wait."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.builders.schedulers import HOURLY, MINUTE_MS, Make
from tests.builders.services import Clock, until
from tidyberg.errors import AccessDenied, BadInput, TablePaused, UnknownPause
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.service.requests import SubmitRequest
from tidyberg.service.service import Service
from tidyberg.testing import Warehouse

EVENTS = TableRef("lab", ("db",), "events")
REQUEST = SubmitRequest("db.events")


@pytest.fixture
def service(warehouse: Warehouse, make_service: Callable[..., Service]) -> Service:
    warehouse.append_files(warehouse.create_table("db.events"), 4, 10)
    return make_service()


def test_paused_table_refuses_jobs_with_a_reason_until_resumed(service: Service) -> None:
    service.pauses.pause(EVENTS, LOCAL, "migration\nof the lake", None)
    with pytest.raises(TablePaused, match=r"db\.events is paused by local: migration of the lake") as caught:
        service.submit(REQUEST, LOCAL)
    assert caught.value.hint == "Resume it (`tidyberg resume`).", "this pause does not end by itself"
    plan = service.plan(REQUEST, LOCAL)
    with pytest.raises(TablePaused):
        service.apply(plan.hash, LOCAL)
    assert [pause.table for pause in service.pauses.all(LOCAL)] == [EVENTS]
    assert b"tidyberg_paused_tables 1\n" in service.metrics.render()
    service.pauses.resume(EVENTS, LOCAL)
    assert service.submit(REQUEST, LOCAL).status is JobStatus.QUEUED
    with pytest.raises(UnknownPause):
        service.pauses.resume(EVENTS, LOCAL)
    actions = [(entry.action, entry.outcome) for entry in service.audit(LOCAL)]
    assert actions == [
        ("table.resume", "failed"),
        ("job.submit", "allowed"),
        ("table.resume", "allowed"),
        ("plan.apply", "failed"),
        ("job.submit", "failed"),
        ("table.pause", "allowed"),
    ]


def test_pause_ends_at_its_time(service: Service) -> None:
    clock = Clock()
    service.pauses = replace(service.pauses, now_ms=clock)
    service.pauses.pause(EVENTS, LOCAL, "for an hour", clock() + 3_600_000)
    with pytest.raises(TablePaused):
        service.submit(REQUEST, LOCAL)
    clock.added_ms = 3_600_001
    assert service.pauses.all(LOCAL) == []
    service.submit(REQUEST, LOCAL)


def test_pause_checks_the_role_and_the_reason(service: Service) -> None:
    with pytest.raises(AccessDenied):
        service.pauses.pause(EVENTS, Principal("vera", Role.VIEWER), "why not", None)
    for reason, until_ms in (("", None), (" \n ", None), ("x" * 501, None), ("late", 1)):
        with pytest.raises(BadInput):
            service.pauses.pause(EVENTS, LOCAL, reason, until_ms)
    assert service.pauses.all(LOCAL) == []


def test_queued_job_of_a_paused_table_waits_without_losing_attempts(service: Service) -> None:
    job = service.submit(REQUEST, LOCAL)
    service.pauses.pause(EVENTS, LOCAL, "migration", None)
    service.start()

    def put_back() -> Submission | None:
        found = service.job(job.job_id, LOCAL).submission
        return found if found.status is JobStatus.QUEUED and found.error is not None else None

    found = until(put_back)
    assert found.error == "table-paused: local has paused the table: migration"
    assert (found.attempts, found.run_id) == (0, None)
    assert found.not_before_ms > service.now_ms()


def test_schedule_skips_a_paused_table(make: Make) -> None:
    lab = make(("db.events", "db.other"))
    lab.save(replace(HOURLY, table="db.*"))
    lab.look_at(30)
    lab.service.pauses.pause(EVENTS, LOCAL, "migration", lab.clock() + 60 * MINUTE_MS)
    lab.look_at(60, 61)
    assert lab.tables() == ["db.other"]
    assert b"compaction_schedules_paused_total 1\n" in lab.service.metrics.render()
    lab.run_jobs()
    lab.look_at(120, 121)
    assert sorted(lab.tables()) == ["db.events", "db.other", "db.other"], "it is over by then"
