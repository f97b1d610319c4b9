"""Lets small delete data travel with the tasks: each delete file is read once for the whole job."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.delete_files import delete_bytes
from tidyberg.execute.kernel.failures import KernelFailure
from tidyberg.execute.kernel.storage import Storage
from tidyberg.model.task import StorageAccess, Task, TaskDelete

_MB = 1024 * 1024
_THREADS = 16

Blob = tuple[str, int | None]  # a file, or the deletion vector at that offset of it


def with_delete_contents(
    tasks: Sequence[Task], storage: StorageAccess, *, per_task: int = 10 * _MB, per_job: int = 64 * _MB
) -> list[Task]:
    """The tasks, those with few bytes of deletes with the bytes themselves; the other tasks' workers read theirs."""
    chosen = _small_tasks(tasks, per_task, per_job)
    contents = _read({_blob(delete): delete for position in chosen for delete in tasks[position].deletes}, storage)
    return [
        replace(task, deletes=tuple(replace(delete, content=contents[_blob(delete)]) for delete in task.deletes))
        if position in chosen
        else task
        for position, task in enumerate(tasks)
    ]


def _small_tasks(tasks: Sequence[Task], per_task: int, per_job: int) -> set[int]:
    """Positions of the tasks to fill; the smallest first, since each spares its worker the same requests."""
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
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tidyberg-deletes") as pool:
        waiting = {blob: pool.submit(delete_bytes, storage, delete) for blob, delete in deletes.items()}
        try:
            return {blob: future.result() for blob, future in waiting.items()}
        except KernelFailure as failure:
            raise error_of(failure) from failure
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _blob(delete: TaskDelete) -> Blob:
    return delete.path, delete.content_offset


def _size(delete: TaskDelete) -> int:
    return delete.size if delete.content_size is None else delete.content_size
