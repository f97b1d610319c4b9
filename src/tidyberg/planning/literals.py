"""Values in a predicate: SQL constants and dates relative to now, converted to the type of their column."""

import calendar
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
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
from sqlglot import expressions as sql

from tidyberg.errors import BadPredicate

Value = bool | int | Decimal | str | date | datetime

_DATE_TYPES = (sql.DataType.Type.DATE,)
_TIMESTAMP_TYPES = (
    sql.DataType.Type.TIMESTAMP,
    sql.DataType.Type.TIMESTAMPTZ,
    sql.DataType.Type.TIMESTAMPLTZ,
    sql.DataType.Type.TIMESTAMPNTZ,
    sql.DataType.Type.DATETIME,
)
_FIXED_UNITS = {
    "WEEK": timedelta(weeks=1),
    "DAY": timedelta(days=1),
    "HOUR": timedelta(hours=1),
    "MINUTE": timedelta(minutes=1),
    "SECOND": timedelta(seconds=1),
}
_MONTHS = {"YEAR": 12, "MONTH": 1}


def is_constant(node: sql.Expression) -> bool:
    """Whether a side of a comparison names no column, so that it has a value before any row is read."""
    return not any(isinstance(part, sql.Column | sql.Dot) for part in node.walk())


def evaluate(node: sql.Expression, now: datetime) -> Value:
    """The value of a constant; `now` is UTC, and so are current_date and current_timestamp."""
    if isinstance(node, sql.Paren):
        return evaluate(node.this, now)
    if isinstance(node, sql.Literal):
        return node.name if node.is_string else _number(node.name)
    if isinstance(node, sql.Boolean):
        return bool(node.this)
    if isinstance(node, sql.Neg):
        return _negate(evaluate(node.this, now), node)
    if isinstance(node, sql.CurrentDate):
        return now.date()
    if isinstance(node, sql.CurrentTimestamp):
        return now
    if isinstance(node, sql.Cast):
        return _cast(evaluate(node.this, now), node)
    if isinstance(node, sql.Add | sql.Sub):
        return _shift(node, now)
    if isinstance(node, sql.Null):
        raise BadPredicate("A comparison with null is never true.", hint="Write `is null` or `is not null` instead.")
    if isinstance(node, sql.Query | sql.Subquery | sql.Exists):
        raise BadPredicate(f"Subqueries are not supported: {node.sql()}.", hint="Write the values out.")
    raise BadPredicate(
        f"{node.sql()} is not a value that a filter can use.",
        hint="Use a literal, current_date, current_timestamp, or those plus or minus an interval.",
    )


def to_literal(value: Value, name: str, kind: IcebergType, what: str = "column") -> tuple[Literal, str]:  # type: ignore[type-arg]
    """The value as a literal of the column's type, and as text that reads back to the same."""
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
        moment = _to_moment(value)
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
        scaled = number.quantize(Decimal(1).scaleb(-kind.scale))
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


def _to_moment(value: Value) -> datetime | None:
    """A point in time as a UTC wall clock; a date is its midnight."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, date):
        return datetime.combine(value, time())
    return None


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdigit() else Decimal(text)


def _negate(value: Value, node: sql.Expression) -> Value:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return -value
    raise BadPredicate(f"{node.sql()}: a minus sign needs a number behind it.")


def _cast(value: Value, node: sql.Cast) -> Value:
    kind = node.to.this
    try:
        if kind in _DATE_TYPES:
            day = _to_moment(value)
            if day is not None:
                return day.date()
        elif kind in _TIMESTAMP_TYPES:
            moment = _to_moment(value)
            if moment is not None:
                return moment
    except ValueError:
        raise BadPredicate(f"{show(value)} is not a {node.to.sql().lower()}.") from None
    raise BadPredicate(
        f"{node.sql()}: only casts of text to date and timestamp are supported.", hint="Write a plain literal."
    )


def _shift(node: sql.Add | sql.Sub, now: datetime) -> date | datetime:
    """A date or timestamp plus or minus days or an interval."""
    start = evaluate(node.this, now)
    if not isinstance(start, date):
        raise BadPredicate(
            f"{node.sql()}: only dates and timestamps can be added to or subtracted from.",
            hint="Write the result as a literal.",
        )
    sign = 1 if isinstance(node, sql.Add) else -1
    try:
        if isinstance(node.expression, sql.Interval):
            return _add_interval(start, sign, node.expression)
        days = evaluate(node.expression, now)
        if isinstance(days, int) and not isinstance(days, bool):
            return start + timedelta(days=sign * days)
    except OverflowError:
        raise BadPredicate(f"{node.sql()} is outside the calendar (years 1 to 9999).") from None
    raise BadPredicate(
        f"{node.sql()}: what is added to a date must be a number of days or an interval.",
        hint="Write it like `current_date - 7` or `current_date - interval '7' day`.",
    )


def _add_interval(start: date, sign: int, interval: sql.Interval) -> date:
    unit = interval.text("unit").upper().removesuffix("S")
    try:
        amount = sign * int(interval.this.name if interval.this is not None else "")
    except ValueError:
        amount = None
    if amount is not None and unit in _MONTHS:
        return _add_months(start, amount * _MONTHS[unit])
    if amount is not None and unit in _FIXED_UNITS:
        if not isinstance(start, datetime) and _FIXED_UNITS[unit] < timedelta(days=1):
            start = datetime.combine(start, time())
        return start + amount * _FIXED_UNITS[unit]
    raise BadPredicate(
        f"{interval.sql()} is not an interval that a filter can use.",
        hint="Write a whole number of seconds, minutes, hours, days, weeks, months or years: interval '7' day.",
    )


def _add_months(start: date, months: int) -> date:
    """The same day in another month, or that month's last day where it has none."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return start.replace(year=year, month=month + 1, day=min(start.day, calendar.monthrange(year, month + 1)[1]))


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def show(value: Value) -> str:
    if isinstance(value, str):
        return quote(value)
    return value.isoformat() if isinstance(value, date) else str(value).lower()
