"""The interface of engines, cancellation of a run, and the error for each kind of kernel failure."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tidyberg.errors import (
    AccessDenied,
    Cancelled,
    CredentialsExpired,
    DamagedFile,
    StorageError,
    Terminal,
    TidybergError,
    TooManyOutputs,
    Transient,
    Unsupported,
)
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import Resources, cores_of_task
from tidyberg.model.shuffle import ShuffleJob, ShuffleResult
from tidyberg.model.task import AnyResult as AnyResult
from tidyberg.model.task import AnyTask as AnyTask
from tidyberg.model.task import Task
from tidyberg.storage.access import StorageAccess

INLINE_GB = 1.0  # the approximate memory of a process that rewrites
APP_NAME = "tidyberg"  # the name of its Spark applications
ERRORS: Mapping[FailureKind, type[Terminal | Transient]] = {
    FailureKind.DAMAGED: DamagedFile,
    FailureKind.STORAGE: StorageError,
    FailureKind.DENIED: AccessDenied,
    FailureKind.EXPIRED: CredentialsExpired,
    FailureKind.SCHEMA: DamagedFile,
    FailureKind.UNFIT: Unsupported,
    FailureKind.LIMIT: TooManyOutputs,
    FailureKind.TOO_LARGE: Unsupported,
    FailureKind.STOPPED: Cancelled,
}
# It does not say to remove the file: without a delete file, deleted rows are back.
_REPAIR = "Nothing was changed. Restore the file, or exclude its partition."
_HINTS: Mapping[FailureKind, str] = {
    FailureKind.DAMAGED: _REPAIR,
    FailureKind.DENIED: "Check the credentials and the rights on that location.",
    FailureKind.EXPIRED: "Run it again. It gets new credentials and reuses finished groups. If it happens again, let "
    "the catalog vend credentials that live longer, or make groups smaller (max_group_size).",
    FailureKind.SCHEMA: _REPAIR,
    FailureKind.UNFIT: "Nothing was changed. Exclude the partition, or compact it without rewrite_to_current_spec.",
    FailureKind.LIMIT: "Nothing was changed. Give a larger target_file_size, or raise limits.max_output_files.",
    FailureKind.TOO_LARGE: "Nothing was changed. Exclude the partition, or compact it without sorting.",
}
SPARK_CONNECT = "spark connect"  # the name of the resources of any Spark Connect server

# The results of a run, in the order in which tasks finish.
Results = Generator[AnyResult, None, None]
ShuffleResults = Generator[ShuffleResult, None, None]


class CancelToken:
    """Cancels a run. `cancel` may be called from any thread and from a signal handler."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        self._event.set()
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once on cancel, or now if the run is already cancelled."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise Cancelled("The job was cancelled.")


@runtime_checkable
class StartsInBackground(Protocol):
    """An engine that takes long to start, and can start while the caller does other work."""

    def start_in_background(self) -> None: ...


class Engine(Protocol):
    """Runs tasks. Every engine runs the same kernels."""

    @property
    def name(self) -> str: ...

    @property
    def attempts(self) -> int:
        """The most attempts of a task. Attempt numbers are below it."""
        ...

    @property
    def settle_seconds(self) -> float:
        """How long workers may still write after a run has been cancelled or has failed."""
        ...

    @property
    def resources(self) -> Resources: ...

    @property
    def task_memory_bytes(self) -> int | None:
        """The most Arrow memory of a task's row group. None: what the task says."""
        ...

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        """Yields each result as its task finishes. The run starts with the first `next`.

        Tasks continue while the caller works on a result. Closing the generator stops the run: wrap it in
        `contextlib.closing`, so that an error in the caller stops the tasks too.
        """
        ...

    def shuffle(
        self,
        jobs: Sequence[ShuffleJob],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> ShuffleResults:
        """Yields the result of each shuffle when its last reduce task has finished. Otherwise like `run`."""
        ...

    def close(self) -> None: ...


def gathered(results: Iterable[AnyResult]) -> list[AnyResult]:
    """Runs everything. Returns the results in the order of their tasks' numbers."""
    return sorted(results, key=lambda result: result.group_id)


def use_idle_cores(tasks: Sequence[AnyTask], cores: int | None, most: int | None = None) -> list[AnyTask]:
    """Give each rewrite several cores, up to `most`, if there are more cores than tasks."""
    each = 1 if cores is None else cores_of_task(cores, len(tasks))
    each = each if most is None else min(each, most)
    if each < 2:
        return list(tasks)
    return [replace(task, cores=each) if isinstance(task, Task) else task for task in tasks]


def error_of(failure: KernelFailure) -> TidybergError:
    """Convert a kernel's failure to an error of the class that its kind maps to."""
    if failure.kind is FailureKind.STOPPED:
        return Cancelled("The job was cancelled.")
    return ERRORS[failure.kind](failure.message, hint=_HINTS.get(failure.kind))
