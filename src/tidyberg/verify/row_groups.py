"""Checks that a copied group holds exactly the row groups of its files, each once and with the same rows."""

from collections import Counter
from collections.abc import Iterator

from tidyberg.model.plan import FileGroup
from tidyberg.model.task import TaskResult


def row_group_problems(group: FileGroup, result: TaskResult) -> Iterator[str]:
    """Yields problems of the row groups of a copied group, from the plan and the footers."""
    if result.mode != "copy":
        return
    if group.mode != "copy" or group.deletes or group.output_spec_id is not None or result.rows_deleted:
        yield "it was copied, but the plan says that its rows must be encoded again"
    before, after = Counter(result.input_row_groups), Counter(result.output_row_groups)
    if sum(rows for rows, _ in result.input_row_groups) != result.rows_read:
        yield f"the row groups of its files do not hold the {result.rows_read} rows that were copied"
    lost, strange = before - after, after - before
    if lost or strange:
        yield (
            f"{before.total()} row groups before, {after.total()} after: "
            f"{lost.total()} are gone and {strange.total()} were in no input"
        )
    offsets = sum(len(output.split_offsets) for output in result.outputs)
    if offsets != after.total():
        yield f"the manifest would say {offsets} row groups, the footers say {after.total()}"
