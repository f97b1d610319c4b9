"""Converts rows of Spark and of Arrow to the same form, so that they can be compared."""

import datetime as dt
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import Any


def canonical_rows(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Returns the rows as sorted texts. Equal lists mean equal multisets of rows."""
    return sorted(repr([canonical_value(value) for value in row]) for row in rows)


def canonical_value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dt.datetime):
        # Spark returns instants without a time zone, in the zone of the session, which is UTC here.
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, dict):
        return sorted(([canonical_value(key), canonical_value(item)] for key, item in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return [canonical_value(item) for item in value]
    return value
