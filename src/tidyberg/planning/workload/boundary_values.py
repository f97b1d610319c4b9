"""Writes the bounds of ranges as boundaries, which are values: rows from a value on lie on its far side.

A range that ends after a value ends before the next one. Whole numbers, dates, times, decimals and floats have a next
value. After a text comes the same text with a space behind it: what lies between begins with a control character.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from tidyberg.planning.literals import quote

_EXACT = Context(prec=76)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {32: 2**31 - 1, 64: 2**63 - 1}


def boundary_text(value: Any, kind: pa.DataType, *, after: bool) -> str | None:
    """Returns the boundary before a value or after it, as users write it. None: there is none, or it cannot be written.

    The value is as PyIceberg holds it: days, microseconds, Decimal, bytes.
    """
    try:
        moved = _next(value, kind) if after else value
        return None if moved is None else _text(moved, kind)
    except (OverflowError, ValueError):
        return None  # beyond the last value of the type


def _next(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        return None if value else True
    if types.is_floating(kind):
        return math.nextafter(value, math.inf)
    if types.is_decimal(kind):
        return _EXACT.add(value, Decimal(1).scaleb(-kind.scale))
    if types.is_string(kind) or types.is_large_string(kind):
        return f"{value} "
    if isinstance(value, UUID | bytes):
        return UUID(int=_uuid(value).int + 1)
    return value + 1 if not types.is_integer(kind) or value < _INTEGERS[kind.bit_width] else None


def _text(value: Any, kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return quote(value) if value.isprintable() else None
    for is_kind, write in _WRITERS.items():
        if is_kind(kind):
            return write(value)
    if types.is_timestamp(kind):
        return _moment(value, has_zone=kind.tz is not None) if kind.unit == "us" else None
    return str(_uuid(value)) if isinstance(kind, pa.BaseExtensionType) else None


def _moment(microseconds: int, *, has_zone: bool) -> str:
    moment = _EPOCH + timedelta(microseconds=microseconds)
    if not has_zone:
        moment = moment.replace(tzinfo=None)
    if moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return moment.isoformat(" ")


def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def _clock(microseconds: int) -> str | None:
    moment = _EPOCH + timedelta(microseconds=microseconds)
    return moment.time().isoformat() if moment.date() == _EPOCH.date() else None


def _real(value: float) -> str | None:
    return repr(float(value)) if math.isfinite(value) else None


def _uuid(value: UUID | bytes) -> UUID:
    return value if isinstance(value, UUID) else UUID(bytes=value)


_WRITERS: Mapping[Callable[[pa.DataType], bool], Callable[[Any], str | None]] = {
    pa.types.is_boolean: lambda value: str(value).lower(),
    pa.types.is_integer: str,
    pa.types.is_floating: _real,
    pa.types.is_decimal: lambda value: f"{value:f}",
    pa.types.is_date: _day,
    pa.types.is_time: _clock,
}
