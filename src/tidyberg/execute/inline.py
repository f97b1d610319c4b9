"""Runs tasks in this process, on threads: the same kernels without Spark."""

import os
import queue
import threading
from collections.abc import Sequence
from contextvars import copy_context

import pyarrow as pa

from tidyberg.errors import EngineError
from tidyberg.execute.engine import INLINE_GB, AnyResult, AnyTask, CancelToken, Results, error_of, use_idle_cores
from tidyberg.execute.kernel.run import run_task
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import INLINE, Resources
from tidyberg.model.task import StorageAccess

_POLL_SECONDS = 0.1
_FIRST_WAIT_SECONDS = 0.025  # doubled before each new attempt of a task


class InlineEngine:
    """Uses threads, because Arrow releases the interpreter lock while it decodes and encodes."""

    name = "inline"
    attempts = 4  # as many as Spark gives a task
    settle_seconds = 0.0  # a run ends only after its threads have ended and removed what they wrote

    def __init__(self, max_parallelism: int | None = None, memory_gb: float = INLINE_GB) -> None:
        self._parallelism = max_parallelism or os.cpu_count() or 1
        self.resources = Resources(cores=self._parallelism, memory_gb=memory_gb, name=INLINE)

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        cancel.raise_if_cancelled()
        tasks = use_idle_cores(tasks, self._parallelism if max_parallelism is None else None)
        run = _Run(tasks, storage, cancel)
        threads = [
            threading.Thread(target=copy_context().run, args=(run.work,), name=f"tidyberg-inline-{number}", daemon=True)
            for number in range(min(len(tasks), max_parallelism or self._parallelism))
        ]
        for thread in threads:
            thread.start()
        try:
            yield from run.results()
        finally:
            run.stopping.set()
            for thread in threads:
                thread.join()
            pa.default_memory_pool().release_unused()  # this process may live on; Spark ends workers that are idle

    def close(self) -> None:
        """Nothing to release: threads end with their run."""


class _Run:
    def __init__(self, tasks: Sequence[AnyTask], storage: StorageAccess, cancel: CancelToken) -> None:
        self.stopping = threading.Event()
        self._storage = storage
        self._cancel = cancel
        self._count = len(tasks)
        self._waiting: queue.SimpleQueue[AnyTask] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[AnyResult | BaseException] = queue.SimpleQueue()
        for task in tasks:
            self._waiting.put(task)

    def work(self) -> None:
        while not self._should_stop():
            try:
                task = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put(self._run(task))
            except BaseException as error:  # noqa: BLE001 - whatever it was, the caller's thread raises it
                self._done.put(error)

    def _run(self, task: AnyTask) -> AnyResult:
        """Tries again only after storage errors. Other failures would repeat."""
        attempt = 0
        while True:
            try:
                return run_task(task, attempt, self._storage, self._should_stop)
            except KernelFailure as failure:
                attempt += 1
                if failure.kind is not FailureKind.STORAGE or attempt == InlineEngine.attempts:
                    raise
                if self.stopping.wait(_FIRST_WAIT_SECONDS * 2**attempt):
                    raise

    def results(self) -> Results:
        count = 0
        while count < self._count:
            self._cancel.raise_if_cancelled()
            try:
                outcome = self._done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if isinstance(outcome, KernelFailure):
                self._cancel.raise_if_cancelled()
                raise error_of(outcome) from outcome
            if isinstance(outcome, BaseException):
                raise EngineError(f"A task failed: {type(outcome).__name__}: {outcome}") from outcome
            count += 1
            yield outcome

    def _should_stop(self) -> bool:
        return self.stopping.is_set() or self._cancel.cancelled
