"""Runs map and reduce tasks whose chunks are in a directory that all workers share."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tidyberg.execute.kernel.shuffle.chunk_files import (
    ChunkFileWriter,
    ChunkReader,
    closing_chunk_file,
    naming_scratch,
)
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import (
    Chunk,
    ScratchMapResult,
    ScratchMapTask,
    ScratchReduceResult,
    ScratchReduceTask,
    ShuffleAttempt,
)
from tidyberg.storage.file_io import Storage

_BUFFER = 1024 * 1024


def map_to_scratch(
    task: ScratchMapTask, number: int, storage: Storage, should_stop: Callable[[], bool]
) -> ScratchMapResult:
    """Runs a map task. Its chunks count only if the driver gets the result, which names the file of this attempt."""
    path = Path(task.directory) / f"map-{task.number:06d}-a{number:02d}"
    attempt = ShuffleAttempt(number, storage, should_stop, task.memory_bytes)
    try:
        with naming_scratch(str(path)):
            file = path.open("wb", buffering=_BUFFER)
        with closing_chunk_file(file, str(path)):
            writer = ChunkFileWriter(file, str(path), task.partitions)
            report = send_chunks(task.task.chunks(attempt), should_stop, lambda n, c: writer.add(c, task.number, n))
            writer.finish()
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    files = {partition: file for partition in range(task.partitions) for file in writer.files(partition)}
    return ScratchMapResult(task.job_id, task.group_id, task.number, files, report)


def reduce_from_scratch(
    task: ScratchReduceTask, number: int, storage: Storage, should_stop: Callable[[], bool]
) -> ScratchReduceResult:
    attempt = ShuffleAttempt(number, storage, should_stop, task.memory_bytes)
    result = task.task.reduce(ChunkReader(task.files), attempt)
    return ScratchReduceResult(task.job_id, task.group_id, task.number, result)


def send_chunks(chunks: Any, should_stop: Callable[[], bool], send: Callable[[int, Chunk], None]) -> Any:
    """Passes each chunk with its number to `send`. Returns the report of the map task."""
    number = 0
    with closing(chunks):
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as end:
                return end.value
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            send(number, chunk)
            number += 1
