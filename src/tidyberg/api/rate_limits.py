"""Limits the request rate with a token bucket per principal or address."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tidyberg.api.refusals import RateLimited

_MOST_BUCKETS = 10_000  # the least recently used bucket is full again when it is dropped


@dataclass
class _Bucket:
    tokens: float
    seen: float


class RateLimiter:
    """Use it in the event loop only."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> None:
        """Counts one request. Raises RateLimited if the bucket is empty."""
        now = self._clock()
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, now))
        self._buckets.move_to_end(key)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.seen) * self._per_second)
        bucket.seen = now
        if bucket.tokens < 1:
            seconds = math.ceil((1 - bucket.tokens) / self._per_second)
            raise RateLimited("Too many requests.", hint=f"Try again in {seconds} s.", retry_after_seconds=seconds)
        bucket.tokens -= 1
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
