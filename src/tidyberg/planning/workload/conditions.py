"""Translates SQL conditions on columns of a table to conditions that the bounds of files can decide.

Parts that bounds cannot decide become `Anything`. Nothing is refused: a query of a log need not be understood whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, PrimitiveType, StringType, TimestampType, TimestamptzType
from sqlglot import expressions as sql

from tidyberg.errors import BadPredicate
from tidyberg.model.workload import AllOf, Anything, Comparison, Condition, Operator, all_of, any_of
from tidyberg.planning.constant_values import evaluate, is_constant
from tidyberg.planning.literals import Value, to_literal, to_moment

MAX_DEPTH = 100
_MOST_VALUES = 1000  # of one IN list; longer lists are cut, which makes a scan look cheaper than it is

Node = Any  # a node of sqlglot, whose base class differs between versions
ResolveColumn = Callable[[Node], str | None]  # the table's name of a column node, None for other columns

_OPERATORS: dict[type[sql.Expression], Operator] = {
    sql.EQ: Operator.EQ,
    sql.NullSafeEQ: Operator.EQ,
    sql.LT: Operator.LT,
    sql.LTE: Operator.LE,
    sql.GT: Operator.GT,
    sql.GTE: Operator.GE,
}
_SWAPPED = {
    Operator.EQ: Operator.EQ,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
_NEGATED = {
    Operator.LT: Operator.GE,
    Operator.LE: Operator.GT,
    Operator.GT: Operator.LE,
    Operator.GE: Operator.LT,
    Operator.IS_NULL: Operator.NOT_NULL,
    Operator.NOT_NULL: Operator.IS_NULL,
}
_DATES = (sql.DataType.Type.DATE,)


class _Unknown(Exception):  # noqa: N818  # not an error: the value is a parameter
    """The value of a comparison is not in the query."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A column, or a monotone function of one that maps each value to the start of its day, month and so on."""

    column: str
    unit: str | None = None  # day, month, ...; "year_number" for year(ts), whose values are numbers


