"""A compression level for each column: the table's own, or the fastest one where files do not grow by it.

Higher levels search longer for repetitions. Where there are none to find, as in hashes and random keys, zstd's level 1
takes half the time of its level 3 and its result is no larger, sometimes smaller. What is saved there may be spent on
columns that the fastest level makes a little larger: the file as a whole stays as small as the table's level makes it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.project import Leaf
from tidyberg.model.task import Task

_FASTEST = 1
_SLICES = 3
_SLICE_ROWS = 20_000  # about a page: that is what is compressed at a time
_SPENT = 0.5  # of what was saved: a sample may be wrong
_MOST_GROWTH = 0.1  # of a single column
_WORTH_ROWS = 10 * _SLICES * _SLICE_ROWS  # below, trying takes longer than it can save
_MOST_REMEMBERED = 64

Levels = dict[str, int] | int | None
_remembered: dict[tuple[str, ...], dict[str, int]] = {}


def with_levels(options: Mapping[str, Any], task: Task, table: pa.Table, all_leaves: Sequence[Leaf]) -> dict[str, Any]:
    """Arrow's options with a level for each column of a table that begins what the task writes."""
    rows = sum(file.rows_expected for file in task.inputs)
    part = (task.job_id, task.output_directory)
    return {**options, "compression_level": remembered_levels(part, table, all_leaves, options, rows)}


def remembered_levels(
    part: tuple[str, ...], table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int
) -> Levels:
    """Tasks of one job and partition are much alike: one in a worker tries, those after it follow."""
    key = (*part, *(leaf.path for leaf in all_leaves))
    if (known := _remembered.get(key)) is not None:
        return known
    levels = judge_levels(table, all_leaves, options, rows)
    if isinstance(levels, dict):
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = levels
    return levels


def judge_levels(table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int) -> Levels:
    """What Arrow takes as `compression_level`; `rows` is how many the writer will get in all."""
    level = options["compression_level"]
    if options["compression"] != "ZSTD" or level is None or level <= _FASTEST or rows < _WORTH_ROWS:
        return level  # type: ignore[no-any-return]
    sample = _sample(table)
    wanted, fastest = _sizes(sample, options, level), _sizes(sample, options, _FASTEST)
    fast_ones = columns_to_hurry(wanted, fastest)
    return {leaf.path: _FASTEST if index in fast_ones else level for index, leaf in enumerate(all_leaves)}


def columns_to_hurry(wanted: Sequence[int], fastest: Sequence[int]) -> set[int]:
    """Columns for the fastest level, by their bytes at the table's level and at the fastest one."""
    growth = [fast - slow for slow, fast in zip(wanted, fastest, strict=True)]
    chosen = {index for index, bytes_more in enumerate(growth) if bytes_more <= 0}
    left = -_SPENT * sum(growth[index] for index in chosen)
    # The least growth for the bytes that are hurried through comes first.
    for index in sorted(set(range(len(growth))) - chosen, key=lambda index: growth[index] / max(1, wanted[index])):
        if growth[index] <= min(left, _MOST_GROWTH * wanted[index]):
            chosen.add(index)
            left -= growth[index]
    return chosen


def _sample(table: pa.Table) -> pa.Table:
    starts = [number * table.num_rows // _SLICES for number in range(_SLICES)]
    return pa.concat_tables([table.slice(start, _SLICE_ROWS) for start in starts]).unify_dictionaries()


def _sizes(sample: pa.Table, options: Mapping[str, Any], level: int) -> list[int]:
    """Compressed bytes of every leaf, in Parquet's order."""
    found: list[pq.FileMetaData] = []
    sink = pa.BufferOutputStream()
    chosen = {name: value for name, value in options.items() if name != "bloom_filter_options"}
    chosen["compression_level"] = level
    with pq.ParquetWriter(sink, sample.schema, metadata_collector=found, **chosen) as writer:
        writer.write_table(sample, row_group_size=sample.num_rows)
    group = found[0].row_group(0)
    return [group.column(index).total_compressed_size for index in range(group.num_columns)]
