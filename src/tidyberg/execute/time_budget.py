"""The time that a process may still run, for platforms that kill a function at its time limit.

The budget is a context variable, because the entry point of the function, which knows it, is several calls above the
engine, and the calls between them, such as table operations, do not depend on it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from statistics import median

_MARGIN = 1.25  # tasks of the same size differ by that much
_COMMIT_SECONDS = 15.0  # what a killed process loses at most, apart from groups that it was still rewriting
_WORST_GUESS = 4.0  # before a task has finished, the speed is a guess that may be wrong by that much


class TimeBudget:
    """Says which tasks may start, and when all must stop. Threads may share it."""

    def __init__(self, seconds_left: Callable[[], float], reserve_seconds: float, bytes_per_second: float) -> None:
        """`reserve_seconds` are kept for commits and clean-up. `bytes_per_second` is the expected speed of a task."""
        self._seconds_left = seconds_left
        self._reserve = reserve_seconds
        self._expected = bytes_per_second
        self._whole = self.seconds_left
        self._measured: list[float] = []
        self._committed = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float:
        """The time for tasks. The reserve is not part of it."""
        return self._seconds_left() - self._reserve

    @property
    def is_over(self) -> bool:
        return self.seconds_left <= 0

    def has_time_for(self, size: int) -> bool:
        """Returns True if a task that reads so many bytes may start.

        As long as no task has finished, a task may start if it could fit: otherwise a wrong guess would start nothing,
        in this run and in every later one.
        """
        with self._lock:
            if not self._measured:
                return not self.is_over and not self.is_too_large(size)
            return size / median(self._measured) * _MARGIN <= self.seconds_left

    def too_large(self, sizes: Iterable[int]) -> int:
        return sum(map(self.is_too_large, sizes))

    def is_too_large(self, size: int) -> bool:
        """Returns True if the whole budget is not enough for a task that reads so many bytes."""
        return size / (self._expected * _WORST_GUESS) > self._whole

    def wants_commit(self) -> bool:
        """Returns True if finished groups should be committed now, because the process may be killed later."""
        return time.monotonic() - self._committed >= _COMMIT_SECONDS

    def note_commit(self) -> None:
        self._committed = time.monotonic()

    def note(self, size: int, seconds: float) -> None:
        """Learn from a finished task."""
        if size and seconds > 0:
            with self._lock:
                self._measured.append(size / seconds)


_BUDGET: ContextVar[TimeBudget | None] = ContextVar("tidyberg_time_budget", default=None)


def current_budget() -> TimeBudget | None:
    return _BUDGET.get()


@contextmanager
def within(budget: TimeBudget) -> Iterator[None]:
    """Engines that are called in this block stop in time."""
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)
