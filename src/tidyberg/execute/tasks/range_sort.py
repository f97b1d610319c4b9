"""Divides the sort of a large group: tasks that sample its key, then a shuffle of ranges of the key.

A range is so small that a worker sorts it in memory. A reduce task has the consecutive ranges of its outputs. If the
group has boundaries, no range and no reduce task has rows on both sides of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.order.ranges import RangeBounds, range_bounds
from tidyberg.execute.kernel.order.segments import SegmentedRanges, Segments, segmented_ranges
from tidyberg.execute.kernel.range_sort.cut import Cut
from tidyberg.execute.kernel.range_sort.merge import MergeRanges
from tidyberg.execute.tasks.division import shares
from tidyberg.model.shuffle import ShuffleJob
from tidyberg.model.sizes import MB
from tidyberg.model.task import SampleResult, SampleTask, Task, TaskInput

RANGE_BYTES = 64 * MB  # of a range in memory; a worker has it a few times while it sorts and writes
_SMALLEST_RANGE_BYTES = 4 * MB  # if there is little memory
_MOST_MEMORY_PER_BYTE = 20  # how much larger rows may be in memory than on storage, except in rare cases
_CURVE_SPARE = 1.25  # other rows may be larger than those of the sample
_MAP_BYTES = 128 * MB  # on storage, so that a map task takes about a second
_SMALL_MAP_BYTES = 8 * MB
_SAMPLED_FILES = 128
_SAMPLED_ROW_GROUPS = 128
_SAMPLED_ROWS = 100_000  # enough for ranges that differ by a few percent
_ROWS_PER_RANGE = 200
_MOST_PARTS = 10_000
_MOST_RANGES = 60_000


def may_be_large(task: Task) -> bool:
    """Returns True if the rows of a sorted group may be too many for the memory of one task. A sample decides."""
    if task.mode != "sort" or task.partitioning is not None:
        return False
    if task.sort_key is not None and task.sort_key.curve is not None:
        return True  # whatever their size on storage: rows along a curve cannot wait on disk until they are sorted
    return sum(file.size for file in task.inputs) * _MOST_MEMORY_PER_BYTE > task.memory_bytes


def bytes_in_memory(task: Task, samples: Sequence[SampleResult]) -> int:
    """Return how much memory the rows of a group take."""
    return round(sum(file.records for file in task.inputs) * max(sample.bytes_per_row for sample in samples))


def fits_one_task(task: Task, samples: Sequence[SampleResult], memory_bytes: int) -> bool:
    """Return True if one task can sort a group. Rows along a curve cannot wait on disk, so they need room to spare."""
    if task.sort_key is None or task.sort_key.curve is None:
        return bytes_in_memory(task, samples) <= memory_bytes
    plain = sum(file.records for file in task.inputs) * max(sample.plain_bytes_per_row for sample in samples)
    return plain * _CURVE_SPARE <= memory_bytes


def reduce_tasks(task: Task) -> int:
    """Return how many tasks write the outputs of a group."""
    return max(1, min(task.outputs, _MOST_PARTS))


def sample_tasks(task: Task, tasks: int) -> list[SampleTask]:
    """Return at most so many tasks that sample the key of a group."""
    assert task.sort_key is not None
    files = _spread(task.inputs, _SAMPLED_FILES)
    rows = max(_SAMPLED_ROWS, _ROWS_PER_RANGE * reduce_tasks(task))
    in_all = sum(file.records for file in files)
    parts = [files[number::tasks] for number in range(tasks) if files[number::tasks]]
    return [
        SampleTask(
            job_id=task.job_id,
            group_id=task.group_id,
            inputs=part,
            arrow_schema=task.arrow_schema,
            key=task.sort_key,
            rows=-(-rows * sum(file.records for file in part) // max(1, in_all)),
            row_groups=-(-_SAMPLED_ROW_GROUPS // len(files)),
            constants=task.constants,
            name_mapping=task.name_mapping,
        )
        for part in parts
    ]


def cut_tasks(task: Task, cores: int) -> list[Task]:
    """Return the group's task with the inputs of each map task."""
    size = sum(file.size for file in task.inputs)
    smallest = size // _SMALL_MAP_BYTES
    maps = max(size // _MAP_BYTES, min(2 * cores, smallest), 1)
    even = -(-maps // cores) * cores  # so that no core is idle while others run the last tasks
    maps = even if even <= smallest else maps
    return [replace(task, inputs=share) for share in shares(task.inputs, min(maps, _MOST_PARTS))]


def shuffle_job(
    task: Task, cuts: Sequence[Task], samples: Sequence[SampleResult], *, cores: int, memory_bytes: int
) -> ShuffleJob:
    """Return the shuffle that sorts a group. `cuts` are its map tasks, `cores` those of each reduce task."""
    assert task.sort_key is not None
    range_bytes = max(_SMALLEST_RANGE_BYTES, min(RANGE_BYTES, memory_bytes // 2))
    ranges = bytes_in_memory(task, samples) / range_bytes
    sample = pa.concat_tables([pa.ipc.open_stream(sample.rows).read_all() for sample in samples])
    division = _at_boundaries(task, sample, ranges) if task.boundaries else _equally(task, sample, ranges)
    bounds, parts = division.bounds, len(division.shares)
    dictionaries = _agreed(samples)
    kept = dict.fromkeys(frozenset.intersection(*(sample.small_dictionaries for sample in samples)), True)
    lean = replace(task, deletes=(), equality_schemas={}, constants={}, cores=cores, parts=parts)
    return ShuffleJob(
        task.job_id,
        task.group_id,
        tuple(Cut(number, cut, bounds, parts, division.each, kept) for number, cut in enumerate(cuts)),
        tuple(
            MergeRanges(replace(lean, part=part, inputs=(share,), outputs=outputs), bounds, dictionaries, kept)
            for part, (share, outputs) in enumerate(zip(division.shares, division.outputs, strict=True))
        ),
    )


@dataclass(frozen=True)
class _Division:
    """How rows are divided among reduce tasks, each of which has `each` ranges."""

    bounds: RangeBounds | SegmentedRanges
    each: int
    shares: tuple[TaskInput, ...]  # the rows and bytes of each reduce task, as an input that stands for them
    outputs: tuple[int, ...]


def _equally(task: Task, sample: pa.Table, ranges: float) -> _Division:
    assert task.sort_key is not None
    parts = reduce_tasks(task)
    each = max(1, min(-(-ranges // parts), _MOST_RANGES // parts))
    outputs = [task.outputs * (part + 1) // parts - task.outputs * part // parts for part in range(parts)]
    bounds = range_bounds(sample, task.sort_key, parts * int(each))
    return _Division(bounds, int(each), (_share(task, 1 / parts),) * parts, tuple(outputs))


def _at_boundaries(task: Task, sample: pa.Table, ranges: float) -> _Division:
    """Gives each segment reduce tasks of its own, one for each file of about the target size."""
    assert task.sort_key is not None
    segments = Segments(task.sort_key, task.boundaries)
    rows = np.bincount(segments.of(sample), minlength=segments.count)
    shares = (rows / max(1, int(rows.sum()))).tolist()
    size = sum(file.size for file in task.inputs)
    wanted = [max(1, round(share * size / task.target_bytes), -(-share * size // task.max_bytes)) for share in shares]
    fewest = max(1, _MOST_PARTS - segments.count)
    parts = [max(1, int(count * min(1.0, fewest / sum(wanted)))) for count in wanted]
    largest = max(share / count for share, count in zip(shares, parts, strict=True))
    each = max(1, min(-(-ranges * largest // 1), _MOST_RANGES // sum(parts)))
    bounds = segmented_ranges(sample, segments, [count * int(each) for count in parts])
    tasks = [_share(task, share / count) for share, count in zip(shares, parts, strict=True) for _ in range(count)]
    return _Division(bounds, int(each), tuple(tasks), (1,) * len(tasks))


def _share(task: Task, share: float) -> TaskInput:
    size, records = (sum(getattr(file, name) for file in task.inputs) for name in ("size", "records"))
    return TaskInput("", round(size * share), round(records * share))


def _agreed(samples: Sequence[SampleResult]) -> dict[int, bool]:
    """Return by field id whether a dictionary pays. One file that speaks against it is enough."""
    verdicts: dict[int, bool] = {}
    for sample in samples:
        for identifier, pays in sample.dictionaries.items():
            verdicts[identifier] = verdicts.get(identifier, True) and pays
    return verdicts


def _spread(files: tuple[TaskInput, ...], most: int) -> tuple[TaskInput, ...]:
    """Return files that are evenly spaced."""
    if len(files) <= most:
        return files
    return tuple(files[(2 * number + 1) * len(files) // (2 * most)] for number in range(most))
