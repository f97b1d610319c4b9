"""Joins one part of the key space: finds the rows whose keys were deleted later, and writes their positions."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Protocol

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.deletes.join.chunks import (
    DELETES,
    ROWS,
    decoded,
    encoded,
    gathered_tables,
    hashes_of,
    key_columns,
    newest_only,
    part_of,
    places,
    sequence_numbers,
)
from tidyberg.execute.kernel.deletes.join.found_rows import FoundRows, FoundRowsWriter
from tidyberg.execute.kernel.deletes.join.scratch_files import ScratchPlace
from tidyberg.execute.kernel.deletes.key_memory import matcher_bytes
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ArrivedChunks, ShuffleAttempt

_LOOKUP_BYTES = 32 * 1024 * 1024  # rows per look-up: each has to prepare all deleted keys
_SUBPARTS = 8
_MOST_LEVELS = 6  # 8**6 times the planned memory: a part that is still too large is joined as it is
_SPOOL_BYTES = 1024 * 1024  # in memory before a file is used


@dataclass(frozen=True, slots=True)
class KeyJoinReport:
    files: tuple[FoundRows, ...]
    rows: int  # found
    divisions: int  # how often a part was too large and had to be divided
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class KeyJoin:
    """A reduce task."""

    place: ScratchPlace
    part: int
    memory_bytes: int  # the most that the look-up of the deleted keys may take

    def reduce(self, chunks: ArrivedChunks, attempt: ShuffleAttempt) -> KeyJoinReport:
        writer = FoundRowsWriter(self.place, self.part, attempt)
        join = _Join(writer, attempt, min(self.memory_bytes, attempt.memory_bytes or self.memory_bytes))
        join.run(_Arrived(chunks), level=1)
        files = writer.finish()
        return KeyJoinReport(files, sum(file.records for file in files), join.divisions, peak_rss_bytes())


class _Side(Protocol):
    """Both sides of a part. They can be read several times."""

    def deletes(self) -> Iterator[pa.Table]: ...
    def rows(self) -> Iterator[pa.Table]: ...


class _Arrived:
    def __init__(self, chunks: ArrivedChunks) -> None:
        self._chunks = chunks

    def deletes(self) -> Iterator[pa.Table]:
        return (decoded(chunk.data) for chunk in self._chunks.tagged(DELETES))

    def rows(self) -> Iterator[pa.Table]:
        return (decoded(chunk.data) for chunk in self._chunks.tagged(ROWS))


class _Join:
    def __init__(self, writer: FoundRowsWriter, attempt: ShuffleAttempt, memory_bytes: int) -> None:
        self.divisions = 0
        self._writer = writer
        self._attempt = attempt
        self._memory_bytes = memory_bytes

    def run(self, part: _Side, level: int) -> None:
        deletes = self._newest(part.deletes(), stops=level <= _MOST_LEVELS)
        if deletes is None:
            self.divisions += 1
            with ExitStack() as stack:
                subparts = [stack.enter_context(_spooled()) for _ in range(_SUBPARTS)]
                self._divide(part.deletes(), [subpart.deletes_spool for subpart in subparts], level)
                self._divide(part.rows(), [subpart.rows_spool for subpart in subparts], level)
                for subpart in subparts:
                    self.run(subpart, level + 1)
            return
        if not deletes.num_rows:
            return
        matcher = EqualityDeletes([key_columns(deletes)], [sequence_numbers(deletes)])
        for rows in gathered_tables(part.rows(), _LOOKUP_BYTES):
            self._raise_if_stopped()
            found = matcher.positions(key_columns(rows), sequence_numbers(rows))  # I3: row by row
            paths, positions = places(rows)
            self._writer.add(paths.take(pa.array(found)), positions[found])

    def _newest(self, tables: Iterable[pa.Table], *, stops: bool) -> pa.Table | None:
        """Returns the deleted keys, each once if they are many. None: the part must be divided."""
        some: list[pa.Table] = []
        size = 0
        for table in tables:
            self._raise_if_stopped()
            some.append(table)
            size += matcher_bytes(table.num_rows, table.nbytes)
            if size > self._memory_bytes:
                some = [newest_only(pa.concat_tables(some))]
                size = matcher_bytes(some[0].num_rows, some[0].nbytes)
                # Half of the memory must become free each time. Otherwise every further table would be grouped again.
                if stops and 2 * size > self._memory_bytes:
                    return None
        return pa.concat_tables(some) if some else pa.table({})

    def _divide(self, tables: Iterable[pa.Table], spools: "list[_Spool]", level: int) -> None:
        for table in tables:
            self._raise_if_stopped()
            numbers = part_of(hashes_of(table), _SUBPARTS, level)
            for number in np.unique(numbers).tolist():
                spools[number].append(encoded(table.filter(pa.array(numbers == number))))

    def _raise_if_stopped(self) -> None:
        if self._attempt.should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")


class _Spool:
    """Chunks in memory, or in a temporary file if they are many."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def append(self, chunk: pa.Buffer) -> None:
        with _naming_directory():
            self._file.write(chunk.size.to_bytes(8, "little"))
            self._file.write(memoryview(chunk))

    def tables(self) -> Iterator[pa.Table]:
        place = 0
        while True:
            with _naming_directory():
                self._file.seek(place)
                header = self._file.read(8)
                if not header:
                    return
                data = self._file.read(int.from_bytes(header, "little"))
            place += len(header) + len(data)
            yield decoded(data)


@dataclass(frozen=True)
class _Subpart:
    deletes_spool: _Spool
    rows_spool: _Spool

    def deletes(self) -> Iterator[pa.Table]:
        return self.deletes_spool.tables()

    def rows(self) -> Iterator[pa.Table]:
        return self.rows_spool.tables()


@contextmanager
def _spooled() -> Iterator[_Subpart]:
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as deletes, tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as rows:
        yield _Subpart(_Spool(deletes), _Spool(rows))


@contextmanager
def _naming_directory() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KernelFailure(
            FailureKind.STORAGE,
            f"Keys of a join could not be kept in {tempfile.gettempdir()}: {error}. "
            "Set TMPDIR to a directory with more space.",
        ) from error
