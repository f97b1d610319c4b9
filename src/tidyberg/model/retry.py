"""The retry policy of commits, and the waits that all of tidyberg's own retry loops share.

tenacity runs the loops that only repeat a call (`record/redis_client.py`, `commit/outputs.py`). Three loops stay ours,
because they need what tenacity does not know. A commit looks in the table for its last attempt before it sends another
one. A client obeys `Retry-After` and starts to count again when a stream makes progress. A job does not sleep between
attempts: it goes back to the queue, and any replica may take it. Kernels do not use tenacity: executors may lack it.
"""

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits how often, and for how long, a commit that lost a race is sent again. There are no other defaults."""

    retries: int = 10
    min_wait_ms: int = 100
    max_wait_ms: int = 10_000
    total_timeout_ms: int = 1_800_000

    def wait_seconds(self, attempt: int, rng: random.Random) -> float:
        """Returns how long to wait after this attempt. The first attempt is 0."""
        return backoff_seconds(attempt, self.min_wait_ms / 1000, self.max_wait_ms / 1000, rng)


def backoff_seconds(attempt: int, shortest: float, longest: float, rng: random.Random | None = None) -> float:
    """The wait doubles with each attempt, up to `longest`. Jitter keeps two losers of a race from meeting again."""
    wait = min(longest, shortest * 2.0 ** min(attempt, _MOST_DOUBLINGS))
    return wait * (rng or random).uniform(0.5, 1.0)
