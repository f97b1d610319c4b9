"""Which engine a job runs on, where that depends on its plan, and why."""

from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.execute.engine import Engine
from tidyberg.model.plan import Plan


@dataclass
class EngineChoice:
    """The engine of one job: Spark, unless it is asked to choose and the plan is done sooner than Spark starts."""

    usual: Callable[[], Engine]
    inline: Callable[[], Engine] | None  # None: there is no choice
    reason: str = ""  # of what was chosen, in words for the job's notes
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
