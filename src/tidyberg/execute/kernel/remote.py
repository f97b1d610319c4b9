"""Runs a packed task on a Spark executor. Failures that a retry cannot fix are returned as values."""

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

from tidyberg.execute.kernel.memory import memory_limit, rows_within
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ScratchMapTask, ScratchReduceTask
from tidyberg.model.task import AnyTask, Task
from tidyberg.storage.access import StorageAccess

_DISABLE_HUGE_PAGES = 41  # PR_SET_THP_DISABLE

_is_tuned = False


def tune_worker() -> None:
    """Makes later tasks of this worker start and end faster. Has an effect once per worker.

    Before each task Spark invalidates import caches, so Python reads the directories of all zip files on the path
    again. After it, Spark collects garbage over all modules. Together that takes about 70 ms. Archives that are added
    later get their own importers, which read the directory once.
    """
    global _is_tuned
    if _is_tuned:
        return
    _is_tuned = True

    def keep_directories(importer: zipimport.zipimporter) -> None:
        """Does nothing: archives do not change while a worker lives."""

    zipimport.zipimporter.invalidate_caches = keep_directories  # type: ignore[method-assign, assignment]
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        _disable_huge_pages()


def _disable_huge_pages() -> None:
    """Arrow's allocator asks for pages of 2 MB, which make no task faster.

    A virtual machine often has to get such a page from its host first. That made the first task of a worker a quarter
    slower.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DISABLE_HUGE_PAGES, 1, 0, 0, 0)


def _within_limits(task: AnyTask) -> AnyTask:
    """Limits a task to the cores and the memory of this worker, which the driver may not know."""
    limit = memory_limit()
    most = None if limit is None else rows_within(limit)
    if isinstance(task, Task):
        memory = task.memory_bytes if most is None else min(task.memory_bytes, most)
        return replace(task, cores=min(task.cores, os.cpu_count() or 1), memory_bytes=memory)
    if isinstance(task, ScratchMapTask | ScratchReduceTask) and most is not None:
        return replace(task, memory_bytes=most)
    return task


def run_packed(position: int, packed: bytes, attempt: int, attempts: int, storage: StorageAccess) -> bytes:
    if attempt >= attempts:
        # I6: recovery computes output names up to this limit, and would miss files of a later attempt.
        raise KernelFailure(
            FailureKind.STORAGE, f"Spark started attempt {attempt + 1} of a task, but the limit is {attempts}."
        )
    task = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by our own driver
    task = _within_limits(task)
    result: Any = None
    failure: KernelFailure | None = None
    try:
        result = run_task(task, attempt, storage)
    except KernelFailure as error:
        if error.kind is FailureKind.STORAGE:
            raise  # Spark tries again
        failure = KernelFailure(error.kind, error.message)
    return pickle.dumps((position, result, failure), pickle.HIGHEST_PROTOCOL)
