"""A scheduler on a fake clock, over a service without workers."""

import itertools
from collections.abc import Callable
from datetime import datetime

from pyiceberg.catalog import Catalog

from tests.builders.job_stores import SqlitePlace
from tests.builders.services import FakeClock
from tidyberg.app import build_control
from tidyberg.errors import CatalogUnreachable
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Limits, Query, Schedule
from tidyberg.service.scheduler import Scheduler
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

MINUTE_MS, HOUR_MS = 60_000, 3_600_000

NINE = int(datetime.fromisoformat("2026-11-15T09:00+00:00").timestamp() * 1000)

HOURLY = Schedule("hourly", "0 * * * *", "lab", "db.events")

Make = Callable[..., "Lab"]


class Lab:
    def __init__(self, warehouse: Warehouse, settings: Settings) -> None:
        self.clock = FakeClock(NINE + 30 * MINUTE_MS)
        self.catalog_is_down = False
        records = SqlitePlace(settings.store.path).open()
        control = build_control(settings, records.store)
        opened = control.open_catalog

        def open_catalog(name: str | None) -> Catalog:
            if self.catalog_is_down:
                raise CatalogUnreachable("It is down.")
            return opened(name)

        self.service = Service(settings, control, records, now_ms=self.clock)
        self.service.lookup.open_catalog = open_catalog
        ticks = itertools.count(0, 1000)  # nothing stays in memory, nothing rests
        self.service.lookup.clock = lambda: float(next(ticks))
        self.restart()

    def restart(self) -> None:
        self.scheduler = Scheduler(self.service)

    def save(self, schedule: Schedule) -> Schedule:
        return self.service.save_schedule(schedule, LOCAL)

    def look_at(self, *minutes_after_nine: int) -> None:
        for minutes in minutes_after_nine:
            self.clock.now_ms = NINE + minutes * MINUTE_MS
            self.scheduler.look()

    def tables(self) -> list[str]:
        page = self.service.records.queue.submissions(Query(newest_first=False, limit=500))
        return [str(submission.table) for submission in page.submissions]

    def run_jobs(self) -> None:
        queue, now_ms = self.service.records.queue, self.clock()
        while (job := queue.claim("test", now_ms=now_ms, ttl_ms=HOUR_MS, limits=Limits(100))) is not None:
            assert job.claim is not None
            queue.finish(job.job_id, job.claim.token, JobStatus.SUCCEEDED, now_ms=now_ms, changes={})
