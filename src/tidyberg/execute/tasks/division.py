"""Divides the task of a large group among several: each takes some bytes of its files, and its share of the outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidyberg.model.task import Share, Task, TaskInput

_SLACK = 32  # a cut may be off by this part of an output, if that spares a row group to be decoded twice


def divided(tasks: Sequence[Task]) -> list[Task]:
    """The tasks to run: those of several parts in parts, all others as they are."""
    return [part for task in tasks for part in (_parts(task) if task.parts > 1 else (task,))]


def _parts(task: Task) -> Iterator[Task]:
    """Every byte of the inputs is in exactly one part; each gets as much of them as of the outputs."""
    size = sum(file.size for file in task.inputs)
    for part in range(task.parts):
        before, after = (task.outputs * number // task.parts for number in (part, part + 1))
        begin, end = (size * outputs // task.outputs for outputs in (before, after))
        inputs = tuple(_between(task.inputs, begin, end, task.target_bytes // _SLACK))
        yield replace(task, part=part, inputs=inputs, outputs=after - before)


def _between(files: Sequence[TaskInput], begin: int, end: int, slack: int) -> Iterator[TaskInput]:
    """What lies between two bytes of the files, one behind the other."""
    first = 0
    for file in files:
        from_byte, to_byte = max(0, begin - first), min(file.size, end - first)
        first += file.size
        if (from_byte, to_byte) == (0, file.size):
            yield file
        elif from_byte < to_byte:
            yield replace(file, share=Share(from_byte, to_byte, slack))
