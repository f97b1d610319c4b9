"""Auto mode on real tables: it plans and submits within the daily budget, on one replica at a time."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.job_stores import SqlitePlace
from tests.builders.schedulers import HOUR_MS, NINE
from tests.builders.services import FakeClock, untidy_table
from tidyberg.app import build_control
from tidyberg.errors import CatalogUnreachable
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Query, Submission
from tidyberg.model.table import TableRef
from tidyberg.service.auto_mode import AutoMode
from tidyberg.service.auto_selection import TableFacts
from tidyberg.service.service import Service
from tidyberg.settings.scheduling import Auto
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

Make = Callable[..., "Replica"]


class Replica:
    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        self.clock = clock
        records = SqlitePlace(settings.store.path).open()
        control = build_control(settings, records.store)
        control.now_ms = clock
        self.service = Service(settings, control, records, now_ms=clock)
        self.auto = AutoMode(self.service)

    def jobs(self) -> list[Submission]:
        return list(self.service.records.queue.submissions(Query(newest_first=False, limit=500)).submissions)

    def tables(self) -> list[str]:
        return [str(job.table) for job in self.jobs()]

    def end_jobs(self, status: JobStatus, dollars: float | None = None) -> None:
        queue, now_ms = self.service.records.queue, self.clock()
        while (job := queue.claim("test", now_ms=now_ms, ttl_ms=HOUR_MS, limits=Limits(100))) is not None:
            assert job.claim is not None
            queue.finish(job.job_id, job.claim.token, status, now_ms=now_ms, changes={"dollars": dollars})


@pytest.fixture
def make(warehouse: Warehouse) -> Iterator[Make]:
    clock, made = FakeClock(NINE), list[Replica]()

    def build(**auto: Any) -> Replica:
        given = {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "compaction": {"min_input_files": 2},
            "store": {"path": str(warehouse.directory / "jobs.db")},
            "scheduler": {
                "auto": {"enabled": True, "max_dollars_per_day": 1.0, "max_payback_scans": 10**9, **auto},
            },
        }
        made.append(Replica(Settings.model_validate(given), clock))
        return made[-1]

    yield build
    for replica in made:
        replica.service.records.close()


def test_untidy_tables_are_submitted_with_their_estimates(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events", files=20)
    untidy_table(warehouse, "db.tidy", files=1)
    warehouse.create_table("db.empty")
    out = warehouse.create_table("db.out", properties={"tidyberg.enabled": "false"})
    warehouse.append_files(out, 20)
    replica = make()
    replica.auto.look()
    (job,) = replica.jobs()
    assert (str(job.table), job.created_by) == ("db.events", "auto")
    assert job.priority < 0
    assert (job.estimated_dollars or 0) > 0
    assert (job.estimated_seconds or 0) > 0
    assert 0 < job.options["max_cost"] <= 1.0


def test_one_replica_looks_once_per_interval(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events")
    first, second = make(), make()
    first.auto.look()
    second.auto.look()
    first.end_jobs(JobStatus.SUCCEEDED)
    first.clock.now_ms += HOUR_MS // 2
    first.auto.look()
    second.auto.look()
    assert first.tables() == ["db.events"]
    first.clock.now_ms += HOUR_MS // 2
    second.auto.look()
    assert first.tables() == ["db.events"] * 2


def test_only_one_replica_looks_at_a_time(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events")
    first, second = make(), make()
    with first.auto.turn() as mine:
        assert mine is not None
        second.auto.look()
        assert first.tables() == []
        first.clock.now_ms += HOUR_MS
        with second.auto.turn() as theirs:
            assert theirs is not None
            assert not mine()


def test_daily_budget_spans_looks_and_resets_the_next_day(
    make: Make, warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidyberg.auto")
    for number in range(3):
        untidy_table(warehouse, f"db.t{number}")
    probe = make()
    probe.auto.look()
    cost = max(job.estimated_dollars or 0 for job in probe.jobs())
    assert len(probe.tables()) == 3
    probe.end_jobs(JobStatus.SUCCEEDED, dollars=cost)

    replica = make(max_dollars_per_day=4.5 * cost)
    replica.clock.now_ms += HOUR_MS
    replica.auto.look()
    assert len(replica.tables()) == 4
    assert "of today's are left" in caplog.text
    replica.end_jobs(JobStatus.SUCCEEDED, dollars=2 * cost)
    replica.clock.now_ms += HOUR_MS
    replica.auto.look()
    assert len(replica.tables()) == 4
    assert "is used up" in caplog.text
    replica.clock.now_ms += 24 * HOUR_MS
    replica.auto.look()
    assert len(replica.tables()) == 7


def test_tables_with_a_running_or_recently_failed_job_are_skipped(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events")
    replica = make()
    for status in (None, JobStatus.FAILED):
        if status is not None:
            replica.end_jobs(status)
        replica.auto.look()
        replica.clock.now_ms += HOUR_MS
        make().auto.look()
        assert replica.tables() == ["db.events"]
    replica.clock.now_ms += 25 * HOUR_MS
    replica.auto.look()
    assert replica.tables() == ["db.events"] * 2


def test_planned_tables_per_look_are_limited(make: Make, warehouse: Warehouse) -> None:
    for number in range(5):
        untidy_table(warehouse, f"db.t{number}", files=4 + number)
    replica = make(max_tables_per_look=2)
    replica.auto.look()
    assert sorted(replica.tables()) == ["db.t3", "db.t4"]
    replica.clock.now_ms += HOUR_MS
    replica.auto.look()
    assert sorted(replica.tables()) == ["db.t1", "db.t2", "db.t3", "db.t4"]


def test_catalog_outage_postpones_the_look(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events")
    replica = make()
    opened = replica.service.control.open_catalog

    def down(name: str | None) -> Any:
        raise CatalogUnreachable(f"{name} is down.")

    replica.service.control.open_catalog = down
    with pytest.raises(CatalogUnreachable):
        replica.auto.look()
    replica.service.control.open_catalog = opened
    replica.auto.look()
    assert replica.tables() == ["db.events"]


def test_unreadable_table_does_not_block_others(make: Make, warehouse: Warehouse) -> None:
    untidy_table(warehouse, "db.events")
    untidy_table(warehouse, "db.broken")
    path = warehouse.catalog.load_table("db.broken").metadata_location.removeprefix("file://")
    with open(path, "w") as metadata:
        metadata.write("{}")
    replica = make()
    replica.auto.look()
    assert replica.tables() == ["db.events"]


def test_look_over_thousands_of_tables_is_bounded_and_goes_round(make: Make, warehouse: Warehouse) -> None:
    replica = make(max_tables_per_look=50)
    tables = [TableRef("lab", ("db",), f"t{number:04}") for number in range(5000)]
    looked_at: list[TableRef] = []
    planned: list[TableRef] = []

    class Counting(AutoMode):
        def _tables(self, auto: Auto) -> list[TableRef]:
            return tables

        def _facts(self, ref: TableRef) -> TableFacts:
            looked_at.append(ref)
            return TableFacts(ref, 1, 100, 1000, 0, 0, target_file_size=1000)

        def _plan(self, facts: TableFacts) -> None:
            planned.append(facts.table)

    auto = Counting(replica.service)
    auto.look()
    assert (len(looked_at), len(planned)) == (1000, 50)
    for _ in range(4):
        replica.clock.now_ms += HOUR_MS
        auto.look()
    assert sorted(looked_at, key=str) == tables
