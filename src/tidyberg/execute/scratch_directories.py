"""Temporary directories. Each is locked by its process, so that those of dead processes are found and removed."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SHUFFLE = "shuffle"
_PREFIX = "tidyberg-{}-"  # with the kind of the directory
_NEW_PREFIX = "tidyberg-new-{}-"
_LOCK = "lock"
_YOUNG_SECONDS = 600.0  # a directory without a lock may just have been made, or its removal has begun
_REMOVALS = 20
_PAUSE_SECONDS = 0.1  # a late worker may write a file while its directory is removed


@contextlib.contextmanager
def scratch_directory(parent: str | None = None, kind: str = SHUFFLE) -> Iterator[Path]:
    """Makes a directory and removes it at the end. First removes those of its kind that killed processes have left."""
    root = Path(parent or tempfile.gettempdir())
    remove_dead(root, kind)
    # It is locked before it gets the name that others look for, so that none takes it for that of a dead process.
    made, final = _NEW_PREFIX.format(kind), _PREFIX.format(kind)
    directory = Path(tempfile.mkdtemp(prefix=made, dir=root))
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory = directory.rename(directory.with_name(directory.name.replace(made, final)))
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


def remove_dead(root: Path, kind: str = SHUFFLE) -> None:
    """Removes this user's directories of a kind whose process has ended. The system frees its locks then."""
    for prefix in (_PREFIX, _NEW_PREFIX):
        for directory in root.glob(f"{prefix.format(kind)}*"):
            with contextlib.suppress(OSError):
                status = directory.lstat()
                is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
                if is_ours and _is_dead(directory, status.st_mtime, is_new=prefix == _NEW_PREFIX):
                    remove_directory(directory)


def _is_dead(directory: Path, made: float, *, is_new: bool) -> bool:
    is_old = time.time() - made > _YOUNG_SECONDS
    if is_new:
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
