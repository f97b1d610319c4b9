"""Shuffles in this process, and the directories that they use."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.builders.shuffles import expected_results, numbered_job
from tests.builders.tasks import STORAGE
from tests.execute.shuffle_checks import (
    check_a_failed_attempt_is_not_seen,
    check_every_chunk_arrives_once,
    check_failures,
    check_sort,
    shuffled,
)
from tidyberg.errors import Cancelled, StorageError
from tidyberg.execute.engine import AnyTask, CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.shuffle.chunk_files import closing_chunk_file
from tidyberg.execute.kernel.write.spill import SpillFile
from tidyberg.execute.scratch_directories import remove_dead, scratch_directory
from tidyberg.execute.scratch_shuffle import batches, likely_bytes
from tidyberg.execute.time_budget import TimeBudget, within
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.shuffle import ScratchMapTask, ScratchNeed, ScratchReduceTask, ShuffleJob


@pytest.fixture(name="scratch")
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    return scratch


def test_every_chunk_arrives_once(scratch: Path) -> None:
    check_every_chunk_arrives_once(InlineEngine())
    assert not list(scratch.iterdir())


def test_a_large_group_is_sorted(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sort(InlineEngine(), tmp_path, monkeypatch)
    check_sort(InlineEngine(task_memory_bytes=64 * 1024), tmp_path / "little memory", monkeypatch)
    assert not list(scratch.iterdir())


def test_a_failed_attempt_is_not_seen(tmp_path: Path, scratch: Path) -> None:
    check_a_failed_attempt_is_not_seen(InlineEngine(), tmp_path, ("storage",))
    assert not list(scratch.iterdir())


def test_failures_are_reported_and_leave_nothing_behind(scratch: Path) -> None:
    check_failures(InlineEngine())
    assert not list(scratch.iterdir())


def test_a_cancelled_shuffle_leaves_nothing_behind(scratch: Path) -> None:
    cancel = CancelToken()
    results = InlineEngine().shuffle([numbered_job(), numbered_job(group_id=8)], STORAGE, cancel=cancel)
    next(results)
    assert list(scratch.iterdir())
    cancel.cancel()
    with pytest.raises(Cancelled):
        next(results)
    assert not list(scratch.iterdir())


def test_an_abandoned_shuffle_leaves_nothing_behind(scratch: Path) -> None:
    results = InlineEngine().shuffle([numbered_job(), numbered_job(group_id=8)], STORAGE, cancel=CancelToken())
    next(results)
    results.close()
    assert not list(scratch.iterdir())


def test_chunks_of_a_finished_shuffle_do_not_wait_for_the_next_one(scratch: Path) -> None:
    results = InlineEngine().shuffle([numbered_job(), numbered_job(group_id=8)], STORAGE, cancel=CancelToken())
    first = next(results)
    (left,) = {path.parent.name for path in scratch.rglob("map-*")}
    assert left == {7: "000001", 8: "000000"}[first.group_id]
    results.close()


class Stages(InlineEngine):
    """Remembers which tasks each run was given, and the most bytes of chunks that were on disk."""

    def __init__(self, scratch: Path, cores: int = 2) -> None:
        super().__init__(cores)
        self.stages: list[list[tuple[str, int]]] = []
        self.most_bytes = 0
        self._scratch = scratch

    def run(self, tasks: Sequence[AnyTask], *args: Any, **kwargs: Any) -> Any:
        kinds = {ScratchMapTask: "map", ScratchReduceTask: "reduce"}
        self.stages.append(list(dict.fromkeys((kinds[type(task)], task.group_id) for task in tasks)))
        for result in super().run(tasks, *args, **kwargs):
            with suppress(FileNotFoundError):  # a finished shuffle is removed
                sizes = [path.stat().st_size for path in self._scratch.rglob("map-*")]
                self.most_bytes = max(self.most_bytes, sum(sizes))
            yield result


def sized_jobs(count: int, likely: int = 1_200) -> list[ShuffleJob]:
    """Shuffles of 1,200 bytes each."""
    return [replace(numbered_job(group_id=n), scratch=ScratchNeed(likely, likely)) for n in range(count)]


@pytest.mark.parametrize(
    ("limit", "stages"),
    [
        (100_000, ["m0 m1 m2 m3", "r0 r1 r2 r3"]),
        (4_800, ["m0 m1", "r0 r1 m2 m3", "r2 r3"]),
        (2_400, ["m0", "r0 m1", "r1 m2", "r2 m3", "r3"]),
        (2_399, ["m0", "r0", "m1", "r1", "m2", "r2", "m3", "r3"]),
    ],
)
def test_shuffles_run_together_while_their_chunks_stay_within_a_limit(
    limit: int, stages: list[str], scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidyberg.execute.scratch_shuffle._BYTES_PER_CORE", limit)
    engine = Stages(scratch, cores=1)
    jobs = sized_jobs(4)
    found = shuffled(engine, *jobs)
    assert [" ".join(f"{kind[0]}{number}" for kind, number in stage) for stage in engine.stages] == stages
    assert [list(found[number].results) for number in range(4)] == [expected_results(job) for job in jobs]
    assert 1_200 <= engine.most_bytes <= max(limit, 1_200)


def test_shuffles_together_take_half_of_the_free_space_at_most(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.execute.scratch_shuffle.free_bytes", lambda _: 2 * 2_400)
    engine = Stages(scratch)
    shuffled(engine, *sized_jobs(3))
    assert [len(stage) for stage in engine.stages] == [1, 2, 2, 1]
    assert engine.most_bytes <= 2_400


def test_a_shuffle_without_an_estimate_counts_three_times_its_inputs() -> None:
    unknown = numbered_job(2, 3, 100)
    assert likely_bytes(unknown) == 3 * 2 * 100 * 10
    assert batches([unknown] * 3, 12_000) == [[0, 1], [2]]


def test_within_a_time_budget_shuffles_run_one_after_the_other(scratch: Path) -> None:
    """Otherwise many of them would have begun, and none would have finished, when the time is over."""
    engine = Stages(scratch)
    with within(TimeBudget(lambda: 60.0, 0.0, 1e9)):
        shuffled(engine, *sized_jobs(2))
    assert engine.stages == [[("map", 0)], [("reduce", 0)], [("map", 1)], [("reduce", 1)]]


def test_shuffles_of_the_same_group_number_are_not_mixed_up(scratch: Path) -> None:
    one, other = numbered_job(), numbered_job(3, 3, 200)
    results = list(InlineEngine().shuffle([one, other], STORAGE, cancel=CancelToken()))
    by_size = sorted(results, key=lambda result: -len(result.reports))
    assert [list(result.results) for result in by_size] == [expected_results(one), expected_results(other)]


def test_no_shuffles_need_no_directory(scratch: Path) -> None:
    assert shuffled(InlineEngine()) == {}
    assert not list(scratch.iterdir())


def test_a_directory_without_space_is_named(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.open

    def refuse(self: Path, *args: object, **kwargs: object) -> object:
        if self.name.startswith("map-"):
            raise OSError(28, "No space left on device")
        return original(self, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StorageError, match=r"could not be kept in .*tidyberg-shuffle-.*No space left.*Set TMPDIR"):
        shuffled(InlineEngine(), numbered_job())
    assert not list(scratch.iterdir())


def test_a_disk_that_is_full_when_the_last_chunks_are_written_is_named(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks wait in a buffer, so the disk may be full only at the end of a file, and when the file is closed."""
    original = Path.open

    def full(self: Path, *args: object, **kwargs: object) -> object:
        path = Path("/dev/full") if self.name.startswith("map-") else self
        return original(path, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageError, match=r"could not be kept in .*tidyberg-shuffle-.*No space left.*Set TMPDIR"):
        shuffled(InlineEngine(), numbered_job())
    assert not list(scratch.iterdir())


