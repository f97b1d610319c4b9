"""Decides how often and after how long a commit that lost a race is sent again."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    retries: int = 20
    min_wait_ms: int = 100
    max_wait_ms: int = 10_000
    total_timeout_ms: int = 600_000

    def wait_seconds(self, attempt: int, rng: random.Random) -> float:
        """Grows exponentially, with jitter, so that two losers do not collide again."""
        longest: int = min(self.max_wait_ms, self.min_wait_ms << min(attempt, 20))
        return rng.uniform(0.5, 1.0) * longest / 1000
