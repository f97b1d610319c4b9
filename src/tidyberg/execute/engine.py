"""The engine port: the interface of engines, how a run is cancelled, and how kernel failures become errors."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tidyberg.errors import (
    AccessDenied,
    Cancelled,
    CredentialsExpired,
    DamagedFile,
    StorageError,
    TidybergError,
    TooManyOutputs,
)
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.options import Resources, cores_of_task
from tidyberg.model.task import AnyResult as AnyResult
from tidyberg.model.task import AnyTask as AnyTask
from tidyberg.model.task import StorageAccess, Task

INLINE_GB = 1.0  # what a process that rewrites takes, about
APP_NAME = "tidyberg"  # of its Spark applications
SPARK_CONNECT = "spark connect"  # the name of its resources, wherever the server is

# The results of a run, in the order in which tasks finish.
Results = Generator[AnyResult, None, None]


class CancelToken:
    """Stops a run. Any thread or signal handler may cancel it."""

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
        """Calls `callback` once on cancel, or immediately if the token is already cancelled."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise Cancelled("The job was cancelled.")


@runtime_checkable
class StartsAhead(Protocol):
    """An engine that takes long to start, and can start in the background."""

    def start_ahead(self) -> None: ...


class Engine(Protocol):
    """Runs tasks. Every engine runs the same kernels."""

    @property
    def name(self) -> str: ...

    @property
    def attempts(self) -> int:
        """Upper bound of the attempts of a task. Attempt numbers are below it."""
        ...

    @property
    def settle_seconds(self) -> float:
        """How long workers may still write after a run was cancelled or failed."""
        ...

    @property
    def resources(self) -> Resources: ...

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

    def close(self) -> None: ...


def gathered(results: Iterable[AnyResult]) -> list[AnyResult]:
    """Runs everything. Returns the results in the order of their tasks' numbers."""
    return sorted(results, key=lambda result: result.group_id)


def use_idle_cores(tasks: Sequence[AnyTask], cores: int | None, most: int | None = None) -> list[AnyTask]:
    """If there are more cores than tasks, gives each rewrite several cores, but at most `most`."""
    each = 1 if cores is None else cores_of_task(cores, len(tasks))
    each = each if most is None else min(each, most)
    if each < 2:
        return list(tasks)
    return [replace(task, cores=each) if isinstance(task, Task) else task for task in tasks]


def error_of(failure: KernelFailure) -> TidybergError:
    """tidyberg's own error for what a kernel met."""
    if failure.kind is FailureKind.DENIED:
        return AccessDenied(failure.message, hint="Check the credentials and the rights on that location.")
    if failure.kind is FailureKind.EXPIRED:
        return CredentialsExpired(
            failure.message,
            hint="Run it again: it gets new credentials and goes on with what is finished. If it happens again, let "
            "the catalog give credentials that live longer, or make groups smaller (max_group_size).",
        )
    if failure.kind is FailureKind.STORAGE:
        return StorageError(failure.message)
    if failure.kind is FailureKind.LIMIT:
        return TooManyOutputs(
            failure.message,
            hint="Nothing was changed. Give a larger target_file_size, or raise limits.max_output_files.",
        )
    if failure.kind is FailureKind.STOPPED:
        return Cancelled("The job was cancelled.")
    return DamagedFile(
        failure.message,
        hint="Nothing was changed. Repair or remove the file, or leave its partition out.",
    )
