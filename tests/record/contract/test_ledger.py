"""Schedules, kept plans and the audit log."""

import threading
from dataclasses import replace

import pytest

from tests.builders.job_stores import Open
from tidyberg.model.scan_reports import MOST_SCAN_SHAPES, OTHER_SHAPES, SCAN_REPORT_DAYS, ScanReportTotals
from tidyberg.model.submission import AuditEntry, KeptPlan, Pause, Schedule
from tidyberg.model.table import TableRef
from tidyberg.record.clock import wall_clock_ms
from tidyberg.record.ledger import Ledger
from tidyberg.record.records import Records

NIGHTLY = Schedule(
    "nightly",
    "0 3 * * *",
    "lab",
    "db.*",
    strategy="sort",
    options={"target_file_size": "512MB", "columns": ["a"]},
    timezone="Europe/Vienna",
    jitter_seconds=30,
    missed="all",
    enabled=False,
    tenant="team-a",
    priority=3,
    source="settings",
    created_ms=5,
    updated_ms=6,
)


@pytest.fixture
def ledger(records: Records) -> Ledger:
    return records.ledger


def entry(number: int = 0, at_ms: int = 1, tenant: str = "a", target: str = "x") -> AuditEntry:
    return AuditEntry(number, at_ms, "ada", tenant, "job.submit", target, "allowed", {"options": {"a": [1, None]}})


def plan(plan_hash: str, created_ms: int = 1) -> KeptPlan:
    return KeptPlan(plan_hash, TableRef("lab", ("db",), "t"), "team-a", created_ms, '{"groups": "ü"}')


def test_a_schedule_comes_back_as_it_was_saved(ledger: Ledger) -> None:
    ledger.save_schedule(NIGHTLY)
    assert ledger.schedule("nightly") == NIGHTLY
    assert ledger.schedule("other") is None


def test_a_schedule_is_replaced_by_what_is_saved_later(ledger: Ledger) -> None:
    ledger.save_schedule(NIGHTLY)
    ledger.advance("nightly", 7)
    ledger.save_schedule(replace(NIGHTLY, cron="0 4 * * *"))
    assert [kept.cron for kept in ledger.schedules()] == ["0 4 * * *"]
    assert ledger.last_due("nightly") == 7


def test_schedules_are_listed_by_id(ledger: Ledger) -> None:
    for schedule_id in ("b", "c", "a"):
        ledger.save_schedule(replace(NIGHTLY, schedule_id=schedule_id))
    assert [kept.schedule_id for kept in ledger.schedules()] == ["a", "b", "c"]


def test_a_deleted_schedule_is_gone_with_its_times(ledger: Ledger) -> None:
    ledger.save_schedule(NIGHTLY)
    ledger.advance("nightly", 7)
    assert ledger.delete_schedule("nightly")
    assert not ledger.delete_schedule("nightly")
    assert (ledger.schedule("nightly"), ledger.schedules(), ledger.last_due("nightly")) == (None, [], None)


def test_the_time_of_a_schedule_never_goes_back(ledger: Ledger) -> None:
    assert ledger.last_due("nightly") is None
    assert [ledger.advance("nightly", due_ms) for due_ms in (5, 9, 7, 9)] == [5, 9, 9, 9]
    assert ledger.last_due("nightly") == 9
    assert ledger.last_due("other") is None


