"""Evaluates constants in a filter: SQL literals, casts, and dates relative to now."""

import calendar
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from sqlglot import expressions as sql

from tidyberg.errors import BadPredicate
from tidyberg.planning.literals import Value, show, to_moment

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
_DATE_WITHOUT_QUOTES = re.compile(r"\d{4} - \d{1,2} - \d{1,2}")


def is_constant(node: sql.Expression) -> bool:
    """Returns True if a side of a comparison names no column. Its value is then known before any row is read."""
    return not any(isinstance(part, sql.Column | sql.Dot) for part in node.walk())


def evaluate(node: sql.Expression, now: datetime) -> Value:
    """Returns the value of a constant. `now` is in UTC, and so are current_date and current_timestamp."""
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


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdigit() else Decimal(text)


def _negate(value: Value, node: sql.Expression) -> Value:
    if isinstance(value, Decimal):
        return value.copy_negate()  # a minus sign would round it to 28 digits
    if isinstance(value, int) and not isinstance(value, bool):
        return -value
    raise BadPredicate(f"{node.sql()}: a minus sign must be followed by a number.")


def _cast(value: Value, node: sql.Cast) -> Value:
    kind = node.to.this
    try:
        if kind in _DATE_TYPES:
            day = to_moment(value)
            if day is not None:
                return day.date()
        elif kind in _TIMESTAMP_TYPES:
            moment = to_moment(value)
            if moment is not None:
                return moment
    except ValueError:
        raise BadPredicate(f"{show(value)} is not a {node.to.sql().lower()}.") from None
    raise BadPredicate(
        f"{node.sql()}: only casts of text to date and timestamp are supported.", hint="Write a plain literal."
    )


def _shift(node: sql.Add | sql.Sub, now: datetime) -> date | datetime:
    """Adds days or an interval to a date or timestamp, or subtracts them."""
    if _DATE_WITHOUT_QUOTES.fullmatch(node.sql()):
        text = node.sql().replace(" ", "")
        raise BadPredicate(f"{text} without quotes is a subtraction.", hint=f"Write the date in quotes: '{text}'.")
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
        f"{node.sql()}: only a number of days or an interval can be added to a date.",
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
    """Returns the same day in another month, or the last day of that month if it is shorter."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return start.replace(year=year, month=month + 1, day=min(start.day, calendar.monthrange(year, month + 1)[1]))
