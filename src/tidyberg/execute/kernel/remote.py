"""The executor's side of a Spark task: unpack, run, pack; failures that no retry can mend go back as values."""

import ctypes
import gc
import os
import pickle
import sys
import zipimport
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task
from tidyberg.storage.access import StorageAccess

_DISABLE_HUGE_PAGES = 41  # PR_SET_THP_DISABLE

_is_settled = False


def tune_worker() -> None:
    """Once per worker: spare every later task what Spark's worker does at its start and end.

    Spark invalidates import caches before each task, which makes Python read the directories of all zip files on
    the path again, and then collects garbage over all modules: together some 70 ms. Archives that are added
    later get importers of their own, which read their directory once.
    """
    global _is_settled
    if _is_settled:
        return
    _is_settled = True

    def keep_directories(importer: zipimport.zipimporter) -> None:
        """Archives do not change while a worker lives."""

    zipimport.zipimporter.invalidate_caches = keep_directories  # type: ignore[method-assign, assignment]
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        _refuse_huge_pages()


def _refuse_huge_pages() -> None:
    """Arrow's allocator asks for pages of 2 MB, which no task gets faster by.

    A virtual machine often has no 2 MB in one piece that its host has given it before, and touching new ones took the
    first task of a worker a quarter longer.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DISABLE_HUGE_PAGES, 1, 0, 0, 0)


def run_packed(position: int, packed: bytes, attempt: int, attempts: int, storage: StorageAccess) -> bytes:
    if attempt >= attempts:
        # Recovery computes names up to this bound and would miss what a later attempt writes [I6].
        raise KernelFailure(FailureKind.STORAGE, f"Spark tried a task {attempt + 1} times; {attempts} is the limit.")
    task = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by our own driver
    if isinstance(task, Task):  # drivers that do not know their executors think of all cores of the cluster
        task = replace(task, cores=min(task.cores, os.cpu_count() or 1))
    result: Any = None
    failure: KernelFailure | None = None
    try:
        result = run_task(task, attempt, storage)
    except KernelFailure as error:
        if error.kind is FailureKind.STORAGE:
            raise  # Spark tries again
        failure = KernelFailure(error.kind, error.message)
    return pickle.dumps((position, result, failure), pickle.HIGHEST_PROTOCOL)
