"""Shuffles in this process, and the directories that they use."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.builders.shuffles import numbered_job
from tests.builders.tasks import STORAGE
from tests.execute.shuffle_checks import (
    check_a_failed_attempt_is_not_seen,
    check_every_chunk_arrives_once,
    check_failures,
    check_sort,
    shuffled,
)
from tidyberg.errors import Cancelled, StorageError
from tidyberg.execute.engine import CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.scratch_directories import remove_dead, scratch_directory


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
    next(results)
    assert not list(scratch.rglob("map-*"))
    results.close()


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
