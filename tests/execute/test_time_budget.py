"""Within a time budget, the inline engine starts only what can end, stops in time, and keeps what has finished."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files
from tidyberg.errors import OutOfTime
from tidyberg.execute.engine import AnyResult, CancelToken
from tidyberg.execute.inline import InlineEngine, task_memory_bytes
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.time_budget import TimeBudget, current_budget, within
from tidyberg.model.sizes import MB
from tidyberg.model.task import Task, TaskResult


@dataclass
class Clock:
    seconds: float = 60.0

    def left(self) -> float:
        return self.seconds


def tasks(directory: Path, count: int, **changes: Any) -> list[Task]:
    files = number_files(directory / "in", count, 1_000)
    return [
        replace(make_task([file], NUMBERS, directory / "out"), group_id=number, **changes)
        for number, file in enumerate(files)
    ]


def run(made: list[Task], budget: TimeBudget, parallelism: int = 1) -> tuple[list[AnyResult], OutOfTime | None]:
    results: list[AnyResult] = []
    with within(budget):
        try:
            results.extend(InlineEngine(parallelism).run(made, STORAGE, cancel=CancelToken()))
        except OutOfTime as error:
            return results, error
    return results, None


def test_outside_of_a_budget_nothing_is_limited(tmp_path: Path) -> None:
    assert current_budget() is None
    with within(TimeBudget(Clock().left, 10.0, 1.0)):
        assert current_budget() is not None
    assert current_budget() is None


def test_a_task_is_not_started_if_earlier_ones_show_that_it_would_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, started = Clock(), []

    def slowly(task: Task, *args: Any) -> AnyResult:
        started.append(task.group_id)
        clock.seconds -= 18.0
        result = run_task(task, *args)
        assert isinstance(result, TaskResult)
        return replace(result, seconds=18.0)

    monkeypatch.setattr("tidyberg.execute.inline.run_task", slowly)
    results, error = run(tasks(tmp_path, 4), TimeBudget(clock.left, 10.0, 1.0 * MB))
    assert started == [0, 1]  # 14 s are left for the third
    assert [result.group_id for result in results] == [0, 1]
    assert error is not None
    assert (error.unfinished, error.too_large) == (2, 0)
    assert "did not allow 2 of 4 tasks" in str(error)


def test_results_of_tasks_that_end_while_others_are_stopped_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stopped = Clock(), threading.Event()

    def wait_for_the_end(task: Task, attempt: int, storage: Any, should_stop: Any) -> AnyResult:
        if task.group_id == 0:
            clock.seconds = 0.0
            stopped.set()
            return run_task(task, attempt, storage, lambda: False)
        assert stopped.wait(60)
        return run_task(task, attempt, storage, should_stop)

    monkeypatch.setattr("tidyberg.execute.inline.run_task", wait_for_the_end)
    results, error = run(tasks(tmp_path, 2), TimeBudget(clock.left, 10.0, 1.0 * MB), parallelism=2)
    assert [result.group_id for result in results] == [0]
    assert error is not None
    assert error.unfinished == 1
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1  # nothing of the other


def test_a_task_that_is_too_large_for_any_invocation_is_never_started(tmp_path: Path) -> None:
    made = tasks(tmp_path, 2)
    size = made[0].inputs[0].size
    results, error = run(made, TimeBudget(Clock().left, 10.0, size / 50 / 4.1))
    assert results == []
    assert error is not None
    assert (error.unfinished, error.too_large) == (2, 2)
    assert "Spark" in str(error)


def test_a_wrong_guess_of_the_speed_does_not_stop_all_work(tmp_path: Path) -> None:
    made = tasks(tmp_path, 3)
    guess = made[0].inputs[0].size / 50 / 3.9
    results, error = run(made, TimeBudget(Clock().left, 10.0, guess))
    assert len(results) == 3
    assert error is None


def test_finished_groups_wait_at_most_some_seconds_for_their_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tidyberg.execute.time_budget.time.monotonic", lambda: now[0])
    budget = TimeBudget(Clock().left, 10.0, 1.0)
    assert not budget.wants_commit()
    now[0] += 15
    assert budget.wants_commit()
    budget.note_commit()
    assert not budget.wants_commit()


@pytest.mark.parametrize(
    ("memory_gb", "at_once", "expected"), [(0.125, 1, 16), (0.5, 1, 64), (1.0, 1, 234), (10.0, 6, 256), (2.0, 8, 72)]
)
def test_row_groups_fit_into_the_memory_of_the_process(memory_gb: float, at_once: int, expected: int) -> None:
    assert task_memory_bytes(memory_gb, at_once) // MB == expected


def test_tasks_get_the_memory_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(task: Task, *args: Any) -> AnyResult:
        seen.append(task.memory_bytes)
        return run_task(task, *args)

    monkeypatch.setattr("tidyberg.execute.inline.run_task", look)
    list(InlineEngine(1, task_memory_bytes=64 * MB).run(tasks(tmp_path, 1), STORAGE, cancel=CancelToken()))
    assert seen == [64 * MB]
