"""Schedules of other kinds of jobs than compactions, in the settings and over the API."""

import pytest
from pydantic import ValidationError

from tests.builders.schedulers import Make
from tidyberg.errors import AccessDenied, BadInput
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import COMPACT, Query, Schedule, Submission
from tidyberg.settings.settings import Settings

NIGHTLY = Schedule("nightly", "0 10 * * *", "lab", "db.*", kind=EXPIRE, options={"older_than": "5d"})
OPERATOR = Principal("olga", Role.OPERATOR)


def submitted(lab: object) -> list[Submission]:
    page = lab.service.records.queue.submissions(Query(newest_first=False, limit=100))  # type: ignore[attr-defined]
    return list(page.submissions)


def test_a_schedule_of_the_api_submits_its_kind_with_its_options(make: Make) -> None:
    lab = make(("db.events", "db.sales"))
    lab.save(NIGHTLY)
    lab.look_at(59, 61)
    jobs = submitted(lab)
    assert [(str(job.table), job.kind, job.options) for job in jobs] == [
        ("db.events", EXPIRE, {"older_than": "5d"}),
        ("db.sales", EXPIRE, {"older_than": "5d"}),
    ]
    assert {job.created_by for job in jobs} == {"schedule:nightly"}
    assert lab.service.schedule("nightly", LOCAL).kind == EXPIRE


def test_schedules_of_the_settings_may_have_any_kind(make: Make) -> None:
    lines = [
        {"kind": EXPIRE, "cron": "0 10 * * *", "table": "db.*", "options": {"older_than": "7d", "retain_last": 3}},
        {"cron": "0 11 * * *", "table": "events", "strategy": "full", "options": {"min_input_files": 2}},
        {"kind": EXPIRE, "cron": "0 11 * * *", "table": "events", "enabled": False},
    ]
    lab = make(schedules=lines)
    lab.look_at(30, 61)
    (first,) = submitted(lab)
    assert (first.kind, first.options) == (EXPIRE, {"older_than": "7d", "retain_last": 3})
    lab.look_at(121)
    second = submitted(lab)[-1]
    assert (second.kind, second.strategy, second.options) == (
        COMPACT,
        "full",
        {"min_input_files": 2, "strategy": "full"},
    )
    assert len(submitted(lab)) == 2
    shown = lab.service.schedules(LOCAL)
    assert sorted(one.kind for one in shown) == [COMPACT, EXPIRE, EXPIRE]
    assert len({one.schedule_id for one in shown}) == 3


def test_an_expiry_replaces_no_compaction_of_the_default_schedule(make: Make) -> None:
    lab = make(scheduler={"default_schedule": "0 10 * * *"})
    lab.save(NIGHTLY)
    lab.look_at(30, 61)
    assert sorted(job.kind for job in submitted(lab)) == [COMPACT, EXPIRE]
    lab.save(Schedule("own", "0 12 * * *", "lab", "db.events"))
    lab.run_jobs()
    lab.look_at(24 * 60 + 61)
    assert [job.kind for job in submitted(lab)[2:] if job.created_by != "schedule:own"] == [EXPIRE]


def test_only_who_may_expire_may_schedule_it(make: Make) -> None:
    lab = make()
    with pytest.raises(AccessDenied):
        lab.service.save_schedule(NIGHTLY, OPERATOR)
    assert lab.service.schedules(LOCAL) == []


@pytest.mark.parametrize(
    "wrong",
    [{"older_than": "soon"}, {"snapshot_ids": [1]}, {"target_file_size": "1GB"}, {"expire_snapshots": True}],
    ids=str,
)
def test_invalid_options_are_refused(make: Make, wrong: dict[str, object]) -> None:
    lab = make()
    with pytest.raises(BadInput):
        lab.save(Schedule("s", "@daily", "lab", "db.events", kind=EXPIRE, options=wrong))
    with pytest.raises(ValidationError):
        Settings.model_validate({"schedules": [{"kind": EXPIRE, "cron": "@daily", "table": "a", "options": wrong}]})


@pytest.mark.parametrize(
    "lines",
    [
        [{"kind": "expir", "cron": "@daily", "table": "a"}],
        [{"kind": EXPIRE, "cron": "@daily", "table": "a", "strategy": "full"}],
        [{"kind": EXPIRE, "cron": "at noon", "table": "a"}],
        [{"kind": EXPIRE, "cron": "@daily", "table": "a"}] * 2,
    ],
    ids=str,
)
def test_invalid_lines_of_the_settings_are_refused(lines: list[dict[str, str]]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"schedules": lines})
