"""Lists parts of a directory on executors."""

from collections.abc import Callable

import pyarrow as pa

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.manifests.arrow_ipc import pack_table
from tidyberg.model.task import ListResult, ListTask
from tidyberg.storage.file_io import Storage
from tidyberg.storage.listing import PartListing


def list_files(task: ListTask, storage: Storage, should_stop: Callable[[], bool]) -> ListResult:
    def check() -> None:
        if should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")

    listing = PartListing(storage, task.root, task.limit, check)
    files = pa.concat_tables(list(listing.tables(task.parts)))
    return ListResult(task.job_id, task.group_id, pack_table(files), tuple(listing.rest))