def test_a_full_disk_is_named_but_hides_no_other_failure() -> None:
    def write_chunk(failure: KernelFailure | None) -> None:
        with Path("/dev/full").open("wb") as file, closing_chunk_file(file, "/somewhere/chunks"):
            file.write(b"chunk")
            if failure is not None:
                raise failure

    with pytest.raises(KernelFailure, match="could not be kept in /somewhere"):
        write_chunk(None)
    with pytest.raises(KernelFailure, match=r"Stopped on request\."):
        write_chunk(KernelFailure(FailureKind.STOPPED, "Stopped on request."))


def test_a_full_disk_under_a_task_that_spills_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: open("/dev/full", "r+b", buffering=4096))  # noqa: SIM115
    for rows in (1, 100_000):
        table = pa.table({"id": np.random.default_rng(1).integers(0, 2**60, rows)})
        spill = SpillFile(table.schema)
        with pytest.raises(KernelFailure, match=r"temporary directory .*No space left on device.*set TMPDIR"):
            spill.read(spill.write(table)[0])
        spill.close()


def test_what_a_killed_process_left_is_removed_and_the_rest_is_not(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal\n"
        "from tidyberg.execute.scratch_directories import scratch_directory\n"
        "with scratch_directory(sys.argv[1]) as made:\n"
        "    (made / 'map-000000-a00').write_bytes(b'chunks')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    young = tmp_path / "tidyberg-shuffle-young"
    young.mkdir()
    old = tmp_path / "tidyberg-shuffle-old"
    old.mkdir()
    os.utime(old, (time.time() - 3_600,) * 2)
    link = tmp_path / "tidyberg-shuffle-link"
    link.symlink_to(tmp_path / "precious")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "lock").touch()
    with scratch_directory(str(tmp_path)) as used:
        assert not left.exists()
        assert not old.exists()
        remove_dead(tmp_path)
        assert used.exists()
        with (used / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", link.name, young.name]
    assert (tmp_path / "precious" / "lock").exists()


@pytest.mark.parametrize("ending", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_what_the_spark_of_a_process_left_is_removed_by_the_next_one(tmp_path: Path, ending: str) -> None:
    code = (
        "import os, signal\n"
        "from tidyberg.execute.spark.engine import SparkEngine\n"
        "engine = SparkEngine('local[1]')\n"
        "(engine._directory() / 'spark.log').touch()\n"
    )
    for last in (ending, "pass"):
        subprocess.run(
            [sys.executable, "-c", code + last], env={**os.environ, "TMPDIR": str(tmp_path)}, check=last == "pass"
        )
        assert bool(list(tmp_path.glob("tidyberg-spark-*"))) == (last != "pass")


def test_a_new_directory_is_never_taken_for_that_of_a_dead_process(tmp_path: Path) -> None:
    """Other processes look for dead ones at any moment, also between the steps in which a directory is made."""
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            remove_dead(tmp_path)

    others = [threading.Thread(target=look) for _ in range(3)]
    for other in others:
        other.start()
    try:
        for number in range(150):
            with scratch_directory(str(tmp_path)) as used:
                (used / "map-000000-a00").write_bytes(b"chunks")
                assert (used / "lock").exists(), number
    finally:
        done.set()
        for other in others:
            other.join()
    assert not list(tmp_path.iterdir())
