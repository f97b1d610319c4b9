"""Syncs a file to disk once for all threads that wait for it."""

import errno
import os
import threading
from pathlib import Path

_sync = getattr(os, "fdatasync", os.fsync)


class SharedSync:
    """A disk syncs only a few hundred times per second. Callers that arrive during a sync share the next one."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb+", buffering=0)
        self._changed = threading.Condition()
        self._asked = self._answered = 0
        self._failure: OSError | None = None

    def wait(self) -> None:
        """Wait until all earlier writes are on disk. OSError means that they may not be.

        An operating system reports lost writes only once, and later syncs succeed. So after a failure, every further
        call fails.
        """
        with self._changed:
            enough = self._asked + 1  # a sync that is running may have started before our write
            self._changed.wait_for(lambda: self._answered >= enough or self._asked == self._answered)
            if self._failure is not None:
                raise OSError(*self._failure.args)
            if self._answered >= enough:
                return
            if self._file.closed:
                raise OSError(errno.EBADF, "it is closed")
            self._asked += 1
        try:
            _sync(self._file.fileno())
        except OSError as error:
            self._failure = error
            raise
        finally:
            with self._changed:
                self._answered = self._asked
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._asked == self._answered)
            self._file.close()
