"""Turns JSON records into an Arrow table of the table's schema, and says which value does not fit."""

import base64
import binascii
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.errors import BadInput, Unsupported
from tidyberg.settings.problems import near_name

_LARGEST_FLOAT = 3.4028234663852886e38
_Convert = Callable[[Any], Any]


class _MisfitError(Exception):
    """A value is not one of its column's type. The message completes "… should be"."""


def records_to_arrow(records: Sequence[Mapping[str, Any]], schema: Schema) -> pa.Table:
    """Returns the records in the table's schema. BadInput names the record and the column that do not fit."""
    target = schema.as_arrow()
    known = {field.name: _converter(field.field_type) for field in schema.fields}
    _refuse_unknown_columns(records, list(known))
    columns = []
    for field, arrow in zip(schema.fields, target, strict=True):
        values = [
            _converted(record.get(field.name), field, known[field.name], f"records[{number}].{field.name}")
            for number, record in enumerate(records)
        ]
        columns.append(pa.array(values, type=arrow.type))
    return pa.Table.from_arrays(columns, schema=target)


def _refuse_unknown_columns(records: Sequence[Mapping[str, Any]], known: list[str]) -> None:
    for number, record in enumerate(records):
        for name in record:
            if name not in known:
                raise BadInput(
                    f"records[{number}]: the table has no column {name[:100]!r}{near_name(name, known)}",
                    hint=f"Its columns are {', '.join(known[:20])}.",
                )


def _converted(value: Any, field: NestedField, convert: _Convert, place: str) -> Any:
    if value is None:
        if field.required:
            raise BadInput(f"{place} is missing or null, and the column is required.")
        return None
    try:
        return convert(value)
    except _MisfitError as misfit:
        raise BadInput(f"{place} should be {misfit}.") from None


def _converter(kind: IcebergType) -> _Convert:
    if type(kind) in _SIMPLE:
        return _SIMPLE[type(kind)]
    match kind:
        case DecimalType():
            return partial(_decimal, kind)
        case FixedType():
            return partial(_fixed, len(kind))
        case ListType():
            return partial(_list, _converter(kind.element_type), kind.element_required)
        case StructType():
            return partial(_struct, {field.name: (field, _converter(field.field_type)) for field in kind.fields})
        case MapType() if isinstance(kind.key_type, StringType):
            return partial(_map, _converter(kind.value_type), kind.value_required)
    raise Unsupported(f"The table has a column of type {kind}, to which WRITE cannot write.")


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _MisfitError("a text")
    return value


def _whole(bits: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise _MisfitError(f"a whole number of {bits} bits")
    return value


def _floating(most: float, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _MisfitError("a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or abs(number) > most:
        raise _MisfitError("a finite number that its type can hold")
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _MisfitError("true or false")
    return value


def _date(value: Any) -> date:
    try:
        if isinstance(value, str) and len(value) == len("2024-01-31"):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise _MisfitError("a date such as 2024-01-31")


def _time(value: Any) -> time:
    try:
        if isinstance(value, str) and (parsed := time.fromisoformat(value)).tzinfo is None:
            return parsed
    except ValueError:
        pass
    raise _MisfitError("a time such as 23:59:59.123456, without a zone")


def _timestamp(value: Any) -> datetime:
    parsed = _parsed_timestamp(value)
    if parsed is None or parsed.tzinfo is not None:
        raise _MisfitError("a timestamp such as 2024-01-31T23:59:59.123456, without a zone")
    return parsed


def _timestamptz(value: Any) -> datetime:
    parsed = _parsed_timestamp(value)
    if parsed is not None and parsed.tzinfo is not None:
        try:
            return parsed.astimezone(UTC)
        except OverflowError:  # the first or last day that a datetime can hold
            pass
    raise _MisfitError("a timestamp with a zone such as 2024-01-31T23:59:59Z")


def _parsed_timestamp(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) and len(value) > len("2024-01-31") else None
    except ValueError:
        return None


def _uuid(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return uuid.UUID(value).bytes
    except ValueError:
        pass
    raise _MisfitError("a UUID")


def _bytes(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise _MisfitError("bytes in base64")


def _fixed(length: int, value: Any) -> bytes:
    found = _bytes(value)
    if len(found) != length:
        raise _MisfitError(f"{length} bytes in base64")
    return found


def _decimal(kind: DecimalType, value: Any) -> Decimal:
    """A float is refused, because it may not be the number that somebody wrote."""
    words = f'a decimal number in a text, such as "12.50", with at most {kind.precision - kind.scale} digits before '
    words += f"the point and {kind.scale} after it"
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > 100:
        raise _MisfitError(words)
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise _MisfitError(words) from None
    if not number.is_finite() or number.adjusted() >= 40 or number != round(number, kind.scale):
        raise _MisfitError(words)
    if number and number.adjusted() >= kind.precision - kind.scale:
        raise _MisfitError(words)
    return number


def _list(convert: _Convert, required: bool, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _MisfitError("a list")
    return [_inner(item, convert, required, "an element") for item in value]


def _struct(fields: Mapping[str, tuple[NestedField, _Convert]], value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _MisfitError("an object")
    if unknown := sorted(set(value) - set(fields)):
        raise _MisfitError(f"an object without {unknown[0][:100]!r}")
    return {
        name: _inner(value.get(name), convert, field.required, repr(name)) for name, (field, convert) in fields.items()
    }


def _map(convert: _Convert, required: bool, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise _MisfitError("an object")
    return [(str(name), _inner(item, convert, required, repr(name))) for name, item in value.items()]


def _inner(value: Any, convert: _Convert, required: bool, what: str) -> Any:
    if value is None:
        if required:
            raise _MisfitError(f"complete: {what} is missing or null")
        return None
    try:
        return convert(value)
    except _MisfitError as misfit:
        raise _MisfitError(f"right in {what}, which should be {misfit}") from None


_SIMPLE: Mapping[type[IcebergType], _Convert] = {
    StringType: _string,
    IntegerType: partial(_whole, 32),
    LongType: partial(_whole, 64),
    FloatType: partial(_floating, _LARGEST_FLOAT),
    DoubleType: partial(_floating, math.inf),
    BooleanType: _boolean,
    DateType: _date,
    TimeType: _time,
    TimestampType: _timestamp,
    TimestamptzType: _timestamptz,
    UUIDType: _uuid,
    BinaryType: _bytes,
}
