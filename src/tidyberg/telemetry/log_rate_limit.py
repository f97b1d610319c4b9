"""Limits log lines that clients can cause at will, and reports how many lines were dropped."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LINES = 20  # per kind and window
WINDOW_SECONDS = 10.0
_MOST_KINDS = 200


def rate_limited(name: str) -> dict[str, str]:
    """Returns the `extra` argument of a log call whose lines are limited."""
    return {"rate_limited": name}


@dataclass
class _Window:
    began: float
    lines: int = 0


class LogRateLimit(logging.Filter):
    """Limits the lines of each kind within a window. For uvicorn, the kind is the message without arguments."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        name = getattr(record, "rate_limited", None)
        if name is None and record.name.startswith("uvicorn") and record.levelno >= logging.WARNING:
            name = str(record.msg)
        if name is None:
            return True
        with self._lock:
            return self._may_pass(record, name)

    def _may_pass(self, record: logging.LogRecord, name: str) -> bool:
        now = self._clock()
        window = self._windows.get(name)
        if window is None or now - window.began >= WINDOW_SECONDS:
            left_out = window.lines - LINES if window is not None else 0
            if window is None and len(self._windows) >= _MOST_KINDS:
                self._windows.clear()
            window = self._windows[name] = _Window(now)
            if left_out > 0:
                more = "1 line like this one was" if left_out == 1 else f"{left_out} lines like this one were"
                record.msg = f"{record.getMessage()} ({more} left out)"
                record.args = ()
        window.lines += 1
        return window.lines <= LINES
