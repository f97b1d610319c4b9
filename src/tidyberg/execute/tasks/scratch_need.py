"""Estimates how many bytes the shuffle of a sorted group sends, before any of its rows are read."""

from collections.abc import Sequence

import pyarrow as pa

from tidyberg.model.shuffle import ScratchNeed
from tidyberg.model.task import SampleResult, Task

_OFFSET_BYTES = 4.0  # of a string or a list, and of an index into a dictionary
_CERTAIN_SHARE = 0.5  # of what the smallest sample measured; rows elsewhere in the files may be shorter


def scratch_need(task: Task, samples: Sequence[SampleResult]) -> ScratchNeed:
    """Returns the need of a group.

    `least` must not be more than the rows take, because a sort is refused by it. It counts rows that no delete can
    remove, with the values whose width is fixed, or half of what the smallest sample measured if that is more.
    """
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    sizes = [sample.bytes_per_row for sample in samples]
    certain = max(sum(fixed_bytes(column.type) for column in schema), _CERTAIN_SHARE * min(sizes))
    rows = sum(file.records for file in task.inputs)
    return ScratchNeed(least=int(_rows_that_stay(task, rows) * certain), likely=round(rows * max(sizes)))


def fixed_bytes(kind: pa.DataType) -> float:
    """Returns the bytes that each value takes in Arrow's format at least, also if it is null or empty."""
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_bytes(kind.storage_type)
    if pa.types.is_null(kind):
        return 0.0
    if pa.types.is_struct(kind):
        return sum(fixed_bytes(child.type) for child in kind)
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return _OFFSET_BYTES


def _rows_that_stay(task: Task, rows: int) -> int:
    """Returns how many rows stay at least. A position removes one row, and an equality delete may remove all."""
    for delete in task.deletes:
        if delete.kind == "equality" or delete.records is None:
            return 0
        rows -= delete.records
    return max(0, rows)
