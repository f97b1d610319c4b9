"""Which tables `auto` selects: payback, budgets, turns and earlier decisions."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.model.job import JobStatus
from tidyberg.model.plan import Estimate
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.service.auto_selection import (
    Candidate,
    Spending,
    TableFacts,
    choose,
    spent,
    start_of_day,
    turn,
    worth_planning,
)

ESTIMATE = Estimate(
    input_files=100,
    output_files=2,
    bytes_read=10**9,
    bytes_written=10**9,
    get_requests=200,
    put_requests=10,
    seconds=36.0,
    request_dollars=0.01,
    compute_dollars=0.02,
    storage_dollars=0.0,
    file_opens_saved=98,
    bytes_saved=0,
    payback_scans=10,
)
NOTHING = replace(ESTIMATE, input_files=0, output_files=0, payback_scans=None)
UNLIMITED = Spending(None, None)


def ref(name: str) -> TableRef:
    return TableRef("lab", ("db",), name)


def facts(
    name: str, *, files: int | None = 100, deletes: int | None = 0, commits: int = 0, snapshot: int = 1
) -> TableFacts:
    return TableFacts(ref(name), snapshot, files, 1000, deletes, commits, target_file_size=1000)


def candidate(name: str, *, commits: int = 0, **estimate: object) -> Candidate:
    return Candidate(facts(name, commits=commits), 50, replace(ESTIMATE, **estimate))  # type: ignore[arg-type]


def codes(candidates: list[Candidate], left: Spending, most_scans: int = 100) -> dict[str, str]:
    found = choose(candidates, left, memory_gb=4.0, max_payback_scans=most_scans)
    return {choice.candidate.facts.table.name: choice.code for choice in found}


def test_fastest_payback_goes_first_and_frequent_writes_count() -> None:
    tables = [
        candidate("slow", payback_scans=50),
        candidate("fast", payback_scans=5),
        candidate("mid", payback_scans=20),
    ]
    assert list(codes(tables, UNLIMITED)) == ["fast", "mid", "slow"]
    tables.append(candidate("busy", payback_scans=20, commits=500))
    assert list(codes(tables, UNLIMITED)) == ["busy", "fast", "mid", "slow"]


def test_table_without_payback_is_skipped_with_a_reason() -> None:
    tables = [
        Candidate(facts("tidy"), 100, NOTHING),
        candidate("never", payback_scans=None),
        candidate("late", payback_scans=101),
        candidate("just", payback_scans=100),
    ]
    assert codes(tables, UNLIMITED) == {
        "just": "taken",
        "late": "slow-payback",
        "never": "no-payback",
        "tidy": "tidy",
    }


def test_cheaper_tables_still_fit_after_one_exceeds_the_budget() -> None:
    tables = [
        candidate("first", payback_scans=1, compute_dollars=0.5),
        candidate("large", payback_scans=2, compute_dollars=9.0),
        candidate("small", payback_scans=3, compute_dollars=0.1),
    ]
    assert codes(tables, Spending(1.0, None)) == {"first": "taken", "large": "budget", "small": "taken"}


def test_gb_hours_are_memory_times_time() -> None:
    tables = [candidate("a", seconds=1800.0), candidate("b", seconds=1800.0, payback_scans=11)]
    assert codes(tables, Spending(None, 2.0)) == {"a": "taken", "b": "budget"}
    assert codes(tables, Spending(None, 4.0)) == {"a": "taken", "b": "taken"}


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 7200), st.integers(1, 200), st.integers(0, 300)), max_size=30),
    st.floats(0, 10),
    st.floats(0, 10),
)
def test_selection_never_exceeds_the_budget_and_gives_a_reason_for_each_table(
    tables: list[tuple[float, float, int, int]], dollars: float, gb_hours: float
) -> None:
    candidates = [
        candidate(str(number), compute_dollars=cost, seconds=seconds, payback_scans=scans, commits=commits)
        for number, (cost, seconds, scans, commits) in enumerate(tables)
    ]
    found = choose(candidates, Spending(dollars, gb_hours), memory_gb=4.0, max_payback_scans=100)
    taken = [choice.candidate.estimate for choice in found if choice.is_taken]
    assert sum(estimate.dollars for estimate in taken) <= dollars + 1e-9
    assert sum(4.0 * estimate.seconds / 3600 for estimate in taken) <= gb_hours + 1e-9
    assert len(found) == len(candidates)
    assert all(choice.reason for choice in found)
    assert found == choose(reversed(candidates), Spending(dollars, gb_hours), memory_gb=4.0, max_payback_scans=100)


def test_spending_uses_actual_amounts_or_estimates() -> None:
    waiting = Submission("1", ref("a"), "auto", {}, 0, "auto", estimated_seconds=3600, estimated_dollars=1.0)
    ended = replace(
        waiting, status=JobStatus.SUCCEEDED, started_ms=0, finished_ms=1_800_000, dollars=0.25, estimated_dollars=1.0
    )
    cancelled = replace(waiting, status=JobStatus.CANCELLED, finished_ms=5)
    assert spent([waiting], 2.0) == (1.0, 2.0)
    assert spent([ended], 2.0) == (0.25, 1.0)
    assert spent([cancelled], 2.0) == (0.0, 0.0)
    assert spent([waiting, ended, cancelled], 2.0) == (1.25, 3.0)


@pytest.mark.parametrize(
    ("zone", "now", "start"),
    [
        ("UTC", "2026-11-15T09:30+00:00", "2026-11-15T00:00+00:00"),
        ("America/New_York", "2026-11-15T03:00+00:00", "2026-11-14T00:00-05:00"),
        ("Europe/Berlin", "2026-10-25T12:00+01:00", "2026-10-25T00:00+02:00"),
    ],
)
def test_budget_day_starts_at_local_midnight(zone: str, now: str, start: str) -> None:
    def ms(text: str) -> int:
        return int(datetime.fromisoformat(text).timestamp() * 1000)

    assert start_of_day(ms(now), ZoneInfo(zone)) == ms(start)


@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 1000))
def test_looks_go_round_all_tables(count: int, most: int, first: int) -> None:
    tables = [ref(str(number)) for number in range(count)]
    looks = -(-count // most) if count else 1
    parts = [turn(tables, number, most) for number in range(first, first + looks + 1)]
    assert all(len(part) == len(set(part)) == min(most, count) for part in parts)
    assert {table for part in parts for table in part} == set(tables)


def test_only_tables_with_a_gain_are_planned_largest_gain_first() -> None:
    tidy, unknown = facts("tidy", files=1), facts("unknown", files=None)
    many, deletes = facts("many", files=500), facts("deletes", files=1, deletes=40)
    empty = replace(facts("empty"), snapshot_id=None)
    found = worth_planning([tidy, unknown, deletes, many, empty], {}, 10)
    assert [one.table.name for one in found] == ["many", "deletes", "unknown"]
    assert worth_planning([many, deletes], {}, 1) == [many]


def test_decided_table_is_planned_again_only_after_a_change() -> None:
    same, changed = facts("same", snapshot=7), facts("changed", snapshot=8)
    assert worth_planning([same, changed], {same.table: 7, changed.table: 7}, 10) == [changed]
