"""Selects the partitions that match a filter, by their partition values alone.

The selection is inclusive: if the values say nothing about a column, the partition is selected. Files are rewritten as
a whole, so selecting too much costs time but never a row.

A filter that names a partition field asks for partitions. A partition without this field is judged by its values for
the field's source column. If it has none, it is left alone, and the plan says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    expression_evaluator,
    inclusive_projection,
    rewrite_not,
    visit,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from tidyberg.model.inventory import Partition
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned
from tidyberg.planning.partition_fields import PartitionFields, on_column, partition_fields

_Test = Callable[[Any], bool]
_NO_FIELDS: PartitionFields = {}


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """The partitions that a filter selects, those that it cannot decide with the reason, and the filter as parsed."""

    chosen: Sequence[bool]
    undecided: Mapping[int, str]
    where: str | None


@dataclass(frozen=True, slots=True)
class _SpecTest:
    """Tests for the partitions of one spec: do they possibly match, do they certainly match? None: always."""

    possible: _Test | None
    certain: _Test | None
    missing: tuple[str, ...] = ()  # fields that the spec knows nothing about


def selected_partitions(
    pinned: Pinned, partitions: Sequence[Partition], options: PlanOptions, now_ms: int
) -> PartitionSelection:
    """Returns the partitions that the options ask for."""
    if options.where is None:
        return PartitionSelection([True] * len(partitions), {}, None)
    from tidyberg.planning.predicate import parse_predicate  # importing sqlglot takes as long as a small plan

    fields = fields_of(pinned)
    expression, resolved = parse_predicate(options.where, pinned.schema, now_ms, fields)
    chosen, undecided = select_partitions(expression, pinned.schema, pinned.specs, partitions, fields)
    return PartitionSelection(chosen, undecided, resolved)


def fields_of(pinned: Pinned) -> PartitionFields:
    return partition_fields(pinned.specs, pinned.default_spec_id, pinned.schema, pinned.schemas)


def select_partitions(
    expression: BooleanExpression,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partitions: Sequence[Partition],
    fields: PartitionFields = _NO_FIELDS,
) -> tuple[list[bool], dict[int, str]]:
    """Returns for each partition whether it may hold matching rows, and the reason if the filter cannot decide."""
    plain = rewrite_not(expression)
    tests = {spec_id: _spec_test(plain, schema, spec, fields) for spec_id, spec in specs.items()}
    chosen: list[bool] = []
    undecided: dict[int, str] = {}
    for number, partition in enumerate(partitions):
        test = tests.get(partition.spec_id, _SpecTest(None, None))
        chosen.append(_selects(test.certain, partition.values))
        if not chosen[-1] and test.missing and _selects(test.possible, partition.values):
            undecided[number] = (
                f"the filter cannot tell: partition spec {partition.spec_id} has no field {', '.join(test.missing)}"
            )
    return chosen, undecided


def _spec_test(
    expression: BooleanExpression, schema: Schema, spec: PartitionSpec, fields: PartitionFields
) -> _SpecTest:
    """Builds the tests for one spec.

    `expression` has negations only at its leaves, so an unknown part can only make it match more. A field whose source
    column was dropped says nothing about columns, and a filter cannot name that column any more.
    """
    projection = _PartitionProjection(schema, spec, fields)
    possible = visit(expression, projection)
    if not projection.missing:
        test = _test(possible, schema, spec, fields)
        return _SpecTest(test, test)
    certain = visit(expression, _PartitionProjection(schema, spec, fields, when_missing=AlwaysFalse()))
    return _SpecTest(
        _test(possible, schema, spec, fields), _test(certain, schema, spec, fields), tuple(sorted(projection.missing))
    )


def _test(projected: BooleanExpression, schema: Schema, spec: PartitionSpec, fields: PartitionFields) -> _Test | None:
    if projected == AlwaysTrue():
        return None
    return expression_evaluator(_tuple_schema(schema, spec, fields), projected, case_sensitive=True)


def _tuple_schema(schema: Schema, spec: PartitionSpec, fields: PartitionFields) -> Schema:
    """Returns the schema of a spec's partition tuples. A named field keeps its type if its column was dropped."""
    found = []
    for field, typed in zip(spec.fields, spec.partition_type(schema).fields, strict=True):
        named = fields.get(field.name)
        kind = named.kind if named is not None and named.is_(field) else typed.field_type
        found.append(NestedField(typed.field_id, typed.name, kind, required=False))
    return Schema(*found)


class _PartitionProjection(BooleanExpressionVisitor[BooleanExpression]):
    """Projects conditions on columns and named partition fields to the partition tuples of one spec."""

    def __init__(
        self,
        schema: Schema,
        spec: PartitionSpec,
        fields: PartitionFields,
        when_missing: BooleanExpression | None = None,
    ) -> None:
        self._schema = schema
        self._spec = spec
        self._project = inclusive_projection(schema, spec)
        self._fields = fields
        self._when_missing = AlwaysTrue() if when_missing is None else when_missing
        self._columns = set(schema.column_names)
        self.missing: set[str] = set()

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise AssertionError(f"negations must be at the leaves: {child_result}")

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise AssertionError(f"a filter must not be bound before it is projected: {predicate}")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        assert isinstance(predicate.term, Reference)
        named = self._fields.get(predicate.term.name)
        if named is None or named.name in self._columns:
            return self._project(predicate)
        if any(named.is_(field) for field in self._spec.fields):
            return predicate
        elsewhere = on_column(predicate, named, self._schema)
        projected = AlwaysTrue() if elsewhere is None else self._project(elsewhere)
        if projected == AlwaysTrue():
            self.missing.add(named.name)
            return self._when_missing
        return projected


def _selects(test: _Test | None, values: tuple[Any, ...]) -> bool:
    if test is None:
        return True
    try:
        return test(tuple(value.bytes if isinstance(value, UUID) else value for value in values))
    except (TypeError, IndexError):
        return True  # the values were written when the column had another type, so they cannot be compared