@dataclass(frozen=True, slots=True)
class ConditionReader:
    schema: Schema
    as_of: datetime  # stands for current_date and the like
    resolve: ResolveColumn

    def read(self, node: Node, *, negated: bool = False, depth: int = 0) -> Condition:
        if depth > MAX_DEPTH:
            return Anything()
        if node.args.get("negate"):  # sqlglot marks some `not like` this way
            plain = node.copy()
            plain.set("negate", None)
            return self.read(plain, negated=not negated, depth=depth + 1)
        if isinstance(node, sql.Paren):
            return self.read(node.this, negated=negated, depth=depth + 1)
        if isinstance(node, sql.Not):
            return self.read(node.this, negated=not negated, depth=depth + 1)
        if isinstance(node, sql.And | sql.Or):
            parts = tuple(self.read(one, negated=negated, depth=depth + 1) for one in node.flatten())
            return all_of(parts) if isinstance(node, sql.And) is not negated else any_of(parts)
        if negated:
            return _negation(self._positive(node))
        return self._positive(node)

    def _positive(self, node: Node) -> Condition:
        try:
            if type(node) in _OPERATORS:
                return self._comparison(node)
            if isinstance(node, sql.In):
                return self._membership(node)
            if isinstance(node, sql.Between):
                return self._between(node)
            if isinstance(node, sql.Is):
                return self._is(node)
            if isinstance(node, sql.Like):
                return self._like(node)
            if isinstance(node, sql.StartsWith):
                return self._prefix(node.this, self._text(node.expression))
            if isinstance(node, sql.Column | sql.Dot):
                term = self._term(node)
                return Anything() if term is None else self._compare(term, Operator.EQ, sql.true())
        except (BadPredicate, ValueError, OverflowError, TypeError):
            pass  # a value that the column cannot have, or a cast that this code does not know
        return Anything()

    def _comparison(self, node: Node) -> Condition:
        operator, left, right = _OPERATORS[type(node)], node.this, node.expression
        if self._term(left) is None:
            operator, left, right = _SWAPPED[operator], right, left
        term = self._term(left)
        return Anything() if term is None or not is_constant(right) else self._compare(term, operator, right)

    def _membership(self, node: sql.In) -> Condition:
        term = self._term(node.this)
        if term is None:
            return Anything()
        if not node.expressions:  # a subquery, whose values are known only when it runs
            return Comparison(term.column, Operator.IN, None)
        if not all(is_constant(one) for one in node.expressions):
            return Anything()
        items = node.expressions[:_MOST_VALUES]
        if term.unit is not None:
            return any_of(tuple(self._compare(term, Operator.EQ, one) for one in items))
        try:
            values = tuple(dict.fromkeys(self._value(term, one) for one in items))
        except _Unknown:
            return Comparison(term.column, Operator.IN, None)
        return Comparison(term.column, Operator.IN, values)

    def _between(self, node: sql.Between) -> Condition:
        term, low, high = self._term(node.this), node.args["low"], node.args["high"]
        if term is None or not (is_constant(low) and is_constant(high)):
            return Anything()
        return all_of((self._compare(term, Operator.GE, low), self._compare(term, Operator.LE, high)))

    def _is(self, node: sql.Is) -> Condition:
        term = self._term(node.this)
        if term is None or not isinstance(node.expression, sql.Null):
            return Anything()
        return Comparison(term.column, Operator.IS_NULL)

    def _like(self, node: sql.Like) -> Condition:
        pattern = self._text(node.expression)
        if pattern is None:
            return self._prefix(node.this, None)
        prefix = pattern[: min((at for at in map(pattern.find, "%_\\") if at >= 0), default=len(pattern))]
        if prefix == pattern:
            term = self._term(node.this)
            return Anything() if term is None else Comparison(term.column, Operator.EQ, (prefix,))
        return self._prefix(node.this, prefix) if prefix else Anything()

    def _prefix(self, node: Node, prefix: str | None) -> Condition:
        term = self._term(node)
        if term is None or term.unit is not None or not isinstance(self._kind(term), StringType):
            return Anything()
        return Comparison(term.column, Operator.STARTS_WITH, None if prefix is None else (prefix,))

    def _text(self, node: Node) -> str | None:
        """Returns the text of a literal, or None for a parameter."""
        return node.name if isinstance(node, sql.Literal) and node.is_string else None

    def _compare(self, term: _Term, operator: Operator, node: Node) -> Condition:
        if term.unit is not None:
            return self._compare_start(term, operator, node)
        try:
            return Comparison(term.column, operator, (self._value(term, node),))
        except _Unknown:
            return Comparison(term.column, operator, None)

    def _compare_start(self, term: _Term, operator: Operator, node: Node) -> Condition:
        """Compares the start of a day, month, ... with a moment: f(x) < v is x < v if v is itself a start."""
        assert term.unit is not None
        name = term.column
        try:
            value = self._constant(node)
        except _Unknown:
            low, high = Comparison(name, Operator.GE, None), Comparison(name, Operator.LT, None)
            return all_of((low, high)) if operator is Operator.EQ else Comparison(name, operator, None)
        moment = datetime(int(str(value)), 1, 1) if term.unit == "year_number" else to_moment(value)  # noqa: DTZ001  # a wall clock in UTC, as all values here
        if moment is None:
            return Anything()
        start = _start(moment, term.unit)
        first, after = (self._moment(term, one) for one in (start, _next(start, term.unit)))
        if operator is Operator.EQ:
            low, high = Comparison(name, Operator.GE, (first,)), Comparison(name, Operator.LT, (after,))
            return all_of((low, high)) if start == moment else any_of(())
        if operator in (Operator.GT, Operator.LE):  # beyond this whole day, or up to its end
            return Comparison(name, Operator.GE if operator is Operator.GT else Operator.LT, (after,))
        edge = first if start == moment else after
        return Comparison(name, operator, (edge,))

    def _moment(self, term: _Term, moment: datetime) -> Any:
        kind = self._kind(term)
        value: Value = moment.date() if isinstance(kind, DateType) else moment
        return to_literal(value, term.column, kind)[0].value

    def _value(self, term: _Term, node: Node) -> Any:
        value, kind = self._constant(node), self._kind(term)
        return to_literal(value, term.column, kind)[0].value

    def _constant(self, node: Node) -> Value:
        if any(isinstance(one, sql.Placeholder | sql.Parameter | sql.SessionParameter) for one in node.walk()):
            raise _Unknown
        if any(isinstance(one, sql.Query | sql.Subquery) for one in node.walk()):
            raise _Unknown  # a scalar subquery: its value is known when it runs
        try:
            return evaluate(_plain(node), self.as_of)
        except BadPredicate:
            if isinstance(node, sql.Null | sql.Literal | sql.Boolean):
                raise
            raise _Unknown from None  # a constant expression whose value only the engine knows

    def _kind(self, term: _Term) -> IcebergType:
        return self.schema.find_field(term.column).field_type

    def _term(self, node: Node) -> _Term | None:
        if isinstance(node, sql.Paren):
            return self._term(node.this)
        if isinstance(node, sql.Column | sql.Dot):
            name = self.resolve(node)
            return None if name is None else self._primitive(name)
        inner, unit = _monotone(node)
        below = None if inner is None else self._term(inner)
        if below is None or unit is None or not _is_coarser(unit, below.unit):
            return None
        kind = self._kind(below)
        if not isinstance(kind, DateType | TimestampType | TimestamptzType):
            return None
        if isinstance(kind, DateType) and unit == "day":
            return below
        return _Term(below.column, unit)

    def _primitive(self, name: str) -> _Term | None:
        return _Term(name) if isinstance(self.schema.find_field(name).field_type, PrimitiveType) else None


