"""Finds the deleted rows of a task's files: every kind of delete becomes row positions in a file."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.deletes.delete_files import DeleteFileReader, sorted_unique
from tidyberg.execute.kernel.deletes.joined_rows import JoinedRows
from tidyberg.execute.kernel.deletes.key_bounds import cannot_match
from tidyberg.execute.kernel.deletes.key_sets import KeySet, key_sets, matching_rows
from tidyberg.execute.kernel.deletes.keys_in_parts import KeysInParts
from tidyberg.execute.kernel.deletes.vectors import coalesced_reads
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import AuditTask, Task, TaskDelete, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched

Positions = npt.NDArray[np.int64]

_NONE: Positions = np.empty(0, np.int64)
_READ_AHEAD = 8


class DeletedRows:
    """The deleted rows of a task's files. Position deletes and vectors are read at once, keys are matched per file."""

    def __init__(
        self,
        task: Task | AuditTask,
        storage: Storage,
        should_stop: Callable[[], bool],
        *,
        trusts_bounds: bool = False,
        key_memory_bytes: int | None = None,
    ) -> None:
        """With `trusts_bounds`, keys are not looked up in a file whose footer shows that it has none of them.

        `key_memory_bytes` is the most memory that look-ups of deleted keys may take. If all keys would take more, they
        are looked up in parts. None: they are looked up at once.
        """
        self._trusts_bounds = trusts_bounds
        self._task = task
        self._storage = storage
        self._should_stop = should_stop
        self._files = DeleteFileReader(storage, task.batch_rows, should_stop)
        self._key_sets = [(key_set, self._reader(key_set)) for key_set in key_sets(task)]
        self._in_parts = self._divided(key_memory_bytes)
        joined = [delete for delete in task.deletes if delete.kind == "joined"]
        self._joined = JoinedRows(joined, task.inputs, self._files)
        self._by_position = self._vectors()
        self._by_position |= self._position_deletes(without=self._by_position.keys())
        self._to_come = sum(map(self._expected, task.inputs))
        self._seen_expected = self._seen_surviving = 0

    def positions(self, file: OpenFile) -> Positions:
        """Returns the sorted positions of deleted rows among the task's rows of the file. Leaves the file open."""
        known = self.known_positions(file.input.path)
        if len(known):
            begin, end = np.searchsorted(known, [file.first_row, file.end_row])
            known = known[begin:end]
        found = [known]
        if self._in_parts:
            found += [keys.positions(file.input.path) for keys in self._in_parts]
        else:
            found += [
                self._matches(file, key_set, reader)
                for key_set, reader in self._key_sets
                if file.input.sequence_number < key_set.latest  # I3
            ]
        deleted = _united(found)
        self._to_come -= self._expected(file.input)
        self._seen_expected += file.end_row - file.first_row - len(known)
        self._seen_surviving += file.end_row - file.first_row - len(deleted)
        return deleted

    def may_delete_from(self, file: TaskInput) -> bool:
        """Whether deletes may apply to rows of the file, decided before it is opened."""
        has_positions = len(self._by_position.get(file.path, _NONE)) > 0
        return has_positions or self._joined.may_delete_from(file) or self.may_match_keys(file)

    def known_positions(self, path: str) -> Positions:
        """Returns the rows that position deletes, vectors and joins remove, without opening the file."""
        return _united([self._by_position.get(path, _NONE), self._joined.positions(path)])

    def may_match_keys(self, file: TaskInput) -> bool:
        """Whether equality deletes may apply to rows of the file, so that its columns must be read."""
        return any(file.sequence_number < key_set.latest for key_set, _ in self._key_sets)

    @property
    def surviving_rows(self) -> int:
        """Estimates the rows that the task will write. Files read so far show how much equality deletes remove."""
        share = self._seen_surviving / self._seen_expected if self._seen_expected else 1.0
        return self._seen_surviving + round(self._to_come * share)

    def _expected(self, file: TaskInput) -> int:
        """Estimates the surviving rows of a file before it is opened."""
        known = min(file.records, len(self._by_position.get(file.path, _NONE)) + self._joined.count(file.path))
        return file.rows_expected - known * file.rows_expected // max(1, file.records)

    def _vectors(self) -> dict[str, Positions]:
        by_path: dict[str, TaskDelete] = {}
        inputs = {file.path: file for file in self._task.inputs}
        for delete in self._task.deletes:
            if delete.kind != "dv":
                continue
            if delete.referenced_data_file is None:
                raise KernelFailure(
                    FailureKind.DAMAGED,
                    f"The manifest does not name the data file of the deletion vector in {delete.path}.",
                )
            file = inputs.get(delete.referenced_data_file)
            if file is None or not _applies(delete, file):
                continue
            if file.path in by_path:
                raise KernelFailure(FailureKind.DAMAGED, f"{file.path} has two deletion vectors; the spec allows one.")
            by_path[file.path] = delete
        reads = list(coalesced_reads(by_path.values()))
        found: dict[str, Positions] = {}
        with closing(prefetched(self._files.deletion_vectors, reads, _READ_AHEAD)) as read:
            for vectors, many in zip(reads, read, strict=True):
                for delete, positions in zip(vectors, many, strict=True):
                    assert delete.referenced_data_file is not None
                    file = inputs[delete.referenced_data_file]
                    found[file.path] = _checked_positions(file, positions, delete)
        return found

    def _position_deletes(self, *, without: Iterable[str]) -> dict[str, Positions]:
        # Spec: if a deletion vector applies to a file, its position delete files are ignored.
        vectors = set(without)
        inputs = {file.path: file for file in self._task.inputs if file.path not in vectors}
        deletes = [delete for delete in self._task.deletes if delete.kind == "position" and _may_apply(delete, inputs)]
        read_one = partial(self._files.positions, paths=inputs.keys())
        parts: dict[str, list[Positions]] = defaultdict(list)
        in_memory = all(delete.content is not None for delete in deletes)
        with closing(prefetched(read_one, deletes, 0 if in_memory else _READ_AHEAD)) as read:
            for delete, by_path in zip(deletes, read, strict=True):
                for path in inputs.keys() & by_path.keys():
                    if _applies(delete, inputs[path]):
                        parts[path].append(_checked_positions(inputs[path], by_path[path], delete))
        return {
            path: some[0] if len(some) == 1 else sorted_unique(np.concatenate(some)) for path, some in parts.items()
        }

    def _divided(self, memory_bytes: int | None) -> list[KeysInParts]:
        if memory_bytes is None or sum(key_set.memory_bytes for key_set, _ in self._key_sets) <= memory_bytes:
            return []
        return [
            KeysInParts(key_set, self._task.inputs, reader, self._files, self._storage, memory_bytes)
            for key_set, reader in self._key_sets
        ]

    def _reader(self, key_set: KeySet) -> Reader:
        return Reader(
            self._storage,
            key_set.schema,
            batch_rows=self._task.batch_rows,
            constants=self._task.constants,
            should_stop=self._should_stop,
            name_mapping=self._task.name_mapping,
        )

    def _matches(self, file: OpenFile, key_set: KeySet, reader: Reader) -> Positions:
        matcher = self._files.matcher(key_set.deletes, key_set.schema)
        if self._trusts_bounds and cannot_match(file, reader, key_set.schema, self._task.constants, matcher):
            return _NONE
        return matching_rows(matcher, file, reader)


