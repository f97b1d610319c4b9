"""Inline engines that interfere with a job: they change the table, spoil results, wait, or record what they ran."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.task import TaskResult
from tidyberg.storage.access import StorageAccess


class Meddling(InlineEngine):
    """Calls `meddle` after each of its first runs: all groups are rewritten and recorded, and none is committed yet.

    The engine runs again for full verification and when groups are replanned. By default only the first run counts.
    """

    def __init__(self, meddle: Callable[[], object], *, times: int = 1, max_parallelism: int | None = None) -> None:
        super().__init__(max_parallelism)
        self._meddle = meddle
        self._times = times

    def run(self, *args: Any, **kwargs: Any) -> list[AnyResult]:
        results = super().run(*args, **kwargs)
        if self._times > 0:
            self._times -= 1
            self._meddle()
        return results


class Spoiling(InlineEngine):
    """Passes the result of every rewrite through `spoil` before the job sees it."""

    def __init__(self, spoil: Callable[[TaskResult], TaskResult], *, max_parallelism: int | None = None) -> None:
        super().__init__(max_parallelism)
        self._spoil = spoil

    def run(self, *args: Any, on_result: Callable[[AnyResult], None], **kwargs: Any) -> list[AnyResult]:
        def hand_over(result: AnyResult) -> None:
            on_result(self._spoil(result) if isinstance(result, TaskResult) else result)

        return super().run(*args, on_result=hand_over, **kwargs)


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
        on_result: Callable[[AnyResult], None],
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> list[AnyResult]:
        results: list[AnyResult] = []
        for task in tasks:
            if results and isinstance(results[0], TaskResult):
                self._between(len(results))
            results += super().run([task], storage, on_result=on_result, cancel=cancel)
            if isinstance(results[-1], TaskResult):
                self.rewritten.append(task.group_id)
        return results


class Slow(InlineEngine):
    """Sets `begun` when a run begins, then waits until `go` is set or the job is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def run(self, *args: Any, cancel: CancelToken, **kwargs: Any) -> list[AnyResult]:
        self.begun.set()
        cancel.add_callback(self.go.set)
        self.go.wait(60)
        return super().run(*args, cancel=cancel, **kwargs)
