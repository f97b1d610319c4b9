"""Checks partition values of outputs in a new spec against the outputs' own column bounds [I9]."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, VoidTransform

from tidyberg.errors import VerificationFailed
from tidyberg.model.plan import FileGroup
from tidyberg.model.task import TaskResult, WrittenFile
from tidyberg.verify.bounds import BoundedColumn, bounded_columns

_SHOWN = 3


def verify_partitions(group: FileGroup, result: TaskResult, schema: Schema, spec: PartitionSpec) -> None:
    """Raises VerificationFailed unless all rows of each output can belong to the partition that it claims.

    The values are computed again by PyIceberg, not by the kernel's own transforms. All but `bucket` keep the order of
    their source, so the lowest and the highest value of a column must both fall into the partition.
    """
    columns = bounded_columns(schema)
    problems = [
        f"output {output.path}: {problem}" for output in result.outputs for problem in _problems(output, spec, columns)
    ]
    if problems:
        raise VerificationFailed(
            f"Group {group.group_id} was sorted into the wrong partitions: {'; '.join(problems[:_SHOWN])}.",
            hint="Nothing was committed and the outputs are removed; the table is as it was.",
        )


def _problems(output: WrittenFile, spec: PartitionSpec, columns: dict[int, BoundedColumn]) -> Iterator[str]:
    if output.partition is None or len(output.partition) != len(spec.fields):
        yield f"it claims the partition {output.partition} of a spec with {len(spec.fields)} fields"
        return
    for field, value in zip(spec.fields, output.partition, strict=True):
        problem = _problem(output, field, value, columns[field.source_id])
        if problem is not None:
            yield f"{field.name} is {value!r}, but {problem}"


def _problem(output: WrittenFile, field: PartitionField, value: Any, leaf: BoundedColumn) -> str | None:
    if isinstance(field.transform, VoidTransform):
        return None if value is None else "the field is void"
    nulls = output.null_value_counts.get(field.source_id)
    if nulls is not None and nulls != (output.records if value is None else 0):
        return f"{nulls} of {output.records} rows of {leaf.name} are null"
    if value is None:
        return None
    value = value.bytes if isinstance(value, UUID) else value  # as bounds hold it
    lower, upper = (leaf.decode(bounds.get(field.source_id)) for bounds in (output.lower_bounds, output.upper_bounds))
    transform = field.transform.transform(leaf.type)
    if isinstance(field.transform, BucketTransform):
        is_exact = lower is not None and lower == upper and not leaf.may_be_cut
        return None if not is_exact or transform(lower) == value else f"{leaf.name} is {lower!r} throughout"
    # Bounds may be cut, but only outwards, so the inequality holds for them too.
    if lower is not None and (transform(lower) > value or (transform(lower) != value and not leaf.may_be_cut)):
        return f"the lowest {leaf.name} is {lower!r}"
    if upper is not None and (transform(upper) < value or (transform(upper) != value and not leaf.may_be_cut)):
        return f"the highest {leaf.name} is {upper!r}"
    return None
