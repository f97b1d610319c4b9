"""The scheduler: missed times, patterns, opt-out, outages and queued jobs."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.metrics import value
from tests.builders.schedulers import HOUR_MS, HOURLY, MINUTE_MS, NINE, Make
from tests.builders.services import until
from tidyberg.errors import BadInput, UnknownCatalog
from tidyberg.model.principal import LOCAL
from tidyberg.model.submission import Query
from tidyberg.service.due_times import DueTime, jitter_ms, next_due, passed, to_fire
from tidyberg.service.schedules import ScheduleConflict
from tidyberg.service.service import Service
from tidyberg.testing import Warehouse


def test_api_schedule_submits_with_its_own_options_and_name(make: Make) -> None:
    lab = make()
    lab.save(replace(HOURLY, strategy="full", options={"max_files": 10}, priority=5))
    lab.look_at(31, 59, 60, 61)
    (job,) = lab.service.jobs(Query(), LOCAL).submissions
    assert (str(job.table), job.strategy, job.priority) == ("db.events", "full", 5)
    assert job.options == {"strategy": "full", "max_files": 10}
    assert job.created_by == "schedule:hourly"


def test_settings_entry_submits_with_the_options_of_the_settings(make: Make) -> None:
    entry = {"name": "events", "schedule": "0 * * * *", "strategy": "full", "options": {"target_file_size": "1GB"}}
    lab = make(("db.events", "ops.events", "db.other"), tables=[entry])
    lab.look_at(30, 60)
    assert sorted(lab.tables()) == ["db.events", "ops.events"]
    assert {job.strategy for job in lab.service.jobs(Query(), LOCAL).submissions} == {"full"}


def test_default_schedule_covers_tables_without_another_schedule(make: Make) -> None:
    lab = make(
        ("db.a", "db.b", "db.c", "db.d"),
        scheduler={"default_schedule": "0 * * * *"},
        tables=[{"name": "db.a", "schedule": "30 12 * * *"}, {"name": "db.b", "options": {"max_files": 9}}],
    )
    lab.save(replace(HOURLY, cron="30 12 * * *", table="*.c"))
    lab.look_at(30, 60)
    assert sorted(lab.tables()) == ["db.b", "db.d"]


def test_first_matching_entry_applies(make: Make) -> None:
    lab = make(
        ("db.a", "db.b"),
        tables=[{"name": "db.a", "schedule": "0 12 * * *"}, {"name": "db.*", "schedule": "0 * * * *"}],
    )
    lab.look_at(30, 60)
    assert lab.tables() == ["db.b"]


def test_table_can_opt_out_of_schedules_but_not_of_explicit_jobs(make: Make, warehouse: Warehouse) -> None:
    lab = make(())
    warehouse.create_table("db.events", properties={"tidyberg.enabled": "False"})
    warehouse.create_table("db.other", properties={"tidyberg.enabled": "true"})
    lab.save(HOURLY)
    lab.save(replace(HOURLY, schedule_id="pattern", table="db.*"))
    lab.look_at(30, 60)
    assert lab.tables() == ["db.other"]


@pytest.mark.parametrize(("missed", "jobs"), [("skip", 0), ("once", 1), ("all", 5)])
def test_missed_times_are_skipped_run_once_or_all_run(make: Make, missed: Any, jobs: int) -> None:
    lab = make()
    lab.save(replace(HOURLY, missed=missed))
    lab.look_at(30)
    lab.restart()
    lab.look_at(60 * 5 + 30, 60 * 5 + 31)
    assert len(lab.tables()) == jobs
    lab.run_jobs()
    lab.look_at(60 * 6)
    assert len(lab.tables()) == jobs + 1
    assert value(lab.service.metrics, "compaction_schedules_fired_total") == jobs + 1
    assert value(lab.service.metrics, "compaction_schedules_missed_total") == 5 - jobs


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_jobs_delayed_by_a_catalog_outage_are_submitted_later(make: Make, missed: Any) -> None:
    lab = make()
    lab.save(replace(HOURLY, missed=missed, table="db.*"))
    lab.look_at(30)
    lab.catalog_is_down = True
    lab.look_at(60, 61, 75)
    assert lab.tables() == []
    lab.catalog_is_down = False
    lab.look_at(80, 81)
    assert lab.tables() == ["db.events"]


def test_failing_table_delays_no_other_and_is_retried(make: Make) -> None:
    lab = make(("db.a", "db.b", "db.c"))
    lab.save(replace(HOURLY, table="db.*"))
    real = lab.service.lookup.table
    broken = True
    lab.service.lookup.table = lambda ref, *, refresh=False: (  # type: ignore[method-assign]
        None if broken and ref.name == "a" else real(ref, refresh=refresh)
    )
    lab.look_at(30, 60, 61, 62)
    assert sorted(lab.tables()) == ["db.b", "db.c"]
    broken = False
    lab.look_at(63)
    assert sorted(lab.tables()) == ["db.a", "db.b", "db.c"]


def test_table_with_a_queued_job_gets_no_second_one(make: Make) -> None:
    lab = make()
    lab.save(HOURLY)
    lab.look_at(30, 60, 120)
    assert len(lab.tables()) == 1
    lab.run_jobs()
    lab.look_at(180)
    assert len(lab.tables()) == 2


def test_unknown_table_or_catalog_is_not_retried_forever(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    lab = make()
    lab.save(replace(HOURLY, schedule_id="one", table="db.gone"))
    removed = replace(HOURLY, schedule_id="two", table="db.*", catalog="nowhere", source="api")
    lab.service.records.ledger.save_schedule(removed)  # the settings no longer have its catalog
    lab.save(HOURLY)
    lab.look_at(30, 60)
    assert lab.tables() == ["db.events"]
    reached = NINE + HOUR_MS
    assert [lab.service.records.ledger.last_due(key) for key in ("one", "two")] == [reached, reached]
    assert "db.gone" in caplog.text
    assert "nowhere" in caplog.text


def test_a_schedule_for_an_unknown_catalog_is_refused(make: Make) -> None:
    with pytest.raises(UnknownCatalog, match="nowhere"):
        make().save(replace(HOURLY, table="db.*", catalog="nowhere"))


def test_disabled_or_changed_schedule_runs_no_missed_times(make: Make) -> None:
    lab = make()
    lab.save(replace(HOURLY, missed="all"))
    lab.look_at(30)
    lab.save(replace(HOURLY, missed="all", enabled=False))
    lab.look_at(60, 120, 180)
    lab.clock.now_ms = NINE + 190 * MINUTE_MS
    lab.save(replace(HOURLY, missed="all", cron="15 * * * *"))
    lab.look_at(190, 191)
    assert lab.tables() == []
    lab.look_at(195)
    assert lab.tables() == ["db.events"]


def test_deleted_schedule_submits_nothing(make: Make) -> None:
    lab = make()
    lab.save(HOURLY)
    lab.look_at(30)
    lab.service.delete_schedule("hourly", LOCAL)
    lab.look_at(60, 120)
    assert lab.tables() == []


def test_schedules_of_the_settings_are_shown_with_their_times_and_cannot_be_changed(make: Make) -> None:
    options = {"target_file_size": "1GB", "partition_filter": "id > 3"}
    entry = {"name": "db.events", "schedule": "0 * * * *", "timezone": "Asia/Kathmandu", "options": options}
    lab = make(tables=[entry])
    lab.save(replace(HOURLY, schedule_id="zz", enabled=False))
    of_settings, of_api = lab.service.schedules(LOCAL)
    assert (of_settings.source, of_settings.timezone, of_api.schedule_id) == ("settings", "Asia/Kathmandu", "zz")
    assert of_settings.options == {"target_file_size": 1024**3, "where": "id > 3"}
    lab.look_at(30)
    assert lab.service.schedule_times(of_settings).last_due_ms is None
    lab.look_at(60, 76)
    times = lab.service.schedule_times(of_settings)
    assert (times.last_due_ms, times.next_due_ms) == (NINE + 75 * MINUTE_MS, NINE + 135 * MINUTE_MS)
    assert lab.service.schedule_times(of_api).next_due_ms is None
    with pytest.raises(ScheduleConflict):
        lab.save(of_settings)
    with pytest.raises(ScheduleConflict):
        lab.service.delete_schedule(of_settings.schedule_id, LOCAL)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "61 * * * *"},
        {"timezone": "Mars/Base"},
        {"jitter_seconds": -1},
        {"missed": "some"},
        {"options": {"parquet": {"compression-level": "99"}}},
        {"options": {"target_file_size": "1GB", "max_file_size": "1MB"}},
    ],
)
def test_invalid_schedules_are_not_saved(make: Make, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        make().save(replace(HOURLY, **wrong))


def test_jitter_is_bounded_and_the_same_on_every_replica() -> None:
    schedule = replace(HOURLY, jitter_seconds=600)
    drawn = [jitter_ms(schedule, NINE + hour * HOUR_MS) for hour in range(200)]
    assert drawn == [jitter_ms(replace(schedule, table="x"), NINE + hour * HOUR_MS) for hour in range(200)]
    assert 0 <= min(drawn) < 60_000
    assert 540_000 < max(drawn) <= 600_000
    assert jitter_ms(HOURLY, NINE) == 0


def test_jitter_longer_than_the_interval_keeps_the_order() -> None:
    schedule = replace(HOURLY, cron="* * * * *", jitter_seconds=3600)
    found = passed(schedule, NINE, NINE + 5 * HOUR_MS)
    assert [due.due_ms for due in found] == list(range(NINE + MINUTE_MS, found[-1].due_ms + 1, MINUTE_MS))
    assert all(a.fire_ms <= b.fire_ms for a, b in itertools.pairwise(found))


def test_frequent_schedule_considers_the_newest_times_and_rare_schedule_the_last() -> None:
    found = passed(replace(HOURLY, cron="* * * * *"), 0, NINE)
    assert len(found) == 1000
    assert found[-1].due_ms == NINE
    yearly = passed(replace(HOURLY, cron="@yearly"), NINE - 400 * 24 * HOUR_MS, NINE)
    assert [next_due(HOURLY, due.due_ms - 1).due_ms for due in yearly] == [due.due_ms for due in yearly]
    assert len(yearly) == 1


def test_several_punctual_times_are_all_handled() -> None:
    dues = [DueTime(NINE + minute * MINUTE_MS, NINE + minute * MINUTE_MS) for minute in range(10)]
    for missed in ("skip", "once"):
        schedule = replace(HOURLY, missed=missed)
        assert to_fire(schedule, dues, NINE + 9 * MINUTE_MS, 3 * MINUTE_MS, ()) == dues[6:]
    late = NINE + HOUR_MS
    assert to_fire(replace(HOURLY, missed="skip"), dues, late, MINUTE_MS, {dues[4].due_ms}) == [dues[4]]


def test_running_service_submits_due_jobs(make_service: Callable[..., Service], warehouse: Warehouse) -> None:
    warehouse.create_table("db.events")
    service = make_service()
    service.records.ledger.save_schedule(
        replace(HOURLY, cron="* * * * *", created_ms=service.now_ms() - 2 * MINUTE_MS, missed="once")
    )
    service.start()
    job = until(lambda: next(iter(service.jobs(Query(created_by="schedule:hourly"), LOCAL).submissions), None))
    assert str(job.table) == "db.events"
