"""Converts ages as people write them ("5d", "36h", "30 minutes") to milliseconds."""

import re

from tidyberg.errors import BadInput

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {"s": "sec(?:ond)?s?", "m": "min(?:ute)?s?", "h": "hours?", "d": "days?", "w": "weeks?"}
_MOST_DIGITS = 15
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
