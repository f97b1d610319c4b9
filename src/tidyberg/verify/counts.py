"""Compares rows, values, nulls and bounds of a group before and after, without reading the data again."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote_plus

from pyiceberg.schema import Schema

from tidyberg.errors import VerificationFailed
from tidyberg.model.plan import FileGroup
from tidyberg.model.task import ColumnFacts, TaskResult, WrittenFile
from tidyberg.verify.bounds import BoundedColumn, bounded_columns, is_cut_above, is_cut_below
from tidyberg.verify.lineage import LINEAGE_LEAVES, lineage_problems
from tidyberg.verify.row_groups import row_group_problems

_SHOWN = 5  # problems named in a message; the rest is a number


def verify_counts(group: FileGroup, result: TaskResult, schema: Schema, *, lineage: bool = False) -> None:
    """Raise VerificationFailed unless the outputs are what the group's files, less the deleted rows, must become.

    `schema` is the one the outputs were written in; `lineage` says whether rows carry ids besides, as in format v3.
    """
    problems = [*_row_problems(group, result), *_output_problems(group, result), *row_group_problems(group, result)]
    for field_id, leaf in bounded_columns(schema).items():
        problems += [f"column {leaf.name}: {problem}" for problem in _column_problems(field_id, leaf, result)]
    if lineage:
        problems += lineage_problems(group, result)
        for field_id, leaf in LINEAGE_LEAVES.items():
            after = result.output_facts.get(field_id)
            found = _metrics_problems(field_id, leaf, after, result) if after is not None else ()
            problems += [f"column {leaf.name}: {problem}" for problem in found]
    raise_problems(group, problems)


def raise_problems(group: FileGroup, problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        partition = unquote_plus(group.partition_path) or "(unpartitioned)"
        raise VerificationFailed(
            f"Group {group.group_id} ({partition}) did not pass verification: {'; '.join(problems[:_SHOWN])}{more}.",
            hint="Nothing was committed and the outputs are removed; the table is as it was.",
        )


def _row_problems(group: FileGroup, result: TaskResult) -> Iterator[str]:
    written = sum(output.records for output in result.outputs)
    if result.group_id != group.group_id:
        yield f"the result is that of group {result.group_id}"
    if result.rows_read != group.records:
        yield f"{result.rows_read} rows were read, but the manifests count {group.records} in its files"
    if result.rows_read != result.rows_written + result.rows_deleted:
        yield (
            f"{result.rows_read} rows were read, but {result.rows_written} written and "
            f"{result.rows_deleted} deleted make {result.rows_written + result.rows_deleted}"
        )
    if written != result.rows_written:
        yield f"{result.rows_written} rows were written, but the outputs hold {written}"


def _output_problems(group: FileGroup, result: TaskResult) -> Iterator[str]:
    inputs = {file.path for file in group.files}
    seen: set[str] = set()
    for output in result.outputs:
        # I5: no path is live twice.
        if output.path in seen or output.path in inputs:
            yield f"output {output.path} is named twice or is an input"
        seen.add(output.path)
        if output.size <= 0 or output.records <= 0:
            yield f"output {output.path} is empty: {output.size} bytes, {output.records} rows"


def _column_problems(field_id: int, leaf: BoundedColumn, result: TaskResult) -> Iterator[str]:
    before = result.input_facts.get(field_id, ColumnFacts(values=0, nulls=0, lower=None, upper=None))
    after = result.output_facts.get(field_id)
    if after is None:
        # Nobody counts leaves of lists and maps in footers: their contents are for full verification.
        if result.outputs and not leaf.repeated:
            yield f"{before.values} values before, but the outputs lack the column"
        return
    yield from _value_problems(leaf, before, after, result)
    yield from _null_problems(before, after, result)
    yield from _bound_problems(leaf, before, after, result)
    yield from _metrics_problems(field_id, leaf, after, result)


def _value_problems(leaf: BoundedColumn, before: ColumnFacts, after: ColumnFacts, result: TaskResult) -> Iterator[str]:
    if not leaf.repeated and after.values != result.rows_written:
        yield f"{after.values} values in {result.rows_written} rows"
    if not leaf.repeated and before.values > result.rows_read:
        yield f"{before.values} values before in {result.rows_read} rows"
    if result.rows_deleted == 0 and after.values < before.values:
        yield f"{before.values} values before, {after.values} after"


def _null_problems(before: ColumnFacts, after: ColumnFacts, result: TaskResult) -> Iterator[str]:
    """Files that are older than a column add nulls or one constant to it. Nothing else may change the nulls."""
    if before.nulls is None or after.nulls is None:
        return
    if result.rows_deleted == 0:
        added = after.values - before.values
        if after.nulls not in (before.nulls, before.nulls + added):
            yield f"{before.nulls} nulls before, {after.nulls} after" + (
                f" ({added} values were added for files without the column)" if added else ""
            )
    elif after.nulls > before.nulls + max(result.rows_read - before.values, 0):
        yield f"{before.nulls} nulls before, {after.nulls} after, though rows were only deleted"


def _bound_problems(leaf: BoundedColumn, before: ColumnFacts, after: ColumnFacts, result: TaskResult) -> Iterator[str]:
    lower, upper = leaf.decode(after.lower), leaf.decode(after.upper)
    if before.values == 0:
        if after.nulls not in (None, after.values) and lower is not None and lower != upper:
            yield f"no input has it, yet the outputs hold values from {lower!r} to {upper!r}"
        return
    filled = before.nulls is not None and after.nulls is not None and after.values > before.values
    if filled and after.nulls == before.nulls:
        return  # a constant was added to it, which may lie anywhere
    before_lower, before_upper = leaf.decode(before.lower), leaf.decode(before.upper)
    exact = result.rows_deleted == 0
    if lower is not None and before_lower is not None and lower != before_lower:
        cut = leaf.may_be_cut and is_cut_below(before_lower, lower)
        if lower < before_lower or (exact and not cut):
            yield f"lowest value {before_lower!r} before, {lower!r} after"
    if upper is not None and before_upper is not None and upper != before_upper:
        cut = leaf.may_be_cut and is_cut_above(before_upper, upper)
        if upper > before_upper or (exact and not cut):
            yield f"highest value {before_upper!r} before, {upper!r} after"


def _metrics_problems(field_id: int, leaf: BoundedColumn, after: ColumnFacts, result: TaskResult) -> Iterator[str]:
    """I9: manifest entries must be true of the files. Bounds may be truncated, but only outwards."""
    outputs = result.outputs
    values = [output.value_counts[field_id] for output in outputs if field_id in output.value_counts]
    nulls = [output.null_value_counts[field_id] for output in outputs if field_id in output.null_value_counts]
    if len(values) == len(outputs) and sum(values) != after.values:
        yield f"the manifest would say {sum(values)} values, the footers say {after.values}"
    if len(nulls) == len(outputs) and after.nulls is not None and sum(nulls) != after.nulls:
        yield f"the manifest would say {sum(nulls)} nulls, the footers say {after.nulls}"
    bounded = [output for output in outputs if _has_bounded_values(output, field_id)]
    lowers: list[Any] = [leaf.decode(output.lower_bounds.get(field_id)) for output in bounded]
    uppers: list[Any] = [leaf.decode(output.upper_bounds.get(field_id)) for output in bounded]
    lower, upper = leaf.decode(after.lower), leaf.decode(after.upper)
    if lower is not None and lowers and None not in lowers:
        lowest = min(lowers)
        if lowest > lower or (lowest != lower and not leaf.may_be_cut):
            yield f"the manifest would say that {lowest!r} is the lowest value, the footers say {lower!r}"
    if upper is not None and uppers and None not in uppers:
        highest = max(uppers)
        if highest < upper or (highest != upper and not leaf.may_be_cut):
            yield f"the manifest would say that {highest!r} is the highest value, the footers say {upper!r}"


def _has_bounded_values(output: WrittenFile, field_id: int) -> bool:
    """Skips files in which the column is all null or NaN: they need no bounds."""
    others = output.null_value_counts.get(field_id, 0) + output.nan_value_counts.get(field_id, 0)
    return output.value_counts.get(field_id) != others
