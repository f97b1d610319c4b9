"""Translates SQL filters such as `day >= current_date - 7` to Iceberg expressions, and checks the names in them.

Nothing is executed. sqlglot parses the text, and every node that this module does not know is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IcebergType, NestedField, PrimitiveType, StringType
from sqlglot import Dialect, ParseError, TokenError, tokens
from sqlglot import expressions as sql

from tidyberg.errors import BadPredicate
from tidyberg.planning.column_names import names_like, quoted_name, similar_names, some_of
from tidyberg.planning.constant_values import evaluate, is_constant
from tidyberg.planning.literals import Value, to_literal
from tidyberg.planning.partition_fields import NamedField, PartitionFields

MAX_LENGTH = 100_000
MAX_DEPTH = 100

_NO_FIELDS: PartitionFields = {}
_FIELD_IDS = 2**31 - 100_000  # for partition fields while a filter is checked; no column has such an id
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COMPARISONS: dict[type[sql.Expression], tuple[Callable[..., BooleanExpression], str, type[sql.Expression]]] = {
    # node: (Iceberg's predicate, the operator in text, the node with its sides swapped)
    sql.EQ: (EqualTo, "=", sql.EQ),
    sql.NEQ: (NotEqualTo, "!=", sql.NEQ),
    sql.LT: (LessThan, "<", sql.GT),
    sql.LTE: (LessThanOrEqual, "<=", sql.GTE),
    sql.GT: (GreaterThan, ">", sql.LT),
    sql.GTE: (GreaterThanOrEqual, ">=", sql.LTE),
}


class _FilterDialect(Dialect):
    """Names may be quoted as in standard SQL ("day") or as in Spark (`day`)."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class _Clause:
    """A translated part of the filter, and its text with current_date and the like replaced by their values."""

    expression: BooleanExpression
    text: str
    compound: bool = False  # needs parentheses inside a larger clause


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, or a partition field that is compared like one."""

    name: str
    kind: IcebergType
    field: NamedField | None = None

    def predicate(self, kind: Callable[..., BooleanExpression], *operands: object) -> BooleanExpression:
        return kind(Reference(self.name), *operands)

    @property
    def text(self) -> str:
        return quoted_name(self.name)

    def literal(self, value: Value) -> tuple[Literal[Any], str]:
        if self.field is not None:
            return self.field.literal(value, self.text)
        return to_literal(value, self.text, self.kind)


def parse_predicate(
    text: str, schema: Schema, now_ms: int, fields: PartitionFields = _NO_FIELDS
) -> tuple[BooleanExpression, str]:
    """Returns an unbound Iceberg expression, and the filter as text with the current time (UTC) filled in."""
    if len(text) > MAX_LENGTH:
        raise BadPredicate(f"The filter is {len(text):,} characters long; at most {MAX_LENGTH:,} are allowed.")
    try:
        tree = _parse(text)
        clause = _Translator(schema, fields, _EPOCH + timedelta(milliseconds=now_ms)).clause(tree, depth=0)
        bind(_with_fields(schema, fields), clause.expression, case_sensitive=True)
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, TypeError) as error:
        raise BadPredicate(f"The filter {text!r} does not fit the table: {error}.") from error
    return clause.expression, clause.text


def _with_fields(schema: Schema, fields: PartitionFields) -> Schema:
    named = enumerate(fields.values(), start=_FIELD_IDS)
    return Schema(*schema.fields, *(NestedField(number, field.name, field.kind) for number, field in named))


def _parse(text: str) -> sql.Expression:
    try:
        trees = _FilterDialect().parse_into(sql.Condition, text)
    except (ParseError, TokenError) as error:
        raise BadPredicate(
            f"The filter {_shorten(text)} is not valid SQL{_position(error)}.",
            hint="Write it as after WHERE: day >= current_date - 7 and region = 'eu'.",
        ) from None
    if len(trees) != 1 or not isinstance(trees[0], sql.Expression):
        raise BadPredicate(
            "The filter is empty." if not any(trees) else "The filter must be one condition.",
            hint="Write it as after WHERE: day >= current_date - 7 and region = 'eu'.",
        )
    return trees[0]


class _Translator:
    def __init__(self, schema: Schema, fields: PartitionFields, now: datetime) -> None:
        self._schema = schema
        self._fields = fields
        self._now = now
        self._names = sorted(schema.column_names)

    def clause(self, node: sql.Expression, depth: int) -> _Clause:
        if depth > MAX_DEPTH:
            raise _too_deep()
        if node.args.get("negate"):  # sqlglot marks some `not like` this way
            plain = node.copy()
            plain.set("negate", None)
            return self._negated(self.clause(plain, depth + 1))
        if isinstance(node, sql.Paren):
            return self.clause(node.this, depth + 1)
        if isinstance(node, sql.And | sql.Or):
            return self._connected(node, depth)
        if isinstance(node, sql.Not):
            return self._negated(self.clause(node.this, depth + 1))
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        if isinstance(node, sql.In):
            return self._membership(node)
        if isinstance(node, sql.Between):
            return self._between(node)
        if isinstance(node, sql.Is):
            return self._is(node)
        if isinstance(node, sql.Like):
            return self._like(node)
        if isinstance(node, sql.Boolean):
            return _Clause(AlwaysTrue() if node.this else AlwaysFalse(), str(bool(node.this)).lower())
        if isinstance(node, sql.Column | sql.Dot):
            return self._boolean_column(self._column(node))
        raise _unsupported(node)

    def _connected(self, node: sql.And | sql.Or, depth: int) -> _Clause:
        # A chain of a thousand `or`s is a tree of that depth. It is walked without recursion.
        connector = type(node)
        operands: list[sql.Expression] = []
        waiting: list[sql.Expression] = [node]
        while waiting:
            current = waiting.pop()
            if type(current) is connector:
                waiting += (current.expression, current.this)
            else:
                operands.append(current)
        clauses = [self.clause(operand, depth + 1) for operand in operands]
        word, combine = (" and ", And) if connector is sql.And else (" or ", Or)
        return _Clause(
            combine(*(clause.expression for clause in clauses)),
            word.join(f"({clause.text})" if clause.compound else clause.text for clause in clauses),
            compound=True,
        )

    def _negated(self, clause: _Clause) -> _Clause:
        if isinstance(clause.expression, IsNull):
            return _Clause(~clause.expression, clause.text.removesuffix("null") + "not null")
        return _Clause(Not(clause.expression), f"not ({clause.text})")

    def _comparison(self, node: sql.Expression) -> _Clause:
        kind = type(node)
        left, right = node.this, node.expression
        if is_constant(left):
            left, right, kind = right, left, _COMPARISONS[kind][2]
        predicate, operator, _ = _COMPARISONS[kind]
        column = self._comparable(left)
        literal, shown = column.literal(self._value(right))
        return _Clause(column.predicate(predicate, literal), f"{column.text} {operator} {shown}")

    def _membership(self, node: sql.In) -> _Clause:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise BadPredicate(f"Subqueries are not supported: {node.sql()}.", hint="Write the values out.")
        column = self._comparable(node.this)
        values = [column.literal(self._value(item)) for item in node.expressions]
        if not values:
            raise BadPredicate(f"{node.sql()}: the list is empty.")
        unique = {shown: literal for literal, shown in values}
        return _Clause(column.predicate(In, tuple(unique.values())), f"{column.text} in ({', '.join(unique)})")

    def _between(self, node: sql.Between) -> _Clause:
        column = self._comparable(node.this)
        low, low_text = column.literal(self._value(node.args["low"]))
        high, high_text = column.literal(self._value(node.args["high"]))
        both = And(column.predicate(GreaterThanOrEqual, low), column.predicate(LessThanOrEqual, high))
        return _Clause(both, f"{column.text} between {low_text} and {high_text}", compound=True)

    def _is(self, node: sql.Is) -> _Clause:
        column = self._comparable(node.this)
        if isinstance(node.expression, sql.Null):
            return _Clause(column.predicate(IsNull), f"{column.text} is null")
        raise _unsupported(node)

    def _like(self, node: sql.Like) -> _Clause:
        column = self._comparable(node.this)
        pattern = self._value(node.expression)
        if not isinstance(pattern, str) or not isinstance(column.kind, StringType):
            raise BadPredicate(f"{node.sql()}: `like` compares a string column with a string.")
        prefix = pattern.removesuffix("%")
        if any(mark in prefix for mark in "%_\\"):
            raise BadPredicate(
                f"{node.sql()}: only patterns that end in one % are supported.", hint="Write like 'abc%'."
            )
        literal, shown = column.literal(prefix)
        if prefix == pattern:
            return _Clause(column.predicate(EqualTo, literal), f"{column.text} = {shown}")
        if not prefix:
            return _Clause(column.predicate(NotNull), f"{column.text} is not null")
        return _Clause(column.predicate(StartsWith, literal), f"{column.text} like {shown[:-1]}%'")

    def _boolean_column(self, column: _Column) -> _Clause:
        if not isinstance(column.kind, BooleanType):
            raise BadPredicate(f"Column {column.text} is not a condition: it is of type {column.kind}.")
        return _Clause(column.predicate(EqualTo, True), f"{column.text} = true")

    def _value(self, node: sql.Expression) -> Value:
        if not is_constant(node):
            raise BadPredicate(
                f"{node.sql()} names a column where a value is expected.",
                hint="Compare a column with a value; put strings in single quotes: region = 'eu'.",
            )
        return evaluate(node, self._now)

    def _comparable(self, node: sql.Expression) -> _Column:
        column = self._column(node)
        if not isinstance(column.kind, PrimitiveType):
            raise BadPredicate(
                f"Column {column.text} is a {type(column.kind).__name__.removesuffix('Type').lower()}.",
                hint="Name one of its fields, such as a.b.",
            )
        return column

    def _column(self, node: sql.Expression) -> _Column:
        if is_constant(node):
            raise BadPredicate(
                f"{node.sql()} is a value where a column is expected.", hint="Compare a column with a value."
            )
        parts = _name_parts(node)
        if parts is None:
            raise _unsupported(node)
        wanted = ".".join(parts)
        if len(columns := names_like(wanted, self._names)) == 1:
            return _Column(columns[0], self._schema.find_field(columns[0]).field_type)
        if len(fields := names_like(wanted, sorted(self._fields))) == 1 and not columns:
            field = self._fields[fields[0]]
            return _Column(field.name, field.kind, field)
        kinds = "column or partition field" if self._fields else "column"
        raise BadPredicate(f"There is no {kinds} {wanted}.", hint=self._suggestion(wanted))

    def _suggestion(self, wanted: str) -> str:
        if question := similar_names(wanted, [*self._names, *sorted(self._fields)]):
            return question
        words = f"The table has {some_of(self._names)}"
        return f"{words}; its partition fields are {some_of(sorted(self._fields))}." if self._fields else f"{words}."


def _name_parts(node: sql.Expression) -> list[str] | None:
    if isinstance(node, sql.Paren):
        return _name_parts(node.this)
    if isinstance(node, sql.Column):
        return [part.name for part in node.parts]
    if isinstance(node, sql.Dot) and isinstance(node.expression, sql.Identifier):
        before = _name_parts(node.this)
        return None if before is None else [*before, node.expression.name]
    return None


def _unsupported(node: sql.Expression) -> BadPredicate:
    what = _shorten(node.sql())
    if isinstance(node, sql.Query | sql.Subquery | sql.Exists):
        return BadPredicate(f"Subqueries are not supported: {what}.", hint="Write the values out.")
    if isinstance(node, sql.Func):
        return BadPredicate(
            f"Functions are not supported in a filter: {what}.", hint="Compare the plain column with a value."
        )
    return BadPredicate(
        f"A filter cannot hold {what}.",
        hint="Supported: = != < <= > >= in between like 'abc%' is null and or not.",
    )


def _too_deep() -> BadPredicate:
    return BadPredicate("The filter is nested too deeply.", hint="Remove parentheses that are not needed.")


def _position(error: ParseError | TokenError) -> str:
    for detail in getattr(error, "errors", []):
        if detail.get("col"):
            return f" (near character {detail['col']})"
    return ""


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "…")
