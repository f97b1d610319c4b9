"""Divides the task of a large group into several. Each gets a range of input bytes and a share of the outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tidyberg.model.task import Share, Task, TaskInput

_SLACK = 32  # a cut may move by 1/32 of an output, if then no row group is decoded twice


def divided(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks to run. Tasks with several parts are divided."""
    return [part for task in tasks for part in (_parts(task) if task.parts > 1 else (task,))]


def _parts(task: Task) -> Iterator[Task]:
    """Divide a task. Every input byte is in exactly one part, and input and output shares are equal."""
    size = sum(file.size for file in task.inputs)
    for part in range(task.parts):
        before, after = (task.outputs * number // task.parts for number in (part, part + 1))
        begin, end = (size * outputs // task.outputs for outputs in (before, after))
        inputs = tuple(_between(task.inputs, begin, end, task.target_bytes // _SLACK))
        yield replace(task, part=part, inputs=inputs, outputs=after - before)


def shares(files: Sequence[TaskInput], parts: int) -> list[tuple[TaskInput, ...]]:
    """Divide files into parts of equal size, at borders of row groups where there are any. No part is empty."""
    size = sum(file.size for file in files)
    parts = max(1, min(parts, size))
    cuts = [size * number // parts for number in range(parts + 1)]
    found = (tuple(_between(files, begin, end, size // parts // 2)) for begin, end in pairwise(cuts))
    return [share for share in found if share]


def _between(files: Sequence[TaskInput], begin: int, end: int, slack: int) -> Iterator[TaskInput]:
    """Return the inputs between two positions in the concatenation of all files."""
    first = 0
    for file in files:
        from_byte, to_byte = max(0, begin - first), min(file.size, end - first)
        first += file.size
        if (from_byte, to_byte) == (0, file.size):
            yield file
        elif from_byte < to_byte:
            yield replace(file, share=Share(from_byte, to_byte, slack))
