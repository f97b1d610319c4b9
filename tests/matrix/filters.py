"""Filters on every column of a table, with literals at the edges of its values."""

import datetime as dt
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ABSENT_TEXT = "no such text"


@dataclass(frozen=True, eq=False)  # filters with 0.0 and with -0.0 are different
class Filter:
    path: tuple[str, ...]  # a column, or a member of a struct
    type: pa.DataType
    operation: str  # = | != | < | <= | > | >= | between | in | is null | is not null
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.operation} {', '.join(map(_short, self.values))}".strip()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:30]}…({len(text)})"


def filters_of(rows: pa.Table, columns: int = 64) -> Iterator[Filter]:
    """Returns filters for each of the first columns. Lists and maps are only compared with null."""
    for column in list(rows.schema)[:columns]:
        yield from _of_column((column.name,), column.type, rows[column.name])


def some(filters: Iterable[Filter], most: int, first: int) -> list[Filter]:
    """Selects filters evenly from all columns, and others in each cell. It may return a few more than `most`."""
    found = list(filters)
    step = max(1, len(found) // most)
    return found[first % step :: step]


def compared(column: Any, operation: str, values: Sequence[Any]) -> Any:
    """Returns the comparison as an expression of the column's library."""
    if operation == "between":
        return (column >= values[0]) & (column <= values[1])
    return _COMPARISONS[operation](column, values[0])


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def sql_condition(wanted: Filter, quote: str, literal: Callable[[Any, pa.DataType], str]) -> str:
    """For engines that spell names and literals differently."""
    column = ".".join(f"{quote}{name}{quote}" for name in wanted.path)
    values = [literal(value, wanted.type) for value in wanted.values]
    if wanted.operation in ("is null", "is not null"):
        return f"{column} {wanted.operation}"
    if wanted.operation == "in":
        return f"{column} IN ({', '.join(values)})"
    if wanted.operation == "between":
        return f"{column} BETWEEN {values[0]} AND {values[1]}"
    return f"{column} {wanted.operation} {values[0]}"


def _of_column(path: tuple[str, ...], kind: pa.DataType, values: pa.ChunkedArray) -> Iterator[Filter]:
    yield Filter(path, kind, "is null")
    yield Filter(path, kind, "is not null")
    if pa.types.is_struct(kind):
        for member in kind:
            yield from _of_column((*path, member.name), member.type, pc.struct_field(values, member.name))
    elif not pa.types.is_nested(kind):
        yield from _of_values(path, kind, _distinct(values))


def _distinct(values: pa.ChunkedArray) -> list[Any]:
    """Returns sorted values without null and NaN. Nanoseconds are numbers, because Python has no such type."""
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = values.cast(pa.int64())
    found = set(values.to_pylist()) - {None}
    return sorted(value for value in found if value == value)


def _of_values(path: tuple[str, ...], kind: pa.DataType, values: list[Any]) -> Iterator[Filter]:
    absent = _absent(kind)
    if pa.types.is_floating(kind):
        for special in (math.nan, -0.0, 0.0):
            for operation in ("=", "!=", "<", ">="):
                yield Filter(path, kind, operation, (special,))
        yield Filter(path, kind, "in", (math.nan, 0.0))
        yield Filter(path, kind, "in", (-0.0, 3.0))
    if pa.types.is_boolean(kind):
        for value in (True, False):
            yield Filter(path, kind, "=", (value,))
        return
    yield Filter(path, kind, "=", (absent,))
    if not values:
        return
    lowest, middle, highest = values[0], values[len(values) // 2], values[-1]
    for value in dict.fromkeys((lowest, middle, highest)):
        yield Filter(path, kind, "=", (value,))
    yield Filter(path, kind, "!=", (lowest,))
    yield Filter(path, kind, "<", (lowest,))
    yield Filter(path, kind, "<=", (lowest,))
    yield Filter(path, kind, "<", (middle,))
    yield Filter(path, kind, ">", (middle,))
    yield Filter(path, kind, ">=", (highest,))
    yield Filter(path, kind, ">", (highest,))
    yield Filter(path, kind, "between", (middle, values[min(len(values) - 1, len(values) // 2 + 3)]))
    yield Filter(path, kind, "in", (lowest, highest))
    yield Filter(path, kind, "in", (absent, middle))


def _absent(kind: pa.DataType) -> Any:
    """Returns a value of the type that occurs in no shape."""
    if pa.types.is_decimal(kind):
        return Decimal(12345).scaleb(-kind.scale)
    if pa.types.is_date(kind):
        return dt.date(1999, 9, 9)
    if pa.types.is_time(kind):
        return dt.time(23, 59, 59, 999999)
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return 123456789
        return dt.datetime(1999, 9, 9, 9, 9, 9, 9, tzinfo=dt.UTC if kind.tz else None)
    if kind == pa.uuid():
        import uuid

        return uuid.UUID(int=2**127 - 1)
    if pa.types.is_fixed_size_binary(kind):
        return b"\x7f" * kind.byte_width
    if pa.types.is_binary(kind):
        return b"none"
    if pa.types.is_string(kind):
        return ABSENT_TEXT
    return 12345 if pa.types.is_integer(kind) else 1234.5
