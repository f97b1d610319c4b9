"""Brings what was written to a file to the disk, once for all threads that wait for it."""

import errno
import os
import threading
from pathlib import Path

_sync = getattr(os, "fdatasync", os.fsync)


class SharedSync:
    """A disk answers some hundred times a second: who comes while it is asked shares its next answer with others."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb+", buffering=0)
        self._changed = threading.Condition()
        self._asked = self._answered = 0
        self._failure: OSError | None = None

    def wait(self) -> None:
        """Until all that was written before has reached the disk. OSError: it may not have.

        An operating system tells once that writes were lost, and calls the file clean from then on. So after a failure
        nothing is called durable any more.
        """
        with self._changed:
            enough = self._asked + 1  # a question under way may have been put before our write
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
