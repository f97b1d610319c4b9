"""Computes which due times of a schedule to handle now. Pure, so that all replicas get the same result."""

import hashlib
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidyberg.model.cron import between, next_after, parse_cron, time_zone
from tidyberg.model.submission import Schedule

DAY_MS = 86_400_000
# How far back, and how many, missed times of a frequent schedule are considered.
MOST_BACK_MS, MOST_MISSED = 7 * DAY_MS, 1000


@dataclass(frozen=True, slots=True)
class DueTime:
    due_ms: int
    fire_ms: int  # the due time plus jitter; never before an earlier one


def next_due(schedule: Schedule, after_ms: int) -> DueTime:
    due_ms = next_after(parse_cron(schedule.cron), after_ms, time_zone(schedule.timezone))
    return DueTime(due_ms, due_ms + jitter_ms(schedule, due_ms))


def jitter_ms(schedule: Schedule, due_ms: int) -> int:
    """Returns a jitter that depends only on the schedule and the time, so every replica computes the same."""
    if schedule.jitter_seconds == 0:
        return 0
    digest = hashlib.sha256(f"{schedule.schedule_id}:{due_ms}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (schedule.jitter_seconds * 1000 + 1)


def passed(schedule: Schedule, after_ms: int, now_ms: int) -> list[DueTime]:
    """Returns the due times after `after_ms` that have passed, in order. Keeps only the newest if there are many."""
    recent = max(after_ms, now_ms - MOST_BACK_MS)
    found = _passed(schedule, recent, now_ms)
    return found if found or recent == after_ms else _passed(schedule, after_ms, now_ms)


def _passed(schedule: Schedule, after_ms: int, now_ms: int) -> list[DueTime]:
    found: deque[DueTime] = deque(maxlen=MOST_MISSED)
    fire_ms = 0
    for due_ms in between(parse_cron(schedule.cron), after_ms, now_ms, time_zone(schedule.timezone)):
        fire_ms = max(fire_ms, due_ms + jitter_ms(schedule, due_ms))
        if fire_ms > now_ms:
            break
        found.append(DueTime(due_ms, fire_ms))
    return list(found)


def to_fire(
    schedule: Schedule, dues: Sequence[DueTime], now_ms: int, late_ms: int, held: Collection[int]
) -> list[DueTime]:
    """Returns the due times to act on, by the policy of the schedule for missed times.

    `held` are due times that were tried in time and failed. They do not count as missed.
    """
    if schedule.missed == "all":
        return list(dues)
    in_time = [due for due in dues if now_ms - due.fire_ms <= late_ms]
    if in_time:
        return in_time
    late = [due for due in dues if schedule.missed == "once" or due.due_ms in held]
    return late[-1:]
