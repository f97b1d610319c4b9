"""Engines that go wrong on purpose."""

from collections.abc import Callable, Sequence
from contextlib import closing

from tidyberg.execute.engine import AnyTask, CancelToken, Results
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.task import StorageAccess, TaskResult


class Spoiling(InlineEngine):
    """The inline engine, but the results of rewrites are changed before anybody sees them."""

    def __init__(self, spoil: Callable[[TaskResult], TaskResult]) -> None:
        super().__init__()
        self._spoil = spoil

    def run(
        self,
        tasks: Sequence[AnyTask],
        storage: StorageAccess,
        *,
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> Results:
        with closing(super().run(tasks, storage, cancel=cancel, max_parallelism=max_parallelism)) as results:
            for result in results:
                yield self._spoil(result) if isinstance(result, TaskResult) else result
