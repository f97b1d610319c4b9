"""Measures the cost of calls so that two calls in one process can be compared. Seconds alone mean little here."""

import gc
import time
from collections.abc import Callable


def cpu_of(act: Callable[[], object], times: int = 2) -> float:
    """The least CPU seconds of several runs. What earlier tests left behind is kept from the collector meanwhile."""
    gc.collect()
    gc.freeze()
    try:
        return min(_once(act) for _ in range(times))
    finally:
        gc.unfreeze()


def _once(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start
