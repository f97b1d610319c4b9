"""The inline engine: results, progress, failures, cancel."""

import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files
from tidyberg.errors import Cancelled, DamagedFile
from tidyberg.execute.engine import AnyResult, CancelToken, Engine, gathered, use_idle_cores
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import Task, TaskResult


def tasks(directory: Path, count: int, rows: int = 1_000, **changes: Any) -> list[Task]:
    files = number_files(directory / "in", count, rows)
    return [
        dataclasses.replace(make_task([file], NUMBERS, directory / "out"), group_id=number, **changes)
        for number, file in enumerate(files)
    ]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_task_yields_one_result(tmp_path: Path, parallelism: int) -> None:
    engine: Engine = InlineEngine(parallelism)
    results = list(engine.run(tasks(tmp_path, 7), STORAGE, cancel=CancelToken()))
    assert sorted(result.group_id for result in results) == list(range(7))
    assert [result.group_id for result in gathered(results)] == list(range(7))
    assert engine.resources.cores == parallelism
    engine.close()


def test_a_result_is_yielded_while_other_tasks_still_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = threading.Event()

    def wait_unless_first(task: Task, *args: Any) -> AnyResult:
        assert task.group_id == 0 or taken.wait(60)
        return run_task(task, *args)

    monkeypatch.setattr("tidyberg.execute.inline.run_task", wait_unless_first)
    results = InlineEngine(2).run(tasks(tmp_path, 2), STORAGE, cancel=CancelToken())
    assert next(results).group_id == 0
    taken.set()
    assert next(results).group_id == 1


def test_no_tasks_no_results() -> None:
    assert list(InlineEngine().run([], STORAGE, cancel=CancelToken())) == []


def test_a_damaged_file_fails_the_run(tmp_path: Path) -> None:
    made = tasks(tmp_path, 3)
    Path(made[1].inputs[0].path).write_bytes(b"no")
    with pytest.raises(DamagedFile, match=r"in-1\.parquet"):
        list(InlineEngine(1).run(made, STORAGE, cancel=CancelToken()))


def test_cancel_stops_between_batches_and_removes_partial_outputs(tmp_path: Path) -> None:
    made = tasks(tmp_path, 2, rows=200_000, batch_rows=10)
    cancel = CancelToken()
    timer = threading.Timer(0.1, cancel.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        list(InlineEngine(2).run(made, STORAGE, cancel=cancel))
    assert time.monotonic() - started < 5
    timer.join()
    assert not list((tmp_path / "out").glob("*.parquet"))
    assert not [t for t in threading.enumerate() if t.name.startswith("tidyberg-inline")]


def test_closing_the_results_early_ends_all_threads_and_removes_partial_outputs(tmp_path: Path) -> None:
    made = [*tasks(tmp_path / "small", 1), *tasks(tmp_path / "large", 2, rows=200_000, batch_rows=10)]
    results = InlineEngine(3).run(made, STORAGE, cancel=CancelToken())
    assert next(results).group_id == 0
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("tidyberg-inline")]
    assert not list((tmp_path / "large" / "out").glob("*.parquet"))


def test_token_calls_back_once_even_when_late() -> None:
    cancel = CancelToken()
    calls: list[str] = []
    cancel.add_callback(lambda: calls.append("early"))
    cancel.raise_if_cancelled()
    cancel.cancel()
    cancel.cancel()
    cancel.add_callback(lambda: calls.append("late"))
    assert calls == ["early", "late"]
    with pytest.raises(Cancelled):
        cancel.raise_if_cancelled()


def test_a_cancelled_token_runs_nothing(tmp_path: Path) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        list(InlineEngine().run(tasks(tmp_path, 1), STORAGE, cancel=cancel))
    assert not (tmp_path / "out").exists()


def test_results_are_task_results(tmp_path: Path) -> None:
    (result,) = InlineEngine().run(tasks(tmp_path, 1), STORAGE, cancel=CancelToken())
    assert isinstance(result, TaskResult)
    assert result.attempt == 0 < InlineEngine.attempts


def test_rewrites_take_several_cores_only_where_they_would_be_idle(tmp_path: Path) -> None:
    two = tasks(tmp_path, 2, rows=10)

    def cores_of(cores: int | None, most: int | None = None) -> list[int]:
        return [task.cores for task in use_idle_cores(two, cores, most) if isinstance(task, Task)]

    assert cores_of(None) == cores_of(1) == cores_of(3) == cores_of(8, most=1) == [1, 1]
    assert cores_of(4) == cores_of(5) == cores_of(16, most=2) == [2, 2]
    assert cores_of(16) == [8, 8]
