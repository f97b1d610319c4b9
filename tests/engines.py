"""Engines that go wrong on purpose."""

from collections.abc import Callable, Sequence

from tidyberg.execute.engine import AnyResult, AnyTask, CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.task import TaskResult
from tidyberg.storage.access import StorageAccess


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
        on_result: Callable[[AnyResult], None],
        cancel: CancelToken,
        max_parallelism: int | None = None,
    ) -> list[AnyResult]:
        def hand_over(result: AnyResult) -> None:
            on_result(self._spoil(result) if isinstance(result, TaskResult) else result)

        return super().run(tasks, storage, on_result=hand_over, cancel=cancel, max_parallelism=max_parallelism)
