"""Reads the rows of files as a reader of the table sees them: in its schema, and without deleted rows."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows, without_rows
from tidyberg.execute.kernel.read.open_files import open_prefetched
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import AuditTask
from tidyberg.storage.file_io import Storage


def live_rows(task: AuditTask, storage: Storage, should_stop: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    """Yields the live rows of the task's files, in batches of its schema."""
    reader = Reader(
        storage,
        pa.ipc.read_schema(pa.BufferReader(task.arrow_schema)),
        batch_rows=task.batch_rows,
        constants=task.constants,
        name_mapping=task.name_mapping,
        should_stop=should_stop,
    )
    deleted_rows = DeletedRows(task, storage, should_stop, key_memory_bytes=task.key_memory_bytes)
    for file in open_prefetched(storage, task.inputs):
        deleted = deleted_rows.positions(file)
        first = 0
        for batch in reader.batches(file, reader.selection(file)):
            yield without_rows(batch, first, deleted)
            first += batch.num_rows
