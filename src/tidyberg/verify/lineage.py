"""Compares row lineage before and after: every row keeps its id, within the bounds of the inputs [I8]."""

from collections.abc import Iterator

from pyiceberg.types import LongType

from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, ROW_ID_NAME
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID
from tidyberg.model.plan import FileGroup
from tidyberg.model.task import ColumnFacts, TaskResult
from tidyberg.verify.bounds import BoundedColumn

LINEAGE_LEAVES = {
    ROW_ID: BoundedColumn(ROW_ID_NAME, LongType(), repeated=False),
    LAST_UPDATED: BoundedColumn(LAST_UPDATED_NAME, LongType(), repeated=False),
}


def lineage_problems(group: FileGroup, result: TaskResult) -> Iterator[str]:
    """Yields problems of the lineage columns of a group's outputs, from the plan and the footers."""
    for field_id, leaf in LINEAGE_LEAVES.items():
        before, after = result.input_facts.get(field_id), result.output_facts.get(field_id)
        if before is None or after is None:
            if result.outputs:
                yield f"column {leaf.name}: the outputs lack it"
            continue
        for problem in _problems(leaf, before, after, result, _most_nulls(field_id, group)):
            yield f"column {leaf.name}: {problem}"
    before, after = result.input_facts.get(ROW_ID), result.output_facts.get(ROW_ID)
    if before is not None and after is not None and _has_room(before) and not _has_room(after):
        yield f"column {ROW_ID_NAME}: rows share ids that they did not share before"


def _most_nulls(field_id: int, group: FileGroup) -> int:
    """Rows of files to which the table has not assigned row ids yet."""
    return sum(file.records for file in group.files if file.first_row_id is None) if field_id == ROW_ID else 0


def _problems(
    leaf: BoundedColumn, before: ColumnFacts, after: ColumnFacts, result: TaskResult, most_nulls: int
) -> Iterator[str]:
    if after.values != result.rows_written:
        yield f"{after.values} values in {result.rows_written} rows"
    if after.nulls is None or after.nulls > most_nulls:
        yield f"{after.nulls} nulls, though at most {most_nulls} rows were without"
    elif before.nulls is not None and (
        after.nulls > before.nulls or (result.rows_deleted == 0 and after.nulls < before.nulls)
    ):
        yield f"{before.nulls} nulls before, {after.nulls} after"
    lower, upper = leaf.decode(after.lower), leaf.decode(after.upper)
    lowest, highest = leaf.decode(before.lower), leaf.decode(before.upper)
    if lower is not None and lowest is not None and lower < lowest:
        yield f"lowest value {lowest} before, {lower} after"
    if upper is not None and highest is not None and upper > highest:
        yield f"highest value {highest} before, {upper} after"


def _has_room(ids: ColumnFacts) -> bool:
    """Row ids are unique, so the bounds must span at least as many ids as there are rows."""
    leaf = LINEAGE_LEAVES[ROW_ID]
    lower, upper = leaf.decode(ids.lower), leaf.decode(ids.upper)
    return lower is None or upper is None or bool(upper - lower + 1 >= ids.values - (ids.nulls or 0))
