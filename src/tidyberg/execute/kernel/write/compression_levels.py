"""Chooses a compression level for each column: the table's, or a faster one if the file does not grow.

Higher levels search longer for repetitions. Hashes and random keys have none: zstd's level 1 takes half the time of
level 3, and the result is no larger, sometimes smaller. 64-bit numbers with zero high bytes, such as ids and times,
are smallest at level -2, which is faster still. The bytes saved there may be spent on columns that grow a little at a
faster level. The whole file stays as small as at the table's level.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.model.task import Task

_FASTER = (-2, 1)  # the fastest first
_SLICES = 2
_SLICE_ROWS = 10_000  # together about a page, the unit of compression
_SPENT = 0.5  # of the bytes saved, because a sample may mislead
_MAX_GROWTH = 0.1  # of a single column
_MIN_ROWS = 600_000  # with fewer rows, measuring takes longer than it can save
_MAX_CACHED = 64

Levels = dict[str, int] | int | None
_cached: dict[tuple[str, ...], dict[str, int]] = {}


def with_compression_levels(
    options: Mapping[str, Any], task: Task, table: pa.Table, all_leaves: Sequence[Leaf]
) -> dict[str, Any]:
    """Returns Arrow's options with a level for each column; `table` holds the first rows that the task writes."""
    rows = sum(file.rows_expected for file in task.inputs)
    part = (task.job_id, task.output_directory)
    return {**options, "compression_level": cached_levels(part, table, all_leaves, options, rows)}


def cached_levels(
    part: tuple[str, ...], table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int
) -> Levels:
    """Tasks of one job and partition have similar data, so only the first task of a worker measures."""
    key = (*part, *(leaf.path for leaf in all_leaves))
    if (known := _cached.get(key)) is not None:
        return known
    levels = measure_levels(table, all_leaves, options, rows)
    if isinstance(levels, dict):
        if len(_cached) >= _MAX_CACHED:
            _cached.clear()
        _cached[key] = levels
    return levels


def measure_levels(table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int) -> Levels:
    """Returns a value for Arrow's `compression_level`. `rows` is how many rows the task will write."""
    level = options["compression_level"]
    if options["compression"] != "ZSTD" or level is None or level <= max(_FASTER) or rows < _MIN_ROWS:
        return level  # type: ignore[no-any-return]
    sample = _sample(table)
    levels = (*_FASTER, level)
    chosen = choose_levels([_sizes(sample, options, each) for each in levels])
    return {leaf.path: levels[index] for leaf, index in zip(all_leaves, chosen, strict=True)}


def choose_levels(sizes: Sequence[Sequence[int]]) -> list[int]:
    """Returns the index of each column's level. `sizes` has the bytes of all columns per level, fastest level first."""
    by_column = list(zip(*sizes, strict=True))
    chosen = [min(range(len(sizes)), key=column.__getitem__) for column in by_column]
    left = _SPENT * sum(column[-1] - column[index] for column, index in zip(by_column, chosen, strict=True))
    faster = [
        (column[index] - column[best], number, index)
        for number, (column, best) in enumerate(zip(by_column, chosen, strict=True))
        for index in range(best)
        if column[index] - column[best] <= _MAX_GROWTH * column[best]
    ]
    # Columns with the least growth per byte come first.
    for growth, number, index in sorted(faster, key=lambda one: one[0] / max(1, by_column[one[1]][-1])):
        if index < chosen[number] and growth <= left:
            chosen[number] = index
            left -= growth
    return chosen


def _sample(table: pa.Table) -> pa.Table:
    starts = [number * table.num_rows // _SLICES for number in range(_SLICES)]
    return pa.concat_tables([table.slice(start, _SLICE_ROWS) for start in starts]).unify_dictionaries()


def _sizes(sample: pa.Table, options: Mapping[str, Any], level: int) -> list[int]:
    """Returns the compressed bytes of every leaf, in Parquet's order."""
    found: list[pq.FileMetaData] = []
    sink = pa.BufferOutputStream()
    chosen = {name: value for name, value in options.items() if name != "bloom_filter_options"}
    chosen |= {"compression_level": level, "write_statistics": False, "write_page_index": False}
    with pq.ParquetWriter(sink, sample.schema, metadata_collector=found, **chosen) as writer:
        writer.write_table(sample, row_group_size=sample.num_rows)
    group = found[0].row_group(0)
    return [group.column(index).total_compressed_size for index in range(group.num_columns)]
