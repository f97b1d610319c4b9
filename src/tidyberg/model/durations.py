"""Converts ages as people write them ("5d", "36h", "30 minutes") to milliseconds, and moments ("2026-01-31") too."""

import re
from datetime import UTC, datetime

from tidyberg.errors import BadInput

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {"s": "sec(?:ond)?s?", "m": "min(?:ute)?s?", "h": "hours?", "d": "days?", "w": "weeks?"}
_MOST_DIGITS = 15
NEVER_MS = 1000 * 365 * 86_400_000  # an age that is so long means that nothing gets that old
_AGE = re.compile(
    r"\s*(\d+(?:\.\d+)?)\s*(?:" + "|".join(f"(?P<{unit}>{unit}|{word})" for unit, word in _WORDS.items()) + r")\s*",
    re.IGNORECASE,
)


def parse_age(text: str) -> int:
    match = _AGE.fullmatch(text)
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise BadInput(f"{text!r} is not an age.", hint='Write it like "5d", "36h" or "30m".')
    unit = next(unit for unit in _UNITS if match[unit])
    return int(float(match[1]) * _UNITS[unit])


def parse_moment(text: str) -> int:
    """A moment without a time zone is in UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(f"{text!r} is not a time.", hint="Write it like 2026-01-31 or 2026-01-31T12:00:00Z.") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
