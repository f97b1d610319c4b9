"""The limits of a function: its memory and cores, and the time that one invocation has left."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidyberg.errors import ConfigurationError
from tidyberg.execute.engine import CancelToken

MEMORY_VARIABLE = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
MB_PER_CORE = 1769  # Lambda gives a function of this size one core
SMALLEST_MEMORY_MB, LARGEST_MEMORY_MB = 128, 10_240
LONGEST_SECONDS = 900.0  # of an invocation
_LAST_SECONDS = 2.0  # in which the answer is sent


def cores_of(memory_mb: int) -> float:
    """Return the share of cores that Lambda gives a function of this size."""
    return memory_mb / MB_PER_CORE


@dataclass(frozen=True)
class FunctionSize:
    memory_mb: int

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> "FunctionSize | None":
        """Return None outside of Lambda, where the machine is the limit."""
        text = environ.get(MEMORY_VARIABLE)
        if not text:
            return None
        if not text.isdecimal() or int(text) < SMALLEST_MEMORY_MB:
            raise ConfigurationError(
                f"{MEMORY_VARIABLE} is {text!r}, which is no memory size of a function.",
                hint=f"Lambda sets it. Locally, set it to {SMALLEST_MEMORY_MB} or more, in MB.",
            )
        return cls(int(text))

    @property
    def memory_gb(self) -> float:
        return self.memory_mb / 1024

    @property
    def tasks_at_once(self) -> int:
        """One task per core that the function has, whatever number of cores the sandbox shows."""
        return max(1, min(round(cores_of(self.memory_mb)), os.cpu_count() or 1))


class Deadline:
    """When one invocation will be killed, as its context says."""

    def __init__(self, context: Any, reserve_seconds: float) -> None:
        remaining = getattr(context, "get_remaining_time_in_millis", None)
        self._seconds_left = _counting_down(LONGEST_SECONDS) if remaining is None else lambda: remaining() / 1000
        # A function with a very short limit still needs some time to work.
        self.reserve_seconds = min(reserve_seconds, self.seconds_left / 4)

    @property
    def seconds_left(self) -> float:
        return float(self._seconds_left())

    @property
    def working_seconds(self) -> float:
        """The time that is left without the reserve."""
        return self.seconds_left - self.reserve_seconds

    def left(self) -> float:
        return self.seconds_left

    @contextmanager
    def cancelling(self) -> Iterator[CancelToken]:
        """Cancel whatever still runs shortly before the end, such as the deletion of expired files."""
        token = CancelToken()
        last = min(_LAST_SECONDS, self.reserve_seconds / 3)
        timer = threading.Timer(max(0.0, self.seconds_left - last), token.cancel)
        timer.daemon = True
        timer.start()
        try:
            yield token
        finally:
            timer.cancel()


def _counting_down(seconds: float) -> Callable[[], float]:
    ends = time.monotonic() + seconds
    return lambda: ends - time.monotonic()
