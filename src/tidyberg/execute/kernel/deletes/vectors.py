"""Reads deletion vectors from Puffin files. One file may hold thousands, so one request fetches several."""

from collections.abc import Iterable, Iterator, Sequence

from tidyberg.execute.kernel.read.open_files import MB
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete
from tidyberg.storage.file_io import Storage

# Reading this many unneeded bytes takes as long as one more request.
_GAP_BYTES = MB // 4
_READ_BYTES = 16 * MB

Vectors = tuple[TaskDelete, ...]


def coalesced_reads(vectors: Iterable[TaskDelete]) -> Iterator[Vectors]:
    """Groups the vectors that one request should fetch. A vector whose bytes came with the task is alone."""
    together: list[TaskDelete] = []
    for vector in sorted(vectors, key=lambda vector: (vector.path, *_range(vector))):
        if together and not _belongs(vector, together):
            yield tuple(together)
            together = []
        together.append(vector)
    if together:
        yield tuple(together)


def read_vectors(storage: Storage, vectors: Sequence[TaskDelete]) -> list[bytes]:
    """Returns the blobs of a group of vectors from `coalesced_reads`."""
    first = vectors[0]
    if first.content is not None:
        return [first.content]
    start = _range(first)[0]
    end = max(offset + size for offset, size in map(_range, vectors))
    content = storage.read_range(storage.place(first.path), start, end - start).to_pybytes()
    return [content[offset - start : offset - start + size] for offset, size in map(_range, vectors)]


def _belongs(vector: TaskDelete, together: Sequence[TaskDelete]) -> bool:
    first, last = together[0], together[-1]
    if vector.path != first.path or vector.content is not None or first.content is not None:
        return False
    offset, size = _range(vector)
    return offset - sum(_range(last)) <= _GAP_BYTES and offset + size - _range(first)[0] <= _READ_BYTES


def _range(vector: TaskDelete) -> tuple[int, int]:
    offset, size = vector.content_offset, vector.content_size
    if offset is None or size is None or offset < 0 or size < 0:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"The manifest does not give the offset and size of a deletion vector in {vector.path}.",
        )
    return offset, size
