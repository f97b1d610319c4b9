"""Parses cron lines and computes their times in a time zone, with the rules of Vixie cron and cronie.

This is our own code because cronsim 2.8, measured against `tests/service/test_cron.py`, gives other times:
- `* */2 * * *` in Australia/Lord_Howe on 2026-04-05, where the clock goes back by 30 minutes: it skips the minutes
  from 02:00 to 02:29.
- `30 2 * * *` in Europe/Berlin, asked at 02:10+01:00 on 2026-10-25: it fires at 02:30 a second time, so a replica that
  starts in the repeated hour would run the job twice.
It also accepts `5/15` and `*/90`, reads `0-0/1` as `*`, and does not name the mistake in a line that it rejects.

The rules:
- A day matches if day of month and day of week both match. If neither field begins with `*`, one of them is enough.
- A line whose minute or hour begins with `*` follows the clock. It fires at every minute that exists and matches, and
  twice in the hour that the clock repeats in autumn.
- Any other line names fixed times. A time that the clock skips fires at the first instant after the gap. A time that
  the clock shows twice fires only the first time.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidyberg.errors import BadInput

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_WEEKDAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# 29 February falls on a given weekday at least every 40 years, even across a century year without a leap day.
_MOST_YEARS = 41
_MINUTE = timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True)
class Cron:
    """A parsed cron line. Weekdays count from Sunday, which is 0."""

    line: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool  # whether a match of day of month or of day of week is enough
    by_clock: bool  # whether it fires whenever the clock matches, instead of at fixed times

    def matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week

    def matches(self, local: datetime) -> bool:
        return local.minute in self.minutes and local.hour in self.hours and self.matches_day(local.date())


@lru_cache(maxsize=4096)
def parse_cron(line: str) -> Cron:
    """Parse a line. Raises BadInput, which names the field and the mistake in it."""
    text = line.strip().lower()
    if text.startswith("@"):
        if text not in ALIASES:
            raise _bad(line, f"{text} is not known; write one of {', '.join(ALIASES)}")
        text = ALIASES[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise _bad(line, f'it needs five fields, such as "0 */6 * * *", and has {len(parts)}')
    values = [_parse_field(line, field, part) for field, part in zip(_FIELDS, parts, strict=True)]
    minute, hour, day, _, weekday = parts
    cron = Cron(
        line=line,
        minutes=tuple(sorted(values[0])),
        hours=tuple(sorted(values[1])),
        days=frozenset(values[2]),
        months=frozenset(values[3]),
        weekdays=frozenset(value % 7 for value in values[4]),
        either_day=not day.startswith("*") and not weekday.startswith("*"),
        by_clock=minute.startswith("*") or hour.startswith("*"),
    )
    if not cron.either_day and not any(min(cron.days) <= _LONGEST_MONTH[month - 1] for month in cron.months):
        raise _bad(line, f"day {min(cron.days)} never comes in the months it names")
    return cron


def time_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(f'{name!r} is not a time zone; write one such as "UTC" or "Europe/Berlin".') from None


def next_after(cron: Cron, instant_ms: int, zone: tzinfo) -> int:
    """Return the first time after an instant at which the line fires. Both are milliseconds since 1970."""
    instant = _EPOCH + timedelta(milliseconds=instant_ms)
    found = _next_by_clock(cron, instant, zone) if cron.by_clock else _next_fixed(cron, instant, zone)
    return (found - _EPOCH) // timedelta(milliseconds=1)


def between(cron: Cron, after_ms: int, until_ms: int, zone: tzinfo) -> Iterator[int]:
    """Yield the times at which the line fires, after `after_ms` and up to and including `until_ms`."""
    due = next_after(cron, after_ms, zone)
    while due <= until_ms:
        yield due
        due = next_after(cron, due, zone)


def _next_fixed(cron: Cron, instant: datetime, zone: tzinfo) -> datetime:
    """Instants grow with their wall times, so the first wall time that is late enough is the next one."""
    for wall in _wall_times(cron, _wall(instant, zone)):
        found = _instants(wall, zone)
        first = found[0] if found else _end_of_gap(wall, zone)
        if first > instant:
            return first
    raise AssertionError("the parser rejects lines that never fire")


def _next_by_clock(cron: Cron, instant: datetime, zone: tzinfo) -> datetime:
    here = _wall(instant, zone)
    found = _first_instant(cron, here + _MINUTE, instant, zone)
    twice = _instants(here, zone)
    if len(twice) == 2 and instant < twice[1]:
        # The clock will go back past this wall time, so the minutes that match there come again, and sooner.
        turned = _wall(_transition(instant, twice[1], zone), zone)
        found = min(found, _first_instant(cron, turned, instant, zone))
    return found


def _first_instant(cron: Cron, start: datetime, instant: datetime, zone: tzinfo) -> datetime:
    for wall in _wall_times(cron, start):
        later = [found for found in _instants(wall, zone) if found > instant]
        if later:
            return later[0]
    raise AssertionError("the parser rejects lines that never fire")


def _wall_times(cron: Cron, start: datetime) -> Iterator[datetime]:
    """Yield matching wall times from the minute of `start` on, including those that the clock skips."""
    start = start.replace(second=0, microsecond=0)
    day = start.date()
    while day.year <= start.year + _MOST_YEARS:
        if day.month not in cron.months:
            day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
            continue
        if cron.matches_day(day):
            first_hour = start.hour if day == start.date() else 0
            for hour in cron.hours[bisect_left(cron.hours, first_hour) :]:
                first_minute = start.minute if day == start.date() and hour == start.hour else 0
                for minute in cron.minutes[bisect_left(cron.minutes, first_minute) :]:
                    yield datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - a wall time
        day += timedelta(days=1)


def _wall(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _instants(wall: datetime, zone: tzinfo) -> list[datetime]:
    """Return the instants at which the clock shows a wall time: one, two or none."""
    found = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in found if _wall(instant, zone) == wall)


def _end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    early, late = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return _transition(early, late, zone)


def _transition(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """Find the instant between two others at which the zone's offset changes, to the second."""
    offset = before.astimezone(zone).utcoffset()
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _parse_field(line: str, field: _Field, text: str) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        found.update(_parse_item(line, field, item))
    return found


