"""Partition fields in filters: which fields a filter may name, and what it then says about their source columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    Or,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import DateLiteral, Literal, LongLiteral, TimestampLiteral
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TimeTransform, Transform, UnknownTransform, VoidTransform
from pyiceberg.types import DateType, IcebergType, NestedField, TimestampType, TimestamptzType

from tidyberg.errors import BadPredicate
from tidyberg.planning.literals import Value, quote, show, to_literal

_NUMPY_TYPES = {"year": "M8[Y]", "month": "M8[M]", "day": "M8[D]", "hour": "M8[h]"}
_MICROS_PER_HOUR = 3_600_000_000
# The constructors of these classes accept more than their type hints say.
_BELOW: Callable[..., BooleanExpression] = LessThan
_FROM: Callable[..., BooleanExpression] = GreaterThanOrEqual
_IS_NULL: Callable[..., BooleanExpression] = IsNull
_EQUAL: Callable[..., UnboundPredicate] = EqualTo
_NOT_EQUAL: Callable[..., UnboundPredicate] = NotEqualTo


@dataclass(frozen=True, slots=True)
class NamedField:
    """A partition field that a filter can name. A field of another spec with this name may be a different one."""

    name: str
    source_id: int
    transform: Transform[Any, Any]
    kind: IcebergType  # the type of its values

    def is_(self, field: PartitionField) -> bool:
        same_source = field.source_id == self.source_id and str(field.transform) == str(self.transform)
        return field.name == self.name and same_source

    @property
    def unit(self) -> str | None:
        """Returns year, month, day or hour if the field counts these; otherwise None."""
        return str(self.transform) if isinstance(self.transform, TimeTransform) else None

    def literal(self, value: Value, shown_name: str) -> tuple[Literal[Any], str]:
        """Returns a value of the field, and SQL text that parses to the same value.

        A date or time means the year, month, day or hour that contains it.
        """
        if self.unit is None:
            return to_literal(value, shown_name, self.kind, "partition field")
        if (found := _moment_of(value, self.unit)) is None:
            example = self.transform.to_human_string(self.kind, 0)
            raise BadPredicate(
                f"{show(value)} is neither a date nor a time; partition field {shown_name} holds {self.unit}s.",
                hint=f"Write {shown_name} >= {quote(example)}, or current_date - 7.",
            )
        number = int(np.array(found, "M8[us]").astype(_NUMPY_TYPES[self.unit]).astype(np.int64))
        text = self.transform.to_human_string(self.kind, number)
        return (DateLiteral(number) if self.unit == "day" else LongLiteral(number)), quote(text)


PartitionFields = Mapping[str, NamedField]


def partition_fields(
    specs: Mapping[int, PartitionSpec], default_spec_id: int, schema: Schema, schemas: Mapping[int, Schema]
) -> PartitionFields:
    """Returns the fields of all specs by name. The newest of a name wins, and a column hides a field of its name."""
    columns = set(schema.column_names)
    history = [schema, *(schemas[number] for number in sorted(schemas, reverse=True))]
    newest_first = sorted(specs, key=lambda number: (number != default_spec_id, -number))
    found: dict[str, NamedField] = {}
    for field in (field for number in newest_first for field in specs[number].fields):
        source = _source(field, history)
        if field.name in columns or field.name in found or source is None:
            continue
        if isinstance(field.transform, VoidTransform | UnknownTransform):
            continue
        found[field.name] = NamedField(
            field.name, field.source_id, field.transform, field.transform.result_type(source.field_type)
        )
    return found


def on_column(leaf: UnboundPredicate, field: NamedField, schema: Schema) -> BooleanExpression | None:
    """Returns the same condition on the source column of the field, or None if there is no exact one."""
    source = schema._lazy_id_to_field.get(field.source_id)
    name = schema.find_column_name(field.source_id)
    if source is None or name is None:
        return None
    column = Reference(name)
    again: Callable[..., BooleanExpression] = type(leaf)
    if isinstance(leaf, IsNull | NotNull):  # every transform maps null to null, and nothing else
        return again(column)
    if isinstance(field.transform, IdentityTransform) and isinstance(leaf, SetPredicate | LiteralPredicate):
        return again(column, leaf.literals if isinstance(leaf, SetPredicate) else leaf.literal)
    if field.unit is None or not isinstance(source.field_type, DateType | TimestampType | TimestamptzType):
        return None
    return _on_times(leaf, column, field.unit, source.field_type)


def _on_times(leaf: UnboundPredicate, column: Reference, unit: str, kind: IcebergType) -> BooleanExpression | None:
    if isinstance(leaf, SetPredicate):
        one, combine = (_EQUAL, Or) if isinstance(leaf, In) else (_NOT_EQUAL, And)
        parts = [_on_times(one(leaf.term, each), column, unit, kind) for each in leaf.literals]
        clauses = [part for part in parts if part is not None]
        return combine(*clauses) if len(clauses) > 1 else clauses[0]
    if not isinstance(leaf, LiteralPredicate):
        return None
    start, end = (_start(int(leaf.literal.value) + later, unit, kind) for later in (0, 1))
    match leaf:
        case LessThan():
            return _BELOW(column, start)
        case LessThanOrEqual():
            return _BELOW(column, end)
        case GreaterThan():
            return _FROM(column, end)
        case GreaterThanOrEqual():
            return _FROM(column, start)
        case EqualTo():
            return And(_FROM(column, start), _BELOW(column, end))
        case NotEqualTo():  # null differs from every value; PyIceberg treats columns the same way
            return Or(_BELOW(column, start), _FROM(column, end), _IS_NULL(column))
    return None


def _start(number: int, unit: str, kind: IcebergType) -> Literal[Any]:
    """Returns the first moment of a year, month, day or hour, in the type of a column."""
    moment = np.array(number, np.int64).astype(_NUMPY_TYPES[unit])
    if isinstance(kind, DateType):
        return DateLiteral(int(moment.astype("M8[D]").astype(np.int64)))
    return TimestampLiteral(int(moment.astype("M8[h]").astype(np.int64)) * _MICROS_PER_HOUR)


def _source(field: PartitionField, history: Sequence[Schema]) -> NestedField | None:
    """Returns the source column of a field, as it last was if it has been dropped."""
    found = (schema._lazy_id_to_field.get(field.source_id) for schema in history)
    return next((column for column in found if column is not None), None)


def _moment_of(value: Value, unit: str) -> datetime | None:
    """Returns a UTC wall clock, or None if the value is no date or time.

    It also accepts the form in which partitions are printed, such as 2026-11 or 2026-11-12-10.
    """
    if unit == "year" and isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 9999:
        return datetime(value, 1, 1)  # noqa: DTZ001 - a wall clock
    if isinstance(value, str):
        text = value.strip()
        for pattern in {"year": ["%Y"], "month": ["%Y-%m"], "hour": ["%Y-%m-%d-%H"]}.get(unit, []):
            try:
                return datetime.strptime(text, pattern)  # noqa: DTZ007
            except ValueError:
                continue
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return datetime.combine(value, time()) if isinstance(value, date) else None