def test_replicas_that_advance_at_once_end_at_the_latest(open_records: Open) -> None:
    ledgers = [open_records().ledger for _ in range(4)]

    def advance(number: int) -> None:
        for due_ms in range(number, 100, 4):
            ledgers[number].advance("nightly", due_ms)

    threads = [threading.Thread(target=advance, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ledger.last_due("nightly") for ledger in ledgers} == {99}


def test_a_plan_is_kept_by_its_hash(ledger: Ledger) -> None:
    ledger.keep_plan(plan("h"))
    assert ledger.kept_plan("h") == plan("h")
    assert ledger.kept_plan("i") is None


def test_a_plan_that_is_shown_again_is_kept_longer(ledger: Ledger) -> None:
    ledger.keep_plan(plan("h", created_ms=1))
    ledger.keep_plan(plan("h", created_ms=9))
    ledger.keep_plan(plan("old", created_ms=4))
    assert ledger.prune_ledger(plans_before_ms=5, audit_before_ms=None) == 1
    assert ledger.kept_plan("h") == plan("h", created_ms=9)
    assert ledger.kept_plan("old") is None


def test_audit_entries_are_numbered_in_their_order_whatever_number_they_came_with(ledger: Ledger) -> None:
    first, second = ledger.append_audit(entry(99)), ledger.append_audit(entry(99, at_ms=0))
    assert first == replace(entry(), number=first.number)
    assert 0 < first.number < second.number
    assert ledger.audit() == [second, first]


def test_the_audit_log_is_read_newest_first_page_by_page_while_it_grows(ledger: Ledger) -> None:
    numbers = [ledger.append_audit(entry(at_ms=at_ms)).number for at_ms in range(5)]
    newest = ledger.audit(limit=2)
    ledger.append_audit(entry())
    following = ledger.audit(before=newest[-1].number, limit=2)
    last = ledger.audit(before=following[-1].number, limit=2)
    assert [read.number for read in (*newest, *following, *last)] == numbers[::-1]
    assert ledger.audit(before=numbers[0]) == []


def test_the_audit_log_of_a_tenant_holds_its_entries_only(ledger: Ledger) -> None:
    for tenant in ("a", "b", "a", "c"):
        ledger.append_audit(entry(tenant=tenant))
    assert [read.tenant for read in ledger.audit(tenants=frozenset({"a"}))] == ["a", "a"]
    assert [read.tenant for read in ledger.audit(tenants=frozenset({"a", "c"}))] == ["c", "a", "a"]
    assert ledger.audit(tenants=frozenset()) == []
    newest = ledger.audit(tenants=frozenset({"a"}), limit=1)[0]
    assert len(ledger.audit(tenants=frozenset({"a"}), before=newest.number)) == 1


def test_the_audit_log_is_kept_unless_a_retention_is_set_and_numbers_go_on(ledger: Ledger) -> None:
    last = [ledger.append_audit(entry(at_ms=at_ms)).number for at_ms in (1, 2, 3)][-1]
    assert ledger.prune_ledger(plans_before_ms=10**9, audit_before_ms=None) == 0
    assert ledger.prune_ledger(plans_before_ms=0, audit_before_ms=3) == 2
    assert [read.at_ms for read in ledger.audit()] == [3]
    assert ledger.prune_ledger(plans_before_ms=0, audit_before_ms=10) == 1
    assert ledger.append_audit(entry()).number > last


def test_no_audit_entry_is_lost_or_numbered_twice_when_replicas_write_at_once(open_records: Open) -> None:
    ledgers = [open_records().ledger for _ in range(4)]
    numbers: list[int] = []

    def write(ledger: Ledger) -> None:
        numbers.extend([ledger.append_audit(entry()).number for _ in range(25)])

    threads = [threading.Thread(target=write, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 100
    assert {read.number for read in ledgers[0].audit(limit=1000)} == set(numbers)


def test_a_table_has_one_pause_until_it_is_deleted(ledger: Ledger) -> None:
    one, other = TableRef("lab", ("db",), "one"), TableRef("lab", ("db", "deep"), "one")
    first = Pause(one, "team-a", "ada", "because \u2713", 5)
    ledger.save_pause(first)
    assert (ledger.pause(one), ledger.pause(other)) == (first, None)
    second = replace(first, reason="longer", until_ms=10)
    ledger.save_pause(second)
    ledger.save_pause(replace(first, table=other))
    assert ledger.pause(one) == second
    assert [pause.table for pause in ledger.pauses()] == [other, one]
    assert ledger.delete_pause(one)
    assert not ledger.delete_pause(one)
    assert ledger.pause(one) is None


def test_an_event_is_remembered_until_its_time(ledger: Ledger) -> None:
    now_ms = wall_clock_ms()
    assert not ledger.has_event("a", now_ms=now_ms)
    ledger.remember_event("a", now_ms=now_ms, until_ms=now_ms + 60_000)
    assert ledger.has_event("a", now_ms=now_ms)
    assert not ledger.has_event("b", now_ms=now_ms)
    assert not ledger.has_event("a", now_ms=now_ms + 60_000)


def test_a_look_is_postponed_but_not_beyond_its_latest_time(ledger: Ledger) -> None:
    ledger.want_look("x", due_ms=10, latest_ms=25)
    ledger.want_look("y", due_ms=5, latest_ms=5)
    assert ledger.due_looks(9, 10) == [("y", 5)]
    assert ledger.due_looks(10, 10) == [("y", 5), ("x", 10)]
    assert ledger.due_looks(10, 1) == [("y", 5)]
    ledger.want_look("x", due_ms=20, latest_ms=35)
    assert ledger.due_looks(10, 10) == [("y", 5)]
    ledger.want_look("x", due_ms=30, latest_ms=45)
    assert ledger.due_looks(100, 10) == [("y", 5), ("x", 25)]


def test_a_look_that_was_wanted_again_meanwhile_is_not_dropped(ledger: Ledger) -> None:
    ledger.want_look("x", due_ms=10, latest_ms=100)
    ledger.want_look("x", due_ms=20, latest_ms=100)
    assert not ledger.drop_look("x", 10)
    assert ledger.drop_look("x", 20)
    assert not ledger.drop_look("x", 20)
    assert ledger.due_looks(1000, 10) == []
    ledger.want_look("x", due_ms=300, latest_ms=400)
    assert ledger.due_looks(1000, 10) == [("x", 300)], "the latest time of a dropped look is gone"


SCANNED = TableRef("lab", ("db",), "t")


def report(day: int, shape: str, reports: int = 1) -> ScanReportTotals:
    return ScanReportTotals(day, shape, reports, 2 * reports, 3 * reports, 4 * reports, 5 * reports)


def test_scan_reports_of_one_day_and_shape_are_added_up(ledger: Ledger) -> None:
    shape = '{"column":"a b","operator":"is null"}'  # shapes have spaces
    added = (report(20_000, shape), report(20_000, shape), report(20_000, "null"), report(20_001, shape))
    assert [ledger.add_scan_report(SCANNED, one) for one in added] == [True, False, False, True], "the first of a day"
    expected = [report(20_000, "null"), report(20_000, shape, 2), report(20_001, shape)]
    assert sorted(ledger.scan_reports(SCANNED), key=str) == sorted(expected, key=str)
    assert ledger.scan_reports(TableRef("lab", ("db",), "other")) == []


def test_the_oldest_days_of_scan_reports_are_dropped(ledger: Ledger) -> None:
    ledger.add_scan_report(SCANNED, report(20_000, "x"))
    ledger.add_scan_report(SCANNED, report(20_000 + SCAN_REPORT_DAYS - 1, "x"))
    assert [one.day for one in ledger.scan_reports(SCANNED)] == [20_000, 20_000 + SCAN_REPORT_DAYS - 1]
    ledger.add_scan_report(SCANNED, report(20_000 + SCAN_REPORT_DAYS, "x"))
    assert [one.day for one in ledger.scan_reports(SCANNED)] == [20_029, 20_030]


def test_a_day_has_a_bounded_number_of_shapes(ledger: Ledger) -> None:
    for number in range(MOST_SCAN_SHAPES + 5):
        ledger.add_scan_report(SCANNED, report(20_000, f"shape {number}"))
    ledger.add_scan_report(SCANNED, report(20_000, "shape 0"))  # a known shape is still told apart
    found = {one.shape: one.reports for one in ledger.scan_reports(SCANNED)}
    assert len(found) == MOST_SCAN_SHAPES + 1
    assert (found["shape 0"], found[OTHER_SHAPES]) == (2, 5)
