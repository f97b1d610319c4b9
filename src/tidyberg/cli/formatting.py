"""Formats numbers, sizes and times for people."""

import datetime as dt
from urllib.parse import unquote_plus
from zoneinfo import ZoneInfo

from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural as plural

_FIRST_MS, _LAST_MS = -62_135_424_000_000, 253_402_128_000_000  # the years 1 to 9999, less a day for time zones


def count(number: int) -> str:
    return f"{number:,}"


def dollars(amount: float) -> str:
    if 0 < amount < 0.0001:
        return "<$0.0001"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def ago(then_ms: int | None, now_ms: int) -> str:
    if then_ms is None:
        return "never"
    seconds = (now_ms - then_ms) / 1000
    if seconds < 5:
        return "just now"
    for size, noun in ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size * (2 if noun == "day" else 1):
            number = int(seconds // size)
            return f"{number} {noun}s ago" if noun == "day" else f"{number} {noun} ago"
    return "just now"


def moment(then_ms: int, timezone: str) -> str:
    """Formats a time in the given time zone. An age such as Java's largest number leads beyond the calendar."""
    then_ms = min(max(then_ms, _FIRST_MS), _LAST_MS)
    return dt.datetime.fromtimestamp(then_ms / 1000, ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M:%S")


def short_id(number: int | None) -> str:
    """Shortens a snapshot id."""
    text = str(number)
    return "no snapshot" if number is None else text if len(text) <= 9 else f"{text[:4]}…{text[-4:]}"


def partition_label(path: str) -> str:
    return unquote_plus(path) or "(unpartitioned)"


def size(amount: float) -> str:
    return format_size(amount)
