"""The executor's side of a task, in process."""

import gc
import pickle
import subprocess
import sys
import zipimport
from pathlib import Path

import pytest

from tests.builders.tasks import NUMBERS, STORAGE, make_task, number_files
from tidyberg.execute.kernel import remote
from tidyberg.execute.kernel.order.ranges import RangeBounds
from tidyberg.execute.kernel.range_sort.cut import Cut
from tidyberg.execute.kernel.remote import run_packed, tune_worker
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.execute.spark.worker import pack, unpack_outcome
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ScratchMapTask
from tidyberg.model.sizes import GB, MB
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.task import AnyTask, Task, TaskResult

KEY = SortKey((SortField(1),))
STATUS = Path("/proc/self/status")


def test_results_come_back_packed(tmp_path: Path) -> None:
    task = make_task(number_files(tmp_path, 2, 10), NUMBERS, tmp_path / "out")
    outcome = unpack_outcome(run_packed(7, pack(task), 2, 4, STORAGE))
    assert outcome.position == 7
    assert isinstance(outcome.result, TaskResult)
    assert outcome.result.attempt == 2
    assert outcome.failure is None


def test_failures_that_no_retry_fixes_are_returned_as_values(tmp_path: Path) -> None:
    files = number_files(tmp_path, 1, 10)
    Path(files[0].path).unlink()
    outcome = unpack_outcome(run_packed(0, pack(make_task(files, NUMBERS, tmp_path / "out")), 0, 4, STORAGE))
    assert outcome.result is None
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.DAMAGED


def test_storage_failures_are_raised_so_that_spark_tries_again(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    task = make_task(number_files(tmp_path, 1, 10), NUMBERS, tmp_path / "out")
    with pytest.raises(KernelFailure) as raised:
        run_packed(0, pack(task), 0, 4, STORAGE)
    assert raised.value.kind is FailureKind.STORAGE


def test_an_attempt_beyond_the_recorded_bound_writes_nothing(tmp_path: Path) -> None:
    """I6: recovery computes names up to the bound."""
    task = make_task(number_files(tmp_path, 1, 10), NUMBERS, tmp_path / "out")
    with pytest.raises(KernelFailure, match="the limit is 4"):
        run_packed(0, pack(task), 4, 4, STORAGE)
    assert not (tmp_path / "out").exists()


def test_a_worker_whose_memory_is_limited_keeps_fewer_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[AnyTask] = []
    monkeypatch.setattr(remote, "run_task", lambda task, *_: ran.append(task))
    task = make_task(number_files(tmp_path, 1, 10), NUMBERS, tmp_path / "out")
    shuffled = ScratchMapTask("job", 0, 0, Cut(0, task, RangeBounds(KEY, 1, b"", b"", 0), 1, 1, {}), 1, str(tmp_path))
    for limit in (None, 64 * GB, GB):
        monkeypatch.setattr(remote, "memory_limit", lambda limit=limit: limit)
        for each in (task, shuffled):
            run_packed(0, pack(each), 0, 4, STORAGE)
    limits = [each.memory_bytes for each in ran if isinstance(each, Task | ScratchMapTask)]
    assert limits == [256 * MB, None, 256 * MB, 8 * GB, 128 * MB, 128 * MB]


@pytest.mark.parametrize(
    ("setting", "rows"), [("1g", 128 * MB), ("512m", 64 * MB), ("2048", 256 * MB), ("0", None), ("much", None)]
)
def test_the_engine_knows_the_memory_of_its_workers(setting: str, rows: int | None) -> None:
    engine = SparkEngine("local[1]", conf={"spark.executor.pyspark.memory": setting})
    assert engine.task_memory_bytes == rows
    assert SparkEngine("local[1]").task_memory_bytes is None


def test_the_limit_of_a_worker_is_that_of_its_address_space() -> None:
    """Spark sets it by `spark.executor.pyspark.memory`."""
    code = (
        "import resource\n"
        "from tidyberg.execute.kernel.memory import memory_limit\n"
        "print(memory_limit())\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**34, resource.RLIM_INFINITY))\n"
        "print(memory_limit())\n"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert reported.split() == ["None", str(2**34)]


def test_a_worker_is_tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_is_tuned", False)
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(remote, "_disable_huge_pages", lambda: None)  # for as long as this process lives
    tune_worker()
    tune_worker()
    assert frozen == [1]


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells of a process whether it may have huge pages")
def test_a_tuned_worker_gets_no_huge_pages() -> None:
    code = (
        "from pathlib import Path\n"
        "from tidyberg.execute.kernel.remote import tune_worker\n"
        f"print(Path('{STATUS}').read_text())\n"
        "tune_worker()\n"
        f"print(Path('{STATUS}').read_text())\n"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in reported.splitlines() if line.startswith("THP_enabled")] == ["1", "0"]


def test_failures_travel_by_pickle() -> None:
    failure = pickle.loads(pickle.dumps(KernelFailure(FailureKind.DENIED, "no")))
    assert (failure.kind, failure.message) == (FailureKind.DENIED, "no")