def _united(found: Iterable[Positions]) -> Positions:
    some = [positions for positions in found if len(positions)]
    return some[0] if len(some) == 1 else np.unique(np.concatenate(some)) if some else _NONE


def _may_apply(delete: TaskDelete, inputs: Mapping[str, TaskInput]) -> bool:
    """Whether a position delete file may apply to one of the inputs, and so must be read."""
    if delete.referenced_data_file is None:
        return any(_applies(delete, file) for file in inputs.values())
    file = inputs.get(delete.referenced_data_file)
    return file is not None and _applies(delete, file)


def _applies(delete: TaskDelete, file: TaskInput) -> bool:
    """I3 for deletes by position: a commit may delete rows of files that it adds itself."""
    return file.sequence_number <= delete.sequence_number and delete.referenced_data_file in (None, file.path)


def _checked_positions(file: TaskInput, positions: Positions, delete: TaskDelete) -> Positions:
    if len(positions) and (positions[0] < 0 or positions[-1] >= file.records):
        wrong = positions[0] if positions[0] < 0 else positions[-1]
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"{delete.path} deletes row {wrong} of {file.path}, which has {file.records} rows.",
        )
    return positions


def without_rows(batch: pa.RecordBatch, first: int, deleted: Positions) -> pa.RecordBatch:
    """Removes the deleted rows from a batch that begins at row `first` of its file."""
    begin, end = np.searchsorted(deleted, [first, first + batch.num_rows])
    if begin == end:
        return batch
    mask = np.ones(batch.num_rows, np.bool_)
    mask[deleted[begin:end] - first] = False
    kept = pa.array(mask)
    # For a whole batch Arrow converts the mask to row numbers, which is a quarter slower if most rows stay.
    columns = [_without_bitmap(column).filter(kept) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _without_bitmap(column: pa.Array) -> pa.Array:
    """Drops the validity bitmap of a column without nulls: filtering it takes longer than filtering the values."""
    if column.null_count or not pa.types.is_primitive(column.type):
        return column
    validity, *others = column.buffers()
    if validity is None:
        return column
    return pa.Array.from_buffers(column.type, len(column), [None, *others], 0, column.offset)