def _parse_item(line: str, field: _Field, item: str) -> range:
    if not item:
        raise _bad(line, f"the {field.name} has an empty item between its commas")
    body, slash, step_text = item.partition("/")
    step = 1
    if slash:
        most = len(range(field.low, field.high + 1)) - (field.high == 7)
        if not step_text.isascii() or not step_text.isdigit() or not 1 <= int(step_text) <= most:
            raise _bad(line, f"the step {step_text!r} of the {field.name} must be a number from 1 to {most}")
        step = int(step_text)
    if body == "*":
        return range(field.low, field.high + 1 - (field.high == 7), step)
    first, dash, last = body.partition("-")
    low = _number(line, field, first)
    if not dash:
        if slash:
            raise _bad(
                line, f"{item!r} of the {field.name} has a step without a range; write {low}-{field.high}/{step}"
            )
        return range(low, low + 1)
    high = _number(line, field, last)
    if field.high == 7 and high == 0 < low:
        high = 7  # "fri-sun": the week's end
    if high < low:
        raise _bad(line, f"the range {body!r} of the {field.name} runs backwards; write it as two, with a comma")
    return range(low, high + 1, step)


def _number(line: str, field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if text == "?":
        raise _bad(line, f"'?' in the {field.name} is not supported; write *")
    if text.isascii() and text.isdigit() and len(text) <= 2 and field.low <= int(text) <= field.high:
        return int(text)
    if any(sign in text for sign in "#lw") and text not in field.names:
        raise _bad(line, f"{text!r} in the {field.name} is not supported: there is no #, L or W")
    names = f" or {next(iter(field.names))} to {list(field.names)[-1]}" if field.names else ""
    raise _bad(line, f"{text!r} is not a {field.name}; it goes from {field.low} to {field.high}{names}")


def _bad(line: str, reason: str) -> BadInput:
    return BadInput(f"{line!r} is not a cron line: {reason}.")
