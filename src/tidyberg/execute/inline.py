"""Runs tasks in threads of this process, with the same kernels as Spark.

Within a time budget, a task starts only if it is likely to end in time. When the budget is over, running tasks stop.
"""

import os
import queue
import threading
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import replace

import pyarrow as pa

from tidyberg.errors import EngineError, OutOfTime
from tidyberg.execute.engine import (
    INLINE_GB,
    AnyResult,
    AnyTask,
    CancelToken,
    Results,
    ShuffleResults,
    error_of,
    use_idle_cores,
)
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.scratch_shuffle import ScratchShuffles
from tidyberg.execute.time_budget import TimeBudget, current_budget
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import INLINE, Resources
from tidyberg.model.shuffle import ScratchMapTask, ScratchReduceTask, ShuffleJob
from tidyberg.model.sizes import GB, MB
from tidyberg.model.task import Task, TaskResult
from tidyberg.model.words import plural
from tidyberg.storage.access import StorageAccess

_POLL_SECONDS = 0.1
_FIRST_WAIT_SECONDS = 0.025  # doubles before each further attempt of a task
_PROCESS_BYTES = 320 * MB  # Python, Arrow and PyIceberg, and the manifests of a plan
_BYTES_PER_BYTE = 3.0  # a task reads ahead, decodes, encodes and uploads at the same time as it fills a row group
_LARGE_TASKS = (Task, ScratchMapTask, ScratchReduceTask)
_SMALLEST_MEMORY, _LARGEST_MEMORY = 16 * MB, 256 * MB


def task_memory_bytes(memory_gb: float, tasks: int) -> int:
    """Return how much Arrow memory a row group may take if a process of this size runs so many tasks at once."""
    each = (memory_gb * GB - _PROCESS_BYTES) / max(1, tasks) / _BYTES_PER_BYTE
    return int(min(_LARGEST_MEMORY, max(_SMALLEST_MEMORY, each)))


class InlineEngine:
    """Runs tasks in threads. This is fast, because Arrow releases the GIL while it decodes and encodes."""

    name = "inline"
    attempts = 4  # the same as Spark's default
    settle_seconds = 0.0  # a run returns after its threads have ended and have removed their files

    def __init__(
        self, max_parallelism: int | None = None, memory_gb: float = INLINE_GB, task_memory_bytes: int | None = None
    ) -> None:
        """`task_memory_bytes` is the most Arrow memory of a task's row group. None: what the task says."""
        self.task_memory_bytes = task_memory_bytes
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
        # Checks of finished outputs may use the reserve of the budget: without them, nothing could be committed.
        budget = current_budget() if any(isinstance(task, _LARGE_TASKS) for task in tasks) else None
        run = _Run(self._within_memory(tasks), storage, cancel, budget)
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
            pa.default_memory_pool().release_unused()  # this process may live long, while Spark ends idle workers

    def shuffle(
        self,
        jobs: Sequence[ShuffleJob],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> ShuffleResults:
        def run(tasks: Sequence[AnyTask]) -> Results:
            return self.run(tasks, storage, cancel=cancel, max_parallelism=max_parallelism)

        # Within a time budget, finished shuffles are worth more than many that have only begun.
        cores = (max_parallelism or self._parallelism) if current_budget() is None else 0
        yield from ScratchShuffles(run, cores=cores).results(jobs)

    def _within_memory(self, tasks: Sequence[AnyTask]) -> Sequence[AnyTask]:
        most = self.task_memory_bytes
        if most is None:
            return tasks
        limited: list[AnyTask] = []
        for task in tasks:
            if isinstance(task, Task):
                task = replace(task, memory_bytes=min(most, task.memory_bytes))
            elif isinstance(task, ScratchMapTask | ScratchReduceTask):
                task = replace(task, memory_bytes=most)
            limited.append(task)
        return limited

    def close(self) -> None:
        """Do nothing, because threads end with their run."""


class _NotStarted(Exception):  # noqa: N818 - no error: the other tasks continue
    """A task that the time budget does not allow."""


class _Run:
    def __init__(
        self, tasks: Sequence[AnyTask], storage: StorageAccess, cancel: CancelToken, budget: TimeBudget | None
    ) -> None:
        self.stopping = threading.Event()
        self._storage = storage
        self._cancel = cancel
        self._budget = budget
        self._count = len(tasks)
        self._waiting: queue.SimpleQueue[AnyTask] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[AnyResult | BaseException] = queue.SimpleQueue()
        self._too_large = budget.too_large(map(_size, tasks)) if budget is not None else 0
        for task in tasks:
            self._waiting.put(task)

    def work(self) -> None:
        while not (self.stopping.is_set() or self._cancel.cancelled):
            try:
                task = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put(self._run(task))
            except BaseException as error:  # noqa: BLE001 - whatever it was, the caller's thread raises it
                self._done.put(error)

    def _run(self, task: AnyTask) -> AnyResult:
        """Run a task, and retry it only after a failure of storage. A retry cannot help against other failures."""
        if self._budget is not None and not self._budget.has_time_for(_size(task)):
            raise _NotStarted
        attempt = 0
        while True:
            try:
                result = run_task(task, attempt, self._storage, self._should_stop)
            except KernelFailure as failure:
                attempt += 1
                if failure.kind is not FailureKind.STORAGE or attempt == InlineEngine.attempts:
                    raise
                if self.stopping.wait(_FIRST_WAIT_SECONDS * 2**attempt):
                    raise
                continue
            if self._budget is not None and isinstance(result, TaskResult):
                self._budget.note(_size(task), result.seconds)
            return result

    def results(self) -> Results:
        finished = unfinished = 0
        while finished + unfinished < self._count:
            self._cancel.raise_if_cancelled()
            try:
                outcome = self._done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if isinstance(outcome, _NotStarted):
                unfinished += 1
                continue
            if isinstance(outcome, KernelFailure):
                self._cancel.raise_if_cancelled()
                if outcome.kind is FailureKind.STOPPED and self._is_over:
                    unfinished += 1  # another task may have finished at the same time, and is committed
                    continue
                raise error_of(outcome) from outcome
            if isinstance(outcome, BaseException):
                raise EngineError(f"A task failed: {type(outcome).__name__}: {outcome}") from outcome
            finished += 1
            yield outcome
        if unfinished:
            raise self._out_of_time(unfinished)

    def _out_of_time(self, unfinished: int) -> OutOfTime:
        words = f"The time limit did not allow {unfinished:,} of {plural(self._count, 'task')}."
        hint = "What had finished is committed. The next run does the rest."
        if self._too_large:
            them = "1 task is" if self._too_large == 1 else f"{self._too_large:,} tasks are"
            words += f" {them} too large to end within the limit."
            hint = "Raise the time limit or the memory of the function, lower max_group_size, or run it on Spark."
        return OutOfTime(words, hint=hint, unfinished=unfinished, too_large=self._too_large)

    @property
    def _is_over(self) -> bool:
        return self._budget is not None and self._budget.is_over

    def _should_stop(self) -> bool:
        return self.stopping.is_set() or self._cancel.cancelled or self._is_over


def _size(task: AnyTask) -> int:
    """Return how many bytes a rewrite reads. Other tasks are small."""
    return sum(file.bytes_taken for file in task.inputs) if isinstance(task, _LARGE_TASKS) else 0
