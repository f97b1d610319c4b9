"""Selects the tables that `auto` compacts: those that pay back soonest, within the budget of the day. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from math import ceil, log2
from typing import Literal

from tidyberg.model.left import LeftAlone, outcome_without_commit
from tidyberg.model.plan import Estimate
from tidyberg.model.sizes import format_size
from tidyberg.model.submission import Submission
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Figures from the newest snapshot of a table, without reading a manifest."""

    table: TableRef
    snapshot_id: int | None
    files: int | None  # None: not in the snapshot summary
    bytes: int | None
    delete_files: int | None
    commits_last_day: int
    target_file_size: int

    @property
    def promise(self) -> int:
        """The upper limit of the gain: surplus files plus delete files."""
        if self.snapshot_id is None:
            return 0
        if self.files is None or self.bytes is None:
            return 1
        return self.files - max(1, ceil(self.bytes / self.target_file_size)) + (self.delete_files or 0)


@dataclass(frozen=True, slots=True)
class Candidate:
    facts: TableFacts
    health: int
    estimate: Estimate
    left: tuple[LeftAlone, ...] = ()  # what the plan leaves unchanged

    @property
    def worth(self) -> float:
        """How soon the cost is paid back, in scans. Assumes that tables with more writes have more reads."""
        return (1 + log2(1 + self.facts.commits_last_day)) / (self.estimate.payback_scans or 1)


@dataclass(frozen=True, slots=True)
class Spending:
    """An amount of dollars and of memory x time. None means no limit."""

    dollars: float | None
    gb_hours: float | None

    def less(self, dollars: float, gb_hours: float) -> "Spending":
        return Spending(
            None if self.dollars is None else self.dollars - dollars,
            None if self.gb_hours is None else self.gb_hours - gb_hours,
        )

    @property
    def is_used_up(self) -> bool:
        return (self.dollars is not None and self.dollars <= 0) or (self.gb_hours is not None and self.gb_hours <= 0)


AutoDecisionCode = Literal["taken", "tidy", "waiting", "refused", "no-payback", "slow-payback", "budget"]


@dataclass(frozen=True, slots=True)
class AutoDecision:
    candidate: Candidate
    code: AutoDecisionCode
    reason: str
    left: Spending  # before this decision

    @property
    def is_taken(self) -> bool:
        return self.code == "taken"


def choose(
    candidates: Iterable[Candidate], left: Spending, *, memory_gb: float, max_payback_scans: int
) -> list[AutoDecision]:
    """Decides about every candidate, the most valuable first. If one exceeds the budget, cheaper ones may still fit."""
    choices = []
    for candidate in sorted(candidates, key=lambda c: (-c.worth, c.estimate.dollars, str(c.facts.table))):
        estimate = candidate.estimate
        gb_hours = memory_gb * estimate.seconds / 3600
        code, reason = _judge(candidate, gb_hours, left, max_payback_scans)
        choices.append(AutoDecision(candidate, code, reason, left))
        if code == "taken":
            left = left.less(estimate.dollars, gb_hours)
    return choices


def _judge(
    candidate: Candidate, gb_hours: float, left: Spending, max_payback_scans: int
) -> tuple[AutoDecisionCode, str]:
    estimate = candidate.estimate
    if estimate.input_files == 0 and candidate.left:
        return outcome_without_commit(candidate.left), str(candidate.left[0])
    if estimate.input_files == 0:
        return "tidy", "no file needs a rewrite"
    if estimate.payback_scans is None:
        return "no-payback", "a rewrite would never pay for itself"
    if estimate.payback_scans > max_payback_scans:
        scans = plural(estimate.payback_scans, "full scan")
        return "slow-payback", f"a rewrite pays for itself after {scans}, more than {max_payback_scans:,}"
    if left.dollars is not None and estimate.dollars > left.dollars:
        return "budget", f"it costs ${estimate.dollars:.4f}, and ${max(0, left.dollars):.4f} of today's are left"
    if left.gb_hours is not None and gb_hours > left.gb_hours:
        return "budget", f"it takes {gb_hours:.3f} GB-hours, and {max(0, left.gb_hours):.3f} of today's are left"
    return "taken", (
        f"{plural(estimate.input_files, 'file')} ({format_size(estimate.bytes_read)}) become {estimate.output_files:,}"
        f" for ${estimate.dollars:.4f}, which pays for itself after {plural(estimate.payback_scans, 'full scan')}"
    )


def spent(submissions: Iterable[Submission], memory_gb: float) -> tuple[float, float]:
    """Returns the dollars and GB-hours of the jobs: the actual amounts, or the estimates for unfinished jobs."""
    dollars = gb_hours = 0.0
    for job in submissions:
        if job.status.is_final and job.started_ms is None:
            continue  # cancelled before it started
        dollars += job.dollars if job.dollars is not None else job.estimated_dollars or 0.0
        if job.finished_ms is not None and job.started_ms is not None:
            gb_hours += memory_gb * (job.finished_ms - job.started_ms) / HOUR_MS
        else:
            gb_hours += memory_gb * (job.estimated_seconds or 0.0) / 3600
    return dollars, gb_hours


def start_of_day(now_ms: int, zone: tzinfo) -> int:
    local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    return int(local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp() * 1000)


def turn(tables: Sequence[TableRef], number: int, most: int) -> list[TableRef]:
    """Returns the tables for this look. Successive looks go round through all tables."""
    if len(tables) <= most:
        return list(tables)
    first = number * most % len(tables)
    return [*tables[first:], *tables[:first]][:most]


def worth_planning(found: Iterable[TableFacts], seen: Mapping[TableRef, int | None], most: int) -> list[TableFacts]:
    """Returns the tables with the most to gain, without those that are unchanged since a plan found nothing to do."""
    news = [facts for facts in found if facts.promise > 0 and not _is_seen(facts, seen)]
    return sorted(news, key=lambda facts: (-facts.promise, str(facts.table)))[:most]


def _is_seen(facts: TableFacts, seen: Mapping[TableRef, int | None]) -> bool:
    return facts.table in seen and seen[facts.table] == facts.snapshot_id
