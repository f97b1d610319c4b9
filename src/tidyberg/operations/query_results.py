"""Turns the Arrow stream of a query's result into JSON values."""

import base64
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class PlainResult:
    columns: list[str]
    records: list[dict[str, Any]]
    is_cut: bool  # it would be larger than allowed


def plain_result(stream: bytes, most_bytes: int) -> PlainResult:
    """Returns each row as an object, as many as fit into a JSON text of that size."""
    table = pa.ipc.open_stream(pa.BufferReader(stream)).read_all()
    names = _distinct(table.column_names)
    columns = [[_plain(value) for value in _values(column)] for column in table.columns]
    records: list[dict[str, Any]] = []
    size = 0
    for row in zip(*columns, strict=True):
        record = dict(zip(names, row, strict=True))
        size += len(json.dumps(record, ensure_ascii=False).encode())
        if size > most_bytes:
            return PlainResult(names, records, is_cut=True)
        records.append(record)
    return PlainResult(names, records, is_cut=False)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":  # Python has no nanoseconds
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    return values


def _distinct(names: list[str]) -> list[str]:
    """An object has each key once, so a second column of a name gets a number."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def _plain(value: Any) -> Any:
    """JSON has no dates, bytes, NaN and exact fractions: they become texts. Whole numbers stay numbers."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
        case Decimal():
            return int(value) if value.as_tuple().exponent == 0 else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case pa.MonthDayNano():
            return f"{value.months} months {value.days} days {value.nanoseconds} nanoseconds"
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return str(value)
