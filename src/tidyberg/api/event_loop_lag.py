"""How far the event loop is behind: what arrives waits so long before anybody looks at it."""

import asyncio

_EVERY_SECONDS = 0.05
_PATIENCE = 5


class LoopLag:
    """Starts with the loop it measures."""

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
        """Submissions can come later; whoever looks at jobs meanwhile wants to know now, and is let in longer."""
        return self.seconds() > (seconds if method == "POST" else _PATIENCE * seconds)

    def _overdue(self) -> float:
        return max(0.0, self._loop.time() - self._due) if self._loop is not None else 0.0

    def _expect(self) -> None:
        assert self._loop is not None
        self._due = self._loop.time() + _EVERY_SECONDS
        self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._last = self._overdue()
        self._expect()
