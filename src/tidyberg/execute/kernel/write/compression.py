"""A compression level for each column: the table's own, or a faster one where files do not grow by it.

Higher levels search longer for repetitions. Where there are none to find, as in hashes and random keys, zstd's level 1
takes half the time of its level 3 and its result is no larger, sometimes smaller. Numbers of 64 bits whose high bytes
are zero, as ids and times often are, come out smallest at level -2, in less time yet. What is saved there may be spent
on columns that a faster level makes a little larger: the file as a whole stays as small as the table's level makes it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.model.task import Task

_FASTER = (-2, 1)  # the fastest first
_SLICES = 2
_SLICE_ROWS = 10_000  # together about a page: that is what is compressed at a time
_SPENT = 0.5  # of what was saved: a sample may be wrong
_MOST_GROWTH = 0.1  # of a single column
_WORTH_ROWS = 600_000  # below, trying takes longer than it can save
_MOST_REMEMBERED = 64

Levels = dict[str, int] | int | None
_remembered: dict[tuple[str, ...], dict[str, int]] = {}


def with_compression_levels(
    options: Mapping[str, Any], task: Task, table: pa.Table, all_leaves: Sequence[Leaf]
) -> dict[str, Any]:
    """Arrow's options with a level for each column of a table that begins what the task writes."""
    rows = sum(file.rows_expected for file in task.inputs)
    part = (task.job_id, task.output_directory)
    return {**options, "compression_level": cached_levels(part, table, all_leaves, options, rows)}


def cached_levels(
    part: tuple[str, ...], table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int
) -> Levels:
    """Tasks of one job and partition are much alike: one in a worker tries, those after it follow."""
    key = (*part, *(leaf.path for leaf in all_leaves))
    if (known := _remembered.get(key)) is not None:
        return known
    levels = measure_levels(table, all_leaves, options, rows)
    if isinstance(levels, dict):
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        _remembered[key] = levels
    return levels


def measure_levels(table: pa.Table, all_leaves: Sequence[Leaf], options: Mapping[str, Any], rows: int) -> Levels:
    """What Arrow takes as `compression_level`; `rows` is how many the writer will get in all."""
    level = options["compression_level"]
    if options["compression"] != "ZSTD" or level is None or level <= max(_FASTER) or rows < _WORTH_ROWS:
        return level  # type: ignore[no-any-return]
    sample = _sample(table)
    levels = (*_FASTER, level)
    chosen = choose_levels([_sizes(sample, options, each) for each in levels])
    return {leaf.path: levels[index] for leaf, index in zip(all_leaves, chosen, strict=True)}


def choose_levels(sizes: Sequence[Sequence[int]]) -> list[int]:
    """Which level each column gets, by the bytes of all columns at each level: the fastest first, the table's last."""
    by_column = list(zip(*sizes, strict=True))
    chosen = [min(range(len(sizes)), key=column.__getitem__) for column in by_column]
    left = _SPENT * sum(column[-1] - column[index] for column, index in zip(by_column, chosen, strict=True))
    faster = [
        (column[index] - column[best], number, index)
        for number, (column, best) in enumerate(zip(by_column, chosen, strict=True))
        for index in range(best)
        if column[index] - column[best] <= _MOST_GROWTH * column[best]
    ]
    # The least growth for the bytes that are hurried through comes first.
    for growth, number, index in sorted(faster, key=lambda one: one[0] / max(1, by_column[one[1]][-1])):
        if index < chosen[number] and growth <= left:
            chosen[number] = index
            left -= growth
    return chosen


def _sample(table: pa.Table) -> pa.Table:
    starts = [number * table.num_rows // _SLICES for number in range(_SLICES)]
    return pa.concat_tables([table.slice(start, _SLICE_ROWS) for start in starts]).unify_dictionaries()


def _sizes(sample: pa.Table, options: Mapping[str, Any], level: int) -> list[int]:
    """Compressed bytes of every leaf, in Parquet's order."""
    found: list[pq.FileMetaData] = []
    sink = pa.BufferOutputStream()
    chosen = {name: value for name, value in options.items() if name != "bloom_filter_options"}
    chosen |= {"compression_level": level, "write_statistics": False, "write_page_index": False}
    with pq.ParquetWriter(sink, sample.schema, metadata_collector=found, **chosen) as writer:
        writer.write_table(sample, row_group_size=sample.num_rows)
    group = found[0].row_group(0)
    return [group.column(index).total_compressed_size for index in range(group.num_columns)]
