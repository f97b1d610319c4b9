"""The clock of the shared store. All replicas use it for claims and leases."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tidyberg.errors import TidybergError
from tidyberg.record.clock import wall_clock_ms

log = logging.getLogger(__name__)

MEASURE_SECONDS = 30.0
_SLOWEST_ANSWER_MS = 1000  # a slower answer is too inaccurate
_SMALLEST_STEP_MS = 250  # smaller differences are ignored
_WORTH_A_WARNING_MS = 2000
_ASK_AGAIN_SECONDS = 1.0


class StoreClock:
    """Corrects the local clock. With a wrong clock, a replica would take over jobs of others or lose its own."""

    def __init__(
        self,
        ask: Callable[[], int],
        on_skew: Callable[[float], None] = lambda _: None,
        local_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._ask = ask
        self._on_skew = on_skew
        self._local_ms = local_ms
        self._lock = threading.Lock()
        self._offset_ms = 0
        self._is_known = False
        self._asked = float("-inf")

    def __call__(self) -> int:
        if not self._is_known and self._lock.acquire(blocking=False):
            try:
                if time.monotonic() - self._asked >= _ASK_AGAIN_SECONDS:
                    with suppress(TidybergError):  # without the store, nothing can be claimed either
                        self._measure()
            finally:
                self._lock.release()
        return self._local_ms() + self._offset_ms

    def measure(self) -> None:
        with self._lock:
            self._measure()

    def _measure(self) -> None:
        self._asked = time.monotonic()
        before = self._local_ms()
        there = self._ask()
        after = self._local_ms()
        if after - before > _SLOWEST_ANSWER_MS:
            return
        offset = there - (before + after) // 2
        self._on_skew(-offset / 1000)
        if self._is_known and abs(offset - self._offset_ms) < _SMALLEST_STEP_MS:
            return
        if abs(offset) >= _WORTH_A_WARNING_MS:
            words = "the local clock is %.1f s %s the clock of the store, which is used; synchronize both with NTP"
            log.warning(words, abs(offset) / 1000, "behind" if offset > 0 else "ahead of")
        self._offset_ms, self._is_known = offset, True
