"""Runs a shuffle in memory, one task after the other."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidyberg.model.shuffle import ArrivedChunk, MapTask, ReduceTask, ShuffleAttempt
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage


@dataclass(frozen=True)
class ChunksInMemory:
    chunks: Sequence[ArrivedChunk]

    @property
    def bytes_by_tag(self) -> dict[int, int]:
        sizes: dict[int, int] = defaultdict(int)
        for chunk in self.chunks:
            sizes[chunk.tag] += chunk.data.size
        return dict(sorted(sizes.items()))

    def __iter__(self) -> Iterator[ArrivedChunk]:
        return iter(self.chunks)

    def tagged(self, tag: int) -> Iterator[ArrivedChunk]:
        return (chunk for chunk in self.chunks if chunk.tag == tag)


def attempt(number: int = 0) -> ShuffleAttempt:
    return ShuffleAttempt(number, Storage(StorageAccess({})), lambda: False)


def run_in_memory(maps: Sequence[MapTask], reduces: Sequence[ReduceTask]) -> tuple[list[Any], list[Any]]:
    """Returns the reports of the map tasks, and the results of the reduce tasks."""
    arrived: dict[int, list[ArrivedChunk]] = defaultdict(list)
    reports = []
    for number, task in enumerate(maps):
        chunks = task.chunks(attempt())
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as end:
                reports.append(end.value)
                break
            data = pa.py_buffer(chunk.data) if isinstance(chunk.data, bytes) else chunk.data
            arrived[chunk.partition].append(ArrivedChunk(number, chunk.tag, data))
    results = [task.reduce(ChunksInMemory(arrived[number]), attempt()) for number, task in enumerate(reduces)]
    return reports, results
