"""When a client retries, when it gives up, and how often it polls."""

import time
from dataclasses import dataclass, field

import httpx

from tidyberg.client.models import RemoteJob
from tidyberg.client.responses import error_of
from tidyberg.errors import ServiceUnreachable, TidybergError, Transient
from tidyberg.model.retry import backoff_seconds

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass
class Retrying:
    """The retries of one call. Raises the last error after too many tries, or if a retry cannot help."""

    retries: int
    url: httpx.URL
    _failures: int = 0
    _asked_for: float | None = None

    def worked(self) -> None:
        self._failures = 0

    def failed(self, error: httpx.TransportError) -> None:
        """Records that no response arrived."""
        if self._failures >= self.retries:
            where = f"{self.url.scheme}://{self.url.netloc.decode()}"
            raise ServiceUnreachable(
                f"No tidyberg service answers at {where} ({str(error) or type(error).__name__}).",
                hint="Check that `tidyberg serve` is running there, or use --server for another address.",
            ) from error
        self._again(None)

    def refused(self, response: httpx.Response) -> None:
        error: TidybergError = error_of(response)
        if not isinstance(error, Transient) or self._failures >= self.retries:
            raise error
        retry_after = response.headers.get("Retry-After", "")
        self._again(float(retry_after) if retry_after.isdigit() else None)

    def pause(self) -> float:
        """Returns how long to wait before the next try, with jitter."""
        if self._asked_for is not None:
            return min(self._asked_for, LONGEST_PAUSE_SECONDS)
        return backoff_seconds(self._failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)

    def _again(self, asked_for: float | None) -> None:
        self._failures += 1
        self._asked_for = asked_for


@dataclass
class JobPolling:
    """How long a client waits between two checks of a job, and in total."""

    job_id: str
    seconds: float | None
    _began: float = field(default_factory=time.monotonic)
    _pause: float = 0.2

    def pause(self, job: RemoteJob) -> float:
        if self.seconds is not None and time.monotonic() - self._began >= self.seconds:
            raise TimeoutError(f"RemoteJob {self.job_id} is still {job.status.value} after {self.seconds} s.")
        pause, self._pause = self._pause, min(self._pause * 1.5, 5.0)
        return pause
