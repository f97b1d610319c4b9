"""Which partitions a filter selects, judged by their partition values alone.

Inclusive: where the values cannot tell, the partition is selected. Files are rewritten whole, so selecting
too much costs time and never a row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from tidyberg.model.inventory import Partition
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import Pinned

_Test = Callable[[Any], bool]


def selected_partitions(
    pinned: Pinned, partitions: Sequence[Partition], options: PlanOptions, now_ms: int
) -> tuple[list[bool], str | None]:
    """Which partitions the options ask for, and the filter as it was understood."""
    if options.where is None:
        return [True] * len(partitions), None
    from tidyberg.planning.predicate import parse_predicate  # sqlglot takes as long to import as a small plan

    expression, resolved = parse_predicate(options.where, pinned.schema, now_ms)
    return select_partitions(expression, pinned.schema, pinned.specs, partitions), resolved


def select_partitions(
    expression: BooleanExpression,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    partitions: Sequence[Partition],
) -> list[bool]:
    """For every partition whether it may hold rows that the filter selects."""
    tests = {spec_id: _partition_test(expression, schema, spec) for spec_id, spec in specs.items()}
    return [_selects(tests.get(partition.spec_id), partition.values) for partition in partitions]


def _partition_test(expression: BooleanExpression, schema: Schema, spec: PartitionSpec) -> _Test | None:
    """A test of partition tuples, or None where this spec's values cannot answer the filter.

    A field whose source column was dropped answers nothing; the filter cannot name that column any more.
    """
    projected = inclusive_projection(schema, spec)(expression)
    if projected == AlwaysTrue():
        return None
    partition_schema = Schema(*spec.partition_type(schema).fields)
    return expression_evaluator(partition_schema, projected, case_sensitive=True)


def _selects(test: _Test | None, values: tuple[Any, ...]) -> bool:
    if test is None:
        return True
    try:
        return test(tuple(value.bytes if isinstance(value, UUID) else value for value in values))
    except (TypeError, IndexError):
        return True  # values written under another type than today's column: they cannot answer
