"""Chooses the engine of a job from its plan."""

from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.execute.engine import Engine
from tidyberg.model.plan import Plan


@dataclass
class EngineChoice:
    """The engine of one job. With `inline`, a plan that takes less time than Spark needs to start runs inline."""

    usual: Callable[[], Engine]
    inline: Callable[[], Engine] | None  # None: always the usual engine
    reason: str = ""  # a sentence for the notes of the job
    _is_inline: bool = False

    def choose(self, plan: Plan) -> None:
        if self.inline is None or plan.is_empty:
            return
        self._is_inline = plan.better_inline
        longer, shorter = ("starting Spark", "the rewrite") if plan.better_inline else ("the rewrite", "starting Spark")
        where = "in this process" if plan.better_inline else "on Spark"
        self.reason = f"engine auto: ran {where}, for {longer} was estimated to take longer than {shorter}"

    def __call__(self) -> Engine:
        return self.inline() if self._is_inline and self.inline is not None else self.usual()
