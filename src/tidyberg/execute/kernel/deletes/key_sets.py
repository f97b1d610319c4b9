"""The equality deletes of a task by the columns that they name, and how their keys are looked up in a file."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.deletes.key_memory import expected_matcher_bytes
from tidyberg.execute.kernel.read.open_files import MB, OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import AuditTask, Task, TaskDelete

_NONE: Positions = np.empty(0, np.int64)
_LOOKUP_BYTES = 32 * MB  # data rows per look-up: each look-up has to prepare all deleted keys


@dataclass(frozen=True)
class KeySet:
    """The equality deletes of one set of columns."""

    schema: pa.Schema
    deletes: tuple[TaskDelete, ...]
    latest: int  # sequence number: the deletes do not apply to data files from here on

    @property
    def memory_bytes(self) -> int:
        """Estimates the memory of one look-up of all keys."""
        return sum(expected_matcher_bytes(delete, self.schema) for delete in self.deletes)


def key_sets(task: Task | AuditTask) -> list[KeySet]:
    by_ids: dict[tuple[int, ...], list[TaskDelete]] = defaultdict(list)
    for delete in task.deletes:
        if delete.kind == "equality":
            by_ids[delete.equality_ids].append(delete)
    return [
        KeySet(
            pa.ipc.read_schema(pa.BufferReader(task.equality_schemas[ids])),
            tuple(deletes),
            max(delete.sequence_number for delete in deletes),
        )
        for ids, deletes in by_ids.items()
    ]


def matching_rows(matcher: EqualityDeletes, file: OpenFile, reader: Reader) -> Positions:
    """Returns the sorted positions of the task's rows of a file that have deleted keys. Leaves the file open."""
    offset = file.first_row
    found = []
    for keys in _gather(reader.scan(file, reader.selection(file))):
        columns = [leaf.of(keys) for leaf in leaves(keys.schema)]
        found.append(matcher.positions(columns, file.input.sequence_number) + offset)
        offset += keys.num_rows
    return np.concatenate(found) if found else _NONE


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _LOOKUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
