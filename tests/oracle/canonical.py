"""One form for the values that Spark and Arrow give for the same row, so that they can be compared."""

import datetime as dt
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import Any


def canonical_rows(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Sorted texts: equal lists mean equal multisets of rows."""
    return sorted(repr([canonical_value(value) for value in row]) for row in rows)


def canonical_value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dt.datetime):
        # Spark gives instants without a zone, in the session's; that is UTC here.
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, dict):
        return sorted(([canonical_value(key), canonical_value(item)] for key, item in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return [canonical_value(item) for item in value]
    return value
