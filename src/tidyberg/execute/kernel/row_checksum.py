"""Computes the checksum of the rows of files, for full verification."""

from collections.abc import Callable

from tidyberg.execute.kernel.attempt import table_schema
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.deletes.surviving_rows import batches_with_positions
from tidyberg.execute.kernel.read.open_files import open_prefetched
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import ChecksumTask
from tidyberg.storage.file_io import Storage


def checksum_rows(task: ChecksumTask, storage: Storage, should_stop: Callable[[], bool]) -> tuple[int, str]:
    """Returns the number of rows in the files, and their checksum."""
    reader = Reader(
        storage,
        table_schema(task),
        batch_rows=task.batch_rows,
        constants={},
        should_stop=should_stop,
        name_mapping={},
        joins=False,
        cores=1,
    )
    checksum = RowChecksum()
    rows = 0
    for file in open_prefetched(storage, task.inputs):
        for _, batch in batches_with_positions(task, reader, file, reader.selection(file)):
            checksum.update(batch)
            rows += batch.num_rows
    return rows, checksum.hexdigest()
