"""Writes chunks to a file, one after the other, and reads those of one partition again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import IO

import pyarrow as pa

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import MAX_CHUNK_BYTES, ArrivedChunk, Chunk, ScratchFile

_FULL = "The directory for temporary files is on a full disk, or it is gone. Set TMPDIR to one with more space."


class ChunkFileWriter:
    """Appends chunks to a file, and knows where each one is."""

    def __init__(self, file: IO[bytes], path: str, partitions: int) -> None:
        self._file = file
        self._path = path
        self._partitions = partitions
        self._end = 0
        self._places: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}

    def add(self, chunk: Chunk, map_number: int, sequence: int) -> None:
        """`sequence` is the number of the chunk among those of its map task."""
        size = refuse_bad_chunk(chunk, self._partitions)
        with naming_scratch(self._path):
            self._file.write(chunk.data)
        place = (sequence, chunk.tag, self._end, size)
        self._places.setdefault((chunk.partition, map_number), []).append(place)
        self._end += size

    def finish(self) -> None:
        with naming_scratch(self._path):
            self._file.flush()

    def files(self, partition: int) -> tuple[ScratchFile, ...]:
        """The chunks of one partition, by map number and in the order in which they were sent."""
        return tuple(
            ScratchFile(number, self._path, tuple(place[1:] for place in sorted(self._places[partition, number])))
            for number in sorted(number for one, number in self._places if one == partition)
        )


class ChunkReader:
    """Reads the chunks of one partition from files."""

    def __init__(self, files: Sequence[ScratchFile]) -> None:
        self._files = files

    @property
    def bytes_by_tag(self) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for file in self._files:
            for tag, _, size in file.places:
                sizes[tag] = sizes.get(tag, 0) + size
        return dict(sorted(sizes.items(), key=itemgetter(0)))

    def __iter__(self) -> Iterator[ArrivedChunk]:
        return self._read(None)

    def tagged(self, tag: int) -> Iterator[ArrivedChunk]:
        return self._read(tag)

    def _read(self, wanted: int | None) -> Iterator[ArrivedChunk]:
        for file in self._files:
            places = [place for place in file.places if wanted is None or place[0] == wanted]
            if not places:
                continue
            with naming_scratch(file.path), pa.OSFile(file.path) as source:
                for tag, offset, size in places:
                    source.seek(offset)
                    data = source.read_buffer(size)
                    if data.size != size:
                        raise OSError(f"{data.size} of {size} bytes could be read at {offset}")
                    yield ArrivedChunk(file.map_number, tag, data)


def refuse_bad_chunk(chunk: Chunk, partitions: int) -> int:
    """Returns the size of a chunk. Raises if it is too large, or if its partition does not exist."""
    size = len(chunk.data) if isinstance(chunk.data, bytes) else chunk.data.size
    if size > MAX_CHUNK_BYTES:
        raise KernelFailure(
            FailureKind.TOO_LARGE,
            f"A chunk of {size:,} bytes cannot be shuffled; the limit is {MAX_CHUNK_BYTES:,}. "
            "A row of the table is probably that large.",
        )
    if not 0 <= chunk.partition < partitions:
        raise ValueError(f"a chunk for partition {chunk.partition} of {partitions}")
    return size


@contextmanager
def closing_chunk_file(file: IO[bytes], path: str) -> Iterator[None]:
    """Closes a file at the end. On a full disk that fails as well, and must not hide the failure before it."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    with naming_scratch(path):
        file.close()


@contextmanager
def naming_scratch(path: str) -> Iterator[None]:
    """Turns errors of a scratch file into failures that name its directory."""
    try:
        yield
    except OSError as error:
        raise KernelFailure(
            FailureKind.STORAGE, f"Chunks of a shuffle could not be kept in {Path(path).parent}: {error}. {_FULL}"
        ) from error
