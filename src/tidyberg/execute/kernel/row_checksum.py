"""Computes the checksum of the rows of files, and checks the order that they claim, for full verification."""

from collections.abc import Callable

from tidyberg.execute.kernel.attempt import table_schema
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.deletes.surviving_rows import batches_with_positions
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.read.open_files import open_prefetched
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import ChecksumTask
from tidyberg.storage.file_io import Storage


def checksum_rows(
    task: ChecksumTask, storage: Storage, should_stop: Callable[[], bool]
) -> tuple[int, str, tuple[str, ...]]:
    """Returns the number of rows in the files, their checksum, and which files are not in the order they claim."""
    schema = table_schema(task)
    reader = Reader(
        storage,
        schema,
        batch_rows=task.batch_rows,
        constants={},
        should_stop=should_stop,
        name_mapping={},
        joins=False,
        cores=1,
    )
    checksum = RowChecksum()
    rows = 0
    unsorted: list[str] = []
    for file in open_prefetched(storage, task.inputs):
        check = OrderCheck(schema, task.sort_key) if task.sort_key is not None else None
        for _, batch in batches_with_positions(task, reader, file, reader.selection(file)):
            checksum.update(batch)
            rows += batch.num_rows
            if check is not None:
                check.add(batch)
        if check is not None and check.first_wrong is not None:
            unsorted.append(
                f"{file.input.path}: row {check.first_wrong} is less than the row before it, but the manifest would "
                f"claim sort order {task.sort_key.order_id if task.sort_key else None}"
            )
    return rows, checksum.hexdigest(), tuple(unsorted)
