"""Measures how late the event loop runs. A new request waits this long before it is read."""

import asyncio

_EVERY_SECONDS = 0.05
_READ_TOLERANCE = 5  # reads are accepted up to this many times the limit


class LoopLag:
    """The lag of the event loop in which `start` is called."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._last = 0.0

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._expect()

    def seconds(self) -> float:
        return max(self._last, self._overdue())

    def is_beyond(self, seconds: float, method: str) -> bool:
        """Returns True if a request must be refused. Submissions are refused before reads."""
        return self.seconds() > (seconds if method == "POST" else _READ_TOLERANCE * seconds)

    def _overdue(self) -> float:
        return max(0.0, self._loop.time() - self._due) if self._loop is not None else 0.0

    def _expect(self) -> None:
        assert self._loop is not None
        self._due = self._loop.time() + _EVERY_SECONDS
        self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._last = self._overdue()
        self._expect()
