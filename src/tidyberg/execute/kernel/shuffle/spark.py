"""Runs map and reduce tasks in Spark's Python workers, between which Spark's own shuffle moves the chunks.

Failures that a retry cannot fix travel as rows, like chunks. Every reduce task then passes them on and does nothing.
"""

import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from tidyberg.execute.kernel.shuffle.chunk_files import (
    ChunkFileWriter,
    ChunkReader,
    closing_chunk_file,
    refuse_bad_chunk,
)
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import Chunk, ShuffleAttempt, ShuffleJob
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage

# Which row is what. A row of chunks names the Spark partition that it travels to, and the reduce task that reads it.
CHUNK, REPORT, FAILURE, RESULT = range(4)
ROW_SCHEMA = "target int, kind int, reduce int, map int, sequence int, tag int, data binary"
_COLUMNS = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in ("target", "kind", "reduce", "map", "sequence", "tag")),
        pa.field("data", pa.binary()),
    ]
)


def map_rows(
    packed: bytes, numbers: Iterable[int], targets: int, attempt: int, storage: StorageAccess
) -> Iterator[pa.RecordBatch]:
    """Runs map tasks. Yields their chunks, and the report of each as a row for one of the Spark partitions."""
    job = unpack_job(packed)
    try:
        for number in numbers:
            yield from _chunk_rows(job, number, targets, ShuffleAttempt(attempt, Storage(storage), _never))
    except KernelFailure as failure:
        if failure.kind is FailureKind.STORAGE:
            raise  # Spark tries again
        told = pickle.dumps(KernelFailure(failure.kind, failure.message))
        for target in range(targets):
            yield _row(target, FAILURE, told)


def _chunk_rows(job: ShuffleJob, number: int, targets: int, attempt: ShuffleAttempt) -> Iterator[pa.RecordBatch]:
    chunks = job.maps[number].chunks(attempt)
    sequence = 0
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as end:
            yield _row(number % targets, REPORT, pickle.dumps(end.value, pickle.HIGHEST_PROTOCOL), number=number)
            return
        refuse_bad_chunk(chunk, len(job.reduces))
        target = chunk.partition % targets
        yield _row(target, CHUNK, chunk.data, chunk.partition, number, sequence, chunk.tag)
        sequence += 1


def reduce_rows(
    packed: bytes, arrived: Iterable[pa.RecordBatch], target: int, targets: int, attempt: int, storage: StorageAccess
) -> Iterator[pa.RecordBatch]:
    """Keeps arriving chunks in a temporary file, then runs the reduce tasks of this Spark partition."""
    job = unpack_job(packed)
    with (
        tempfile.NamedTemporaryFile(dir=_directory(), prefix="tidyberg-chunks-") as file,
        closing_chunk_file(file, file.name),
    ):
        writer = ChunkFileWriter(file.file, file.name, len(job.reduces))
        others = list(_keep_chunks(arrived, writer, target))
        yield from others
        if any(row["kind"][0].as_py() == FAILURE for row in others):
            return
        writer.finish()
        numbers = range(target, len(job.reduces), targets)
        for number in numbers:
            yield _reduced(job, number, writer, ShuffleAttempt(attempt, Storage(storage), _never))


def _keep_chunks(arrived: Iterable[pa.RecordBatch], writer: ChunkFileWriter, target: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows that are not chunks."""
    for batch in arrived:
        columns = [batch.column(index).to_pylist() for index in range(6)]
        for position, (sent_to, kind, reduce, number, sequence, tag) in enumerate(zip(*columns, strict=True)):
            if sent_to != target:
                raise RuntimeError(f"Spark brought a chunk for partition {sent_to} to partition {target}.")
            data = batch.column(6)[position].as_buffer()
            if kind == CHUNK:
                writer.add(Chunk(reduce, data, tag), number, sequence)
            else:
                yield _row(target, kind, data, number=number)


def _reduced(job: ShuffleJob, number: int, writer: ChunkFileWriter, attempt: ShuffleAttempt) -> pa.RecordBatch:
    try:
        result = job.reduces[number].reduce(ChunkReader(writer.files(number)), attempt)
    except KernelFailure as failure:
        if failure.kind is FailureKind.STORAGE:
            raise
        return _row(0, FAILURE, pickle.dumps(KernelFailure(failure.kind, failure.message)))
    return _row(0, RESULT, pickle.dumps(result, pickle.HIGHEST_PROTOCOL), number)


def _row(
    target: int, kind: int, data: bytes | pa.Buffer, reduce: int = 0, number: int = 0, sequence: int = 0, tag: int = 0
) -> pa.RecordBatch:
    values = (target, kind, reduce, number, sequence, tag)
    size = len(data) if isinstance(data, bytes) else data.size
    offsets = pa.py_buffer(size.to_bytes(4, sys.byteorder).rjust(8, b"\0"))
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])  # without a copy
    return pa.RecordBatch.from_arrays([*(pa.array([value], pa.int32()) for value in values), binary], schema=_COLUMNS)


def pack_job(job: ShuffleJob) -> bytes:
    """Tasks of a job share most of their fields. So they are packed together, and each worker unpacks all of them."""
    return zlib.compress(pickle.dumps(job, pickle.HIGHEST_PROTOCOL), 6)


def unpack_job(packed: bytes) -> ShuffleJob:
    job = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by our own driver
    assert isinstance(job, ShuffleJob)
    return job


def _directory() -> str | None:
    """Spark's own directory for temporary data, which it removes, or None: that of the system."""
    directories = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((directory for directory in directories if directory and Path(directory).is_dir()), None)


def _never() -> bool:
    return False
