"""Hashes the rows of files for an audit: sums per part, or single rows.

The hash of a row decides which part it belongs to. If two states of a table differ in a few parts only, the audit
compares only the rows of those parts one by one.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.columns.checksum import Hashes, row_hashes
from tidyberg.execute.kernel.columns.lineage import fill_lineage, with_lineage
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows, Positions
from tidyberg.execute.kernel.read.open_files import OpenFile, open_prefetched
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import AuditResult, AuditTask
from tidyberg.storage.file_io import Storage

PARTS = 1024
ROW = np.dtype([("first", np.uint64), ("second", np.uint64), ("position", np.int64), ("deleted", np.bool_)])

_Rows = npt.NDArray[np.void]


def audit_files(task: AuditTask, storage: Storage, should_stop: Callable[[], bool]) -> AuditResult:
    """Returns the sums of all parts, or the rows of `task.parts` if it is set."""
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    reader = Reader(
        storage,
        with_lineage(schema) if task.lineage else schema,
        batch_rows=task.batch_rows,
        constants=task.constants,
        name_mapping=task.name_mapping,
        should_stop=should_stop,
    )
    deleted_rows = DeletedRows(task, storage, should_stop, key_memory_bytes=task.key_memory_bytes)
    wanted = None if task.parts is None else np.isin(np.arange(PARTS), task.parts)
    sums = np.zeros((3, PARTS), np.uint64)
    hashes = []
    rows = rows_deleted = 0
    for file in open_prefetched(storage, task.inputs):
        deleted = deleted_rows.positions(file)
        rows += file.input.records - len(deleted)
        rows_deleted += len(deleted)
        kept = []
        for some in _hashed_rows(reader, file, deleted, lineage=task.lineage):
            if wanted is None:
                _add(sums, some[~some["deleted"]])
            else:
                kept.append(some[wanted[_part(some["second"])]])
        if wanted is not None:
            hashes.append(np.concatenate([np.empty(0, ROW), *kept]).tobytes())
    return AuditResult(
        task.job_id, task.group_id, rows, rows_deleted, b"" if hashes else sums.tobytes(), hashes=tuple(hashes)
    )


def read_sums(result: AuditResult) -> Hashes:
    return np.frombuffer(result.sums, np.uint64).reshape(3, PARTS)


def read_rows(hashes: bytes) -> _Rows:
    return np.frombuffer(hashes, ROW)


def _hashed_rows(reader: Reader, file: OpenFile, deleted: Positions, *, lineage: bool) -> Iterator[_Rows]:
    first_row = 0
    for stored in reader.batches(file, reader.selection(file)):
        batch = fill_lineage(stored, file.input, first_row) if lineage else stored
        for first, second in row_hashes(batch):
            some = np.empty(len(first), ROW)
            some["first"], some["second"] = first, second
            some["position"] = np.arange(first_row, first_row + len(first))
            some["deleted"] = False
            begin, end = np.searchsorted(deleted, [first_row, first_row + len(first)])
            some["deleted"][deleted[begin:end] - first_row] = True
            first_row += len(first)
            yield some


def _add(sums: Hashes, rows: _Rows) -> None:
    parts = _part(rows["second"])
    np.add.at(sums[0], parts, np.uint64(1))
    np.add.at(sums[1], parts, rows["first"])
    np.add.at(sums[2], parts, rows["second"])


def _part(lane: Hashes) -> npt.NDArray[np.int64]:
    return (lane % np.uint64(PARTS)).astype(np.int64)
