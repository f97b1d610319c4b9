"""Inline engines that interfere with a job: they change the table, spoil results, wait, or record what they ran."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from tidyberg.execute.engine import AnyTask, CancelToken, Results
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.task import Task, TaskResult
from tidyberg.storage.access import StorageAccess


class Meddling(InlineEngine):
    """Calls `meddle` after each of its first runs: all groups are rewritten and recorded, and none is committed yet.

    The engine runs again for full verification and when groups are replanned. By default only the first run counts.
    """

    def __init__(self, meddle: Callable[[], object], *, times: int = 1, max_parallelism: int | None = None) -> None:
        super().__init__(max_parallelism)
        self._meddle = meddle
        self._times = times

    def run(self, *args: Any, **kwargs: Any) -> Results:
        with closing(super().run(*args, **kwargs)) as results:
            yield from results
        if self._times > 0:
            self._times -= 1
            self._meddle()


class Spoiling(InlineEngine):
    """Passes the result of every rewrite through `spoil` before the job sees it."""

    def __init__(self, spoil: Callable[[TaskResult], TaskResult], *, max_parallelism: int | None = None) -> None:
        super().__init__(max_parallelism)
        self._spoil = spoil

    def run(self, *args: Any, **kwargs: Any) -> Results:
        with closing(super().run(*args, **kwargs)) as results:
            for result in results:
                yield self._spoil(result) if isinstance(result, TaskResult) else result


class Watched(Spoiling):
    """Keeps the results of rewrites and changes nothing."""

    def __init__(self) -> None:
        super().__init__(self._keep)
        self.results: list[TaskResult] = []

    def _keep(self, result: TaskResult) -> TaskResult:
        self.results.append(result)
        return result


class OneAtATime(InlineEngine):
    """Runs one task after the other. Calls `between` with the number of finished tasks before each but the first."""

    def __init__(self, between: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(max_parallelism=1)
        self._between = between
        self.rewritten: list[int] = []

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        for number, task in enumerate(tasks):
            if number and isinstance(task, Task):
                self._between(number)
            with closing(super().run([task], storage, cancel=cancel)) as results:
                yield from results
            if isinstance(task, Task):
                self.rewritten.append(task.group_id)


class Slow(InlineEngine):
    """Sets `begun` when a run begins, then waits until `go` is set or the job is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def run(self, *args: Any, cancel: CancelToken, **kwargs: Any) -> Results:
        self.begun.set()
        cancel.add_callback(self.go.set)
        self.go.wait(60)
        with closing(super().run(*args, cancel=cancel, **kwargs)) as results:
            yield from results
