"""Drift: what the policies of a catalog say, against the settings, the table's properties and the schedules."""

import json
from typing import Any

import pytest

from tidyberg.model.catalog_policies import ApplicablePolicy, PolicyReport
from tidyberg.model.table import TableRef
from tidyberg.settings.policy_drift import policy_report
from tidyberg.settings.settings import Settings

REF = TableRef("lake", ("sales",), "orders")
TWO_DAYS = {"enable": True, "config": {"max_snapshot_age_days": 2}}
OLDER_THAN = "expire.older_than"
POLICY = "catalog policy gov.keep version 4, inherited"


def report(
    settings: dict[str, Any],
    properties: dict[str, str] | None = None,
    content: dict[str, Any] | None = None,
    kind: str = "system.snapshot-expiry",
) -> PolicyReport:
    policy = ApplicablePolicy(kind, "keep", ("gov",), 4, True, json.dumps(content or TWO_DAYS))
    return policy_report(Settings.model_validate(settings), REF, properties or {}, [policy])


def rows(found: PolicyReport, key: str = OLDER_THAN) -> list[tuple[Any, str, bool]]:
    return [(each.own.value, each.own.origin, each.differs) for each in found.values if each.key == key]


def obeying(**maintain: Any) -> dict[str, Any]:
    return {"maintain": {"policies_from": "catalog", **maintain}}


def test_a_default_differs_while_the_catalog_is_not_obeyed() -> None:
    found = report({})
    assert rows(found) == [("432000s", "default", True)]
    assert (found.is_obeyed, found.used[OLDER_THAN].value) == (False, "432000s")
    (drift,) = found.drift
    assert (drift.catalog.value, drift.catalog.origin) == ("2d", POLICY)


def test_a_default_does_not_differ_if_the_catalog_is_obeyed() -> None:
    found = report(obeying())
    assert rows(found) == [("432000s", "default", False)]
    assert (found.used[OLDER_THAN].value, found.used[OLDER_THAN].origin) == ("2d", POLICY)
    assert found.drift == ()


def test_the_same_age_in_other_words_is_no_drift() -> None:
    assert report({"maintain": {"expire": {"older_than": "48h"}}}).drift == ()


def test_settings_that_contradict_an_obeyed_catalog_are_drift_and_lose() -> None:
    found = report(obeying(tables={"orders": {"expire": {"older_than": "9d"}}}))
    assert rows(found) == [("9d", "maintain.tables.orders", True)]
    assert found.used[OLDER_THAN].value == "2d"


def test_properties_that_contradict_an_obeyed_catalog_are_drift_and_win() -> None:
    found = report(obeying(), {"tidyberg.maintain.expire.older-than": "9d"})
    assert rows(found) == [("9d", "table property tidyberg.maintain.expire.older-than", True)]
    assert found.used[OLDER_THAN].value == "9d"
    found = report(obeying(), {"history.expire.max-snapshot-age-ms": "86400000"})
    assert rows(found) == [("86400s", "table property history.expire.max-snapshot-age-ms", True)]
    assert found.used[OLDER_THAN].value == "86400s"


def test_a_step_that_only_one_side_switches_off_is_drift() -> None:
    off = {"expire": {"enabled": False}}
    found = report(obeying(**off))
    assert rows(found, "expire.enabled") == [(False, "maintain", True)]
    assert found.used["expire.enabled"].value is False
    found = report(obeying(expire={"enabled": True}), None, {"enable": False})
    assert rows(found, "expire.enabled") == [(True, "maintain", True)]
    assert found.used["expire.enabled"].value is False
    assert report(obeying(**off), None, {"enable": False}).drift == ()


SCHEDULES = [
    {"kind": "maintain", "cron": "@daily", "table": "sales.*", "name": "nightly",
     "options": {"expire": {"older_than": "7d"}}},
    {"kind": "expire", "cron": "@daily", "table": "orders", "name": "hourly", "options": {"older_than": "2d"}},
    {"kind": "expire", "cron": "@daily", "table": "orders", "name": "paused", "enabled": False,
     "options": {"older_than": "1d"}},
    {"kind": "expire", "cron": "@daily", "table": "other.*", "name": "of others", "options": {"older_than": "1d"}},
    {"kind": "expire", "cron": "@daily", "table": "orders", "catalog": "archive", "name": "elsewhere",
     "options": {"older_than": "1d"}},
    {"kind": "compact", "cron": "@daily", "table": "orders", "name": "compaction"},
]  # fmt: skip


def test_schedules_of_the_table_are_compared_too() -> None:
    catalogs = {"lake": {"type": "rest", "uri": "http://x"}, "archive": {"type": "rest", "uri": "http://x"}}
    found = report({**obeying(), "catalogs": catalogs, "schedules": SCHEDULES})
    assert rows(found) == [
        ("432000s", "default", False),
        ("7d", "schedule nightly", True),
        ("2d", "schedule hourly", False),
    ]
    assert (True, "schedule hourly", False) in rows(found, "expire.enabled")
    found = report({**obeying(), "catalogs": catalogs, "schedules": SCHEDULES}, None, {"enable": False})
    assert (True, "schedule hourly", True) in rows(found, "expire.enabled")


TARGET = {"enable": True, "config": {"target_file_size_bytes": 1000}}


@pytest.mark.parametrize(
    ("settings", "properties", "own", "origin", "differs"),
    [
        ({}, {}, 512 * 2**20, "default", True),
        ({}, {"write.target-file-size-bytes": "1000"}, 1000, "table property write.target-file-size-bytes", False),
        ({"compaction": {"target_file_size": 1000}}, {}, 1000, "compaction: or tables:", False),
        ({"maintain": {"data": {"target_file_size": 2000}}}, {}, 2000, "maintain", True),
    ],
)
def test_the_size_of_files_comes_from_where_compactions_take_it(
    settings: dict[str, Any], properties: dict[str, str], own: int, origin: str, differs: bool
) -> None:
    limits = {"limits": {"min_target_file_size": 1}}
    found = report({**limits, **settings}, properties, TARGET, "system.data-compaction")
    assert rows(found, "data.target_file_size") == [(own, origin, differs)]


def test_a_policy_that_cannot_be_understood_is_a_note_and_not_a_failure() -> None:
    found = report(obeying(), None, {"enable": "maybe"})
    assert (found.values, [note.is_error for note in found.notes]) == ((), [True])
