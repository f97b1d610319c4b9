"""A function on a local warehouse, and a clock that only moves when a test says so."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskResult
from tidyberg.serverless.function import Function
from tidyberg.testing import Warehouse


@dataclass
class FakeContext:
    """The context of an invocation. It has as much time left as the test has not used."""

    seconds: float = 60.0
    on_ask: Callable[[], None] = field(default=lambda: None)

    def get_remaining_time_in_millis(self) -> int:
        self.on_ask()
        return round(self.seconds * 1000)


def slow_tasks(context: FakeContext, seconds: float, *, hurry: bool = True) -> Callable[..., Any]:
    """Each task takes so many seconds of the context. With `hurry`, it also says so."""

    def run(task: Any, attempt: int, storage: Any, should_stop: Callable[[], bool]) -> Any:
        result = run_task(task, attempt, storage, should_stop)
        assert isinstance(result, TaskResult)
        context.seconds -= seconds
        return replace(result, seconds=seconds) if hurry else result

    return run


def environment_of(warehouse: Warehouse, home: Path, **more: str) -> dict[str, str]:
    return {
        "TIDYBERG_CATALOGS__LAB__TYPE": "sql",
        "TIDYBERG_CATALOGS__LAB__URI": warehouse.properties["uri"],
        "TIDYBERG_CATALOGS__LAB__WAREHOUSE": warehouse.properties["warehouse"],
        "TIDYBERG_HOME": str(home),
        "TIDYBERG_COMPACTION__MIN_INPUT_FILES": "2",
        **more,
    }


def function_on(warehouse: Warehouse, home: Path, **more: str) -> Function:
    memory = {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769"}
    return Function.of_environment(environment_of(warehouse, home, **{**memory, **more}))
