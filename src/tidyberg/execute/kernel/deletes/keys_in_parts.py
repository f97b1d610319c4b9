"""Looks up more deleted keys than fit into memory, a part of them at a time.

Rewrites join such keys with the rows on the engine, and write what they find beside the table. This is for tasks that
only read. Each delete file is read once per task, and the key columns of the task's files once per part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.delete_files import DeleteFileReader
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.deletes.key_memory import BYTES_PER_KEY, matcher_bytes
from tidyberg.execute.kernel.deletes.key_sets import KeySet, matching_rows
from tidyberg.execute.kernel.deletes.row_bits import RowBits
from tidyberg.execute.kernel.read.open_files import open_file
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Storage

_Keys = tuple[pa.Table, int]  # with the sequence number of their delete


@dataclass(frozen=True)
class KeysInParts:
    """The rows that the deletes of one key set remove from a task's files."""

    key_set: KeySet
    inputs: Sequence[TaskInput]
    reader: Reader  # of the key columns
    deletes: DeleteFileReader
    storage: Storage
    memory_bytes: int  # the most that the look-up of one part may take

    def positions(self, path: str) -> Positions:
        return self._found.positions(path)

    @cached_property
    def _found(self) -> RowBits:
        found = RowBits()
        columns = leaves(self.key_set.schema)
        for part in self._parts():
            # A key may be in several parts. Its row is deleted if one of them has a later delete.
            matcher = EqualityDeletes(
                [[leaf.of(keys) for leaf in columns] for keys, _ in part], [number for _, number in part]
            )
            latest = max(number for _, number in part)
            part.clear()
            for file in self.inputs:
                if file.sequence_number < latest:  # I3
                    self._look_up(matcher, file, found)
            del matcher  # before the next part is read
        return found

    def _look_up(self, matcher: EqualityDeletes, file: TaskInput, found: RowBits) -> None:
        opened = open_file(self.storage, file)
        with opened.source:
            positions = matching_rows(matcher, opened, self.reader)
        if len(positions):
            found.add(file.path, file.records, positions)

    def _parts(self) -> Iterator[list[_Keys]]:
        waiting: list[_Keys] = []
        size = 0
        for delete in self.key_set.deletes:
            for keys in self._pieces(self.deletes.key_batches(delete, self.key_set.schema)):
                more = matcher_bytes(keys.num_rows, keys.nbytes)
                if waiting and size + more > self.memory_bytes:
                    yield waiting
                    waiting, size = [], 0
                waiting.append((keys, delete.sequence_number))
                size += more
        if waiting:
            yield waiting

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            if batch.num_rows:
                each = BYTES_PER_KEY + -(-batch.nbytes // batch.num_rows)
                rows = max(1, self.memory_bytes // each)
                for start in range(0, batch.num_rows, rows):
                    yield pa.Table.from_batches([batch.slice(start, rows)])
