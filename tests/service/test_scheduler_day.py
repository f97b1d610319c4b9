"""A day of schedules on three replicas that pause, die and start. Each due time makes one job per table."""

import itertools
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.builders.cron_model import slow_model
from tests.builders.job_stores import Place, RedisPlace, SqlitePlace
from tests.service.crowd import crowd
from tidyberg.model.cron import parse_cron
from tidyberg.model.submission import Schedule
from tidyberg.model.table import TableRef
from tidyberg.service.scheduler import FIRST_LOOK_MS, submission_key
from tidyberg.service.timetable import settings_schedules
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

TABLES = ("db.events", "db.orders", "ops.log")
HOUR_MS = 3_600_000
MISSED_AFTER_MS = 300_000

# Some of these days contain a change of clocks.
KINDS = {
    "plain": [("UTC", "2026-11-15T00:00"), ("Asia/Kathmandu", "2026-03-28T18:00")],
    "spring": [
        ("Europe/Berlin", "2026-03-28T18:00"),
        ("America/New_York", "2026-03-07T18:00"),
        ("Australia/Lord_Howe", "2026-10-03T18:00"),
    ],
    "autumn": [
        ("Europe/Berlin", "2026-10-24T18:00"),
        ("America/New_York", "2026-10-31T18:00"),
        ("Australia/Lord_Howe", "2026-04-04T18:00"),
    ],
}
LINES = st.one_of(
    st.builds("{} {} * * *".format, st.integers(0, 59), st.integers(0, 4)),
    st.builds("{},{} 1,2,{} * * *".format, st.integers(0, 29), st.integers(30, 59), st.integers(3, 23)),
    st.builds("{} */{} * * *".format, st.integers(0, 59), st.integers(1, 6)),
    st.sampled_from(["@daily", "@hourly", "*/45 1-3 * * *", "0 2 * * sat,sun", "*/20 0-4/2 * * *"]),
)
ENTRIES = st.tuples(LINES, LINES, LINES, st.sampled_from(["once", "skip", "all"]), st.sampled_from([0, 0, 90, 4000]))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with Warehouse(tmp_path_factory.mktemp("lab")) as warehouse:
        for name in TABLES:
            warehouse.create_table(name)
        warehouse.create_table("ops.left_alone", properties={"tidyberg.enabled": "false"})
        yield warehouse


@pytest.fixture(params=["sqlite", "redis"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    number = itertools.count()
    if request.param == "sqlite":
        return lambda: SqlitePlace(tmp_path / f"{next(number)}.db")
    redis = request.getfixturevalue("redis_server")
    return lambda: RedisPlace(redis.url, f"day-{next(number)}:")


def settings_for(warehouse: Warehouse, zone: str, entries: tuple[str, str, str, Any, int]) -> Settings:
    one, pattern, default, missed, jitter = entries
    return Settings.model_validate(
        {
            "engine": "inline",
            "catalogs": {"lab": warehouse.properties},
            "default_catalog": "lab",
            "scheduler": {
                "default_schedule": default,
                "timezone": zone,
                "missed": missed,
                "jitter_seconds": jitter,
                "missed_after_seconds": MISSED_AFTER_MS // 1000,
            },
            "tables": [
                {"name": "db.events", "schedule": one},
                {"name": "db.*", "schedule": pattern, "missed": "all"},
            ],
        }
    )


COVERED = {"table-lab.db.events": ["db.events"], "table-lab.db": ["db.orders"], "default-lab": ["ops.log"]}


def expected_keys(schedule: Schedule, start_ms: int, end_ms: int) -> set[str]:
    zone = ZoneInfo(schedule.timezone)
    first = datetime.fromtimestamp(start_ms / 1000, ZoneInfo("UTC"))
    tables = COVERED[schedule.schedule_id.rpartition("-")[0]]
    return {
        submission_key(schedule, due_ms, TableRef.parse(table, "lab"))
        for due_ms in slow_model(parse_cron(schedule.cron), first, (end_ms - start_ms) // 60_000, zone)
        for table in tables
    }


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],  # a smaller seed is not a simpler example
)
@given(data=st.data(), entries=ENTRIES, seed=st.integers(0, 2**32))
def test_every_due_time_of_a_day_makes_one_job_per_table(
    warehouse: Warehouse, new_place: Callable[[], Place], kind: str, data: st.DataObject, entries: Any, seed: int
) -> None:
    zone, at = data.draw(st.sampled_from(KINDS[kind]))
    start_ms = int(datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    end_ms = start_ms + 24 * HOUR_MS
    configured = settings_for(warehouse, zone, entries)
    with crowd(configured, new_place(), start_ms, random.Random(seed)) as replicas:
        # Jitter may delay the last times of the day.
        replicas.pass_time(end_ms + 2 * HOUR_MS, MISSED_AFTER_MS - 1000)
        schedules = settings_schedules(configured)
        due = {
            key
            for schedule in schedules
            for key in expected_keys(schedule, start_ms - FIRST_LOOK_MS, replicas.clock.now_ms)
        }
        held_back = {key for schedule in schedules for key in expected_keys(schedule, end_ms, replicas.clock.now_ms)}
        assert due - held_back <= replicas.keys <= due
        assert len(replicas.submissions()) == len(replicas.keys)
        assert not any("left_alone" in key for key in replicas.keys)