def _monotone(node: Node) -> tuple[Node | None, str | None]:
    """Returns the argument and the unit of a function that never decreases when its argument grows."""
    if isinstance(node, sql.Cast | sql.TryCast) and node.to.this in _DATES:
        return node.this, "day"
    if isinstance(node, sql.TsOrDsToDate | sql.Date):
        return node.this, "day"
    if isinstance(node, sql.TimestampTrunc | sql.DateTrunc):
        unit = node.text("unit").lower()
        return node.this, unit if unit in _UNITS else None
    if isinstance(node, sql.Year):
        return node.this, "year_number"
    return None, None


_UNITS = ("year", "month", "day", "hour", "minute", "second")


def _is_coarser(unit: str, inner: str | None) -> bool:
    """The year of a day is the year of the moment. The hour of a day is not the hour of the moment."""
    if inner is None:
        return True
    return inner in _UNITS and _UNITS.index(unit.removesuffix("_number")) <= _UNITS.index(inner)


def _start(moment: datetime, unit: str) -> datetime:
    keep = 1 if unit == "year_number" else _UNITS.index(unit) + 1
    year, *parts = (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)[:keep]
    month, day, hour, minute, second = [*parts, *(1, 1, 0, 0, 0)[len(parts) :]]
    return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  # a wall clock in UTC


def _next(start: datetime, unit: str) -> datetime:
    if unit in ("year", "year_number"):
        return start.replace(year=start.year + 1)
    if unit == "month":
        return (start + timedelta(days=31)).replace(day=1)
    return start + timedelta(**{f"{unit}s": 1})


def _plain(node: Node) -> Node:
    """Rewrites constants that dialects spell in their own way: timestamp '…', date('…'), to_date('…')."""
    if isinstance(node, sql.TsOrDsToDate | sql.Date) and node.this is not None:
        return sql.Cast(this=node.this, to=sql.DataType.build("date"))
    if isinstance(node, sql.TryCast):
        return sql.Cast(this=node.this, to=node.to)
    return node


def _negation(condition: Condition) -> Condition:
    if isinstance(condition, Comparison) and condition.operator in _NEGATED:
        return Comparison(condition.column, _NEGATED[condition.operator], condition.values)
    if isinstance(condition, AllOf):  # `between`, or a day
        return any_of(tuple(_negation(one) for one in condition.parts))
    return Anything()  # bounds rule out `!=` only for a file with one value, which is not worth a layout
