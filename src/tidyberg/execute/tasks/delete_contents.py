"""Puts the bytes of small delete files into tasks, so that each file is read once per job."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.deletes.delete_files import delete_bytes
from tidyberg.execute.kernel.deletes.vectors import coalesced_reads, read_vectors
from tidyberg.failures import KernelFailure
from tidyberg.model.task import AuditTask, Task, TaskDelete
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage

_MB = 1024 * 1024
_THREADS = 16

WithDeletes = TypeVar("WithDeletes", Task, AuditTask)
Blob = tuple[str, int | None, int | None]  # a file, or the deletion vector at an offset and with a size in it


def with_delete_contents(
    tasks: Sequence[WithDeletes], storage: StorageAccess, *, per_task: int = 10 * _MB, per_job: int = 64 * _MB
) -> list[WithDeletes]:
    """Return the tasks, and add the bytes of deletes to those with few. The workers of other tasks read theirs."""
    chosen = _small_tasks(tasks, per_task, per_job)
    contents = _read({_blob(delete): delete for position in chosen for delete in tasks[position].deletes}, storage)
    return [
        replace(task, deletes=tuple(replace(delete, content=contents[_blob(delete)]) for delete in task.deletes))
        if position in chosen
        else task
        for position, task in enumerate(tasks)
    ]


def _small_tasks(tasks: Sequence[Task | AuditTask], per_task: int, per_job: int) -> set[int]:
    """Return the positions of the tasks to fill, smallest first, because each one saves the same requests."""
    sizes = sorted((sum(map(_size, task.deletes)), position) for position, task in enumerate(tasks) if task.deletes)
    chosen = set()
    for size, position in sizes:
        per_job -= size
        if size > per_task or per_job < 0:
            break
        chosen.add(position)
    return chosen


def _read(deletes: dict[Blob, TaskDelete], access: StorageAccess) -> dict[Blob, bytes]:
    storage = Storage(access)
    files = [(delete,) for delete in deletes.values() if delete.kind != "dv"]
    try:
        reads = [*files, *coalesced_reads(delete for delete in deletes.values() if delete.kind == "dv")]
        remote = any(not storage.place(path).is_local for path, _, _ in deletes)
        with ThreadPoolExecutor(max_workers=_THREADS if remote else 1, thread_name_prefix="tidyberg-deletes") as pool:
            waiting = [pool.submit(_contents, storage, together) for together in reads]
            try:
                return {blob: content for future in waiting for blob, content in future.result()}
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    except KernelFailure as failure:
        raise error_of(failure) from failure


def _contents(storage: Storage, together: Sequence[TaskDelete]) -> list[tuple[Blob, bytes]]:
    """Return the contents of one request: a file, or adjacent deletion vectors."""
    if together[0].kind != "dv":
        return [(_blob(together[0]), delete_bytes(storage, together[0]))]
    return list(zip(map(_blob, together), read_vectors(storage, together), strict=True))


def _blob(delete: TaskDelete) -> Blob:
    return delete.path, delete.content_offset, delete.content_size


def _size(delete: TaskDelete) -> int:
    return delete.size if delete.content_size is None else delete.content_size
