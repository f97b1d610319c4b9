"""Converts the values of a filter to the type of their column, and shows them as SQL."""

from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from uuid import UUID

from pyiceberg.expressions.literals import (
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from tidyberg.errors import BadPredicate

_EXACT = Context(prec=76)  # Python rounds to 28 digits by default, and a decimal has up to 38

Value = bool | int | Decimal | str | date | datetime


def to_literal(value: Value, name: str, kind: IcebergType, what: str = "column") -> tuple[Literal, str]:  # type: ignore[type-arg]
    """Returns the value as a literal of the column's type, and as SQL text that parses to the same literal."""
    try:
        converted = _convert(value, kind)
    except (ValueError, OverflowError, InvalidOperation):
        converted = None
    if converted is None:
        raise BadPredicate(f"{show(value)} is not a value of {what} {name}, which is of type {kind}.")
    return converted


def _convert(value: Value, kind: IcebergType) -> tuple[Literal, str] | None:  # type: ignore[type-arg]
    if isinstance(kind, BooleanType):
        return (BooleanLiteral(value), str(value).lower()) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if isinstance(kind, StringType):
        return (StringLiteral(value), quote(value)) if isinstance(value, str) else None
    if isinstance(kind, IntegerType | LongType | DecimalType | FloatType | DoubleType):
        return _convert_number(value, kind)
    if isinstance(kind, DateType):
        day = _to_date(value)
        return None if day is None else (DateLiteral(date_to_days(day)), quote(day.isoformat()))
    if isinstance(kind, TimestampType | TimestamptzType):
        moment = to_moment(value)
        if moment is None:
            return None
        suffix = "+00:00" if isinstance(kind, TimestamptzType) else ""
        return TimestampLiteral(datetime_to_micros(moment)), quote(moment.isoformat(" ") + suffix)
    if isinstance(kind, TimeType) and isinstance(value, str):
        clock = time.fromisoformat(value)
        return None if clock.tzinfo else (TimeLiteral(time_to_micros(clock)), quote(clock.isoformat()))
    if isinstance(kind, UUIDType) and isinstance(value, str):
        return UUIDLiteral(UUID(value).bytes), quote(str(UUID(value)))
    return None


def _convert_number(value: Value, kind: IcebergType) -> tuple[Literal, str] | None:  # type: ignore[type-arg]
    if isinstance(value, date):
        return None
    number = Decimal(value.strip()) if isinstance(value, str) else Decimal(value)
    if not number.is_finite():
        return None
    if isinstance(kind, FloatType | DoubleType):
        real = float(number)
        too_large = abs(real) > (FloatType.max if isinstance(kind, FloatType) else 1.7976931348623157e308)
        return None if too_large else (DoubleLiteral(real), repr(real))
    if isinstance(kind, DecimalType):
        scaled = number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
        fits = scaled == number and len(scaled.as_tuple().digits) <= max(kind.precision, 1)
        return (DecimalLiteral(scaled), f"{scaled:f}") if fits else None
    assert isinstance(kind, IntegerType | LongType)
    if abs(number) > 2**63 or number != int(number) or not kind.min <= int(number) <= kind.max:
        return None
    return LongLiteral(int(number)), str(int(number))


def _to_date(value: Value) -> date | None:
    if isinstance(value, str):
        return date.fromisoformat(value.strip())
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def to_moment(value: Value) -> datetime | None:
    """Returns a point in time as a UTC wall clock. A date becomes its midnight."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return datetime.combine(value, time())
    return None


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def show(value: Value) -> str:
    if isinstance(value, str):
        return quote(value)
    return value.isoformat() if isinstance(value, date) else str(value).lower()
