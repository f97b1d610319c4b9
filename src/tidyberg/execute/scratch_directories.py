"""Directories for the chunks of shuffles. Each is locked by its process, so that those of dead processes are found."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "tidyberg-shuffle-"
_NEW_PREFIX = "tidyberg-new-shuffle-"
_LOCK = "lock"
_YOUNG_SECONDS = 600.0  # a directory without a lock may just have been made, or its removal has begun
_REMOVALS = 20
_PAUSE_SECONDS = 0.1  # a late worker may write a file while its directory is removed


@contextlib.contextmanager
def scratch_directory(parent: str | None = None) -> Iterator[Path]:
    """Makes a directory and removes it at the end. First removes directories that killed processes have left."""
    root = Path(parent or tempfile.gettempdir())
    remove_dead(root)
    # It is locked before it gets the name that others look for, so that none takes it for that of a dead process.
    directory = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=root))
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory = directory.rename(directory.with_name(directory.name.replace(_NEW_PREFIX, _PREFIX)))
        yield directory
    finally:
        remove_directory(directory)
        os.close(lock)


def remove_directory(directory: Path) -> None:
    for _ in range(_REMOVALS):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(_PAUSE_SECONDS)


def remove_dead(root: Path) -> None:
    """Removes this user's scratch directories whose process has ended. The system frees its locks then."""
    for directory in [*root.glob(f"{_PREFIX}*"), *root.glob(f"{_NEW_PREFIX}*")]:
        with contextlib.suppress(OSError):
            status = directory.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _is_dead(directory, status.st_mtime):
                remove_directory(directory)


def _is_dead(directory: Path, made: float) -> bool:
    is_old = time.time() - made > _YOUNG_SECONDS
    if directory.name.startswith(_NEW_PREFIX):
        return is_old
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return is_old
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
