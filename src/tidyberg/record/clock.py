"""The wall clock, which is the default clock of tidyberg."""

import time


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
