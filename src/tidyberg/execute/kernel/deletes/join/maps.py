"""Sends the keys of deletes and of rows to their parts. Keys that cannot match are left out."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.deletes.cache import SharedCache
from tidyberg.execute.kernel.deletes.join.chunks import DELETES, ROWS, Divider, deletes_batch, rows_batch
from tidyberg.execute.kernel.deletes.join.key_filter import KeyFilter
from tidyberg.execute.kernel.deletes.join.key_ranges import KeyRange, may_be_within, may_meet
from tidyberg.execute.kernel.deletes.join.keys import KeyBatch, KeyColumns, KeyReader
from tidyberg.execute.kernel.deletes.join.survey import StoredKeyFilter
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.model.shuffle import Chunk, ShuffleAttempt
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Storage

_filters = SharedCache(64 * 1024 * 1024)  # one per process: the tasks of a worker share a filter

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyMapReport:
    """How many keys of deletes and of rows were read, and how many of them may match."""

    keys_read: int
    keys_sent: int
    rows_read: int
    rows_sent: int
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class KeyMap:
    """A map task. Its parts are those of the reduce tasks."""

    columns: KeyColumns
    parts: int
    latest: int  # the highest sequence number of the deletes: they do not apply to data files from there on
    deletes: tuple[TaskInput, ...]
    rows: tuple[TaskInput, ...]
    deleted: tuple[KeyRange, ...]  # of all delete files
    stored: tuple[KeyRange, ...]  # of all data files
    key_filter: StoredKeyFilter | None = None

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return (*self.deletes, *self.rows)

    def chunks(self, attempt: ShuffleAttempt) -> Generator[Chunk, None, KeyMapReport]:
        run = _KeySender(self, KeyReader(self.columns, attempt.storage, attempt.should_stop))
        for delete in self.deletes:
            yield from run.deletes_of(delete)
        yield from run.deletes.flush()
        key_filter = _read_filter(self.key_filter, attempt.storage) if self.key_filter and self.rows else None
        for file in self.rows:
            if file.sequence_number < self.latest:  # I3
                yield from run.rows_of(file, key_filter)
        yield from run.rows.flush()
        return KeyMapReport(run.keys_read, run.keys_sent, run.rows_read, run.rows_sent, peak_rss_bytes())


class _KeySender:
    def __init__(self, task: KeyMap, reader: KeyReader) -> None:
        self.keys_read = self.keys_sent = self.rows_read = self.rows_sent = 0
        self.deletes = Divider(task.parts, DELETES)
        self.rows = Divider(task.parts, ROWS)
        self._task = task
        self._reader = reader

    def deletes_of(self, delete: TaskInput) -> Iterator[Chunk]:
        reader, stored = self._reader, self._task.stored
        file = reader.open_deletes(delete)
        with closing(file.source):
            if not may_meet(reader.deleted_ranges(file), stored):
                return
            for batch in reader.deleted_keys(file):
                self.keys_read += len(batch)
                kept = may_be_within(batch.columns, stored)
                columns, hashes = _chosen(batch, batch.hashes()[0], kept)
                self.keys_sent += len(hashes)
                if len(hashes):
                    yield from self.deletes.add(deletes_batch(columns, delete.sequence_number), hashes)

    def rows_of(self, row_file: TaskInput, key_filter: KeyFilter | None) -> Iterator[Chunk]:
        reader, deleted = self._reader, self._task.deleted
        file = reader.open_rows(row_file)
        with closing(file.source):
            if not may_meet(reader.row_ranges(file), deleted):
                return
            for batch in reader.row_keys(file):
                self.rows_read += len(batch)
                first, second = batch.hashes()
                kept = may_be_within(batch.columns, deleted)
                if key_filter is not None:
                    held = key_filter.may_hold(second)
                    kept = held if kept is None else kept & held
                columns, hashes = _chosen(batch, first, kept)
                self.rows_sent += len(hashes)
                if len(hashes):
                    places = np.arange(len(batch), dtype=np.int64) if kept is None else np.flatnonzero(kept)
                    found = rows_batch(columns, row_file.sequence_number, row_file.path, batch.first_row + places)
                    yield from self.rows.add(found, hashes)


def _chosen(
    batch: KeyBatch, hashes: npt.NDArray[np.uint64], kept: Mask | None
) -> tuple[list[pa.Array], npt.NDArray[np.uint64]]:
    if kept is None or kept.all():
        return batch.columns, hashes
    mask = pa.array(kept)
    return [column.filter(mask) for column in batch.columns], hashes[kept]


def _read_filter(stored: StoredKeyFilter, storage: Storage) -> KeyFilter:
    return _filters.get((storage.identity, stored.path), lambda: (stored.read(storage), stored.size))
