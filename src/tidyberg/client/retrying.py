"""When a client asks again, and when it gives up."""

import random
import time
from dataclasses import dataclass, field

import httpx

from tidyberg.client.models import RemoteJob
from tidyberg.client.responses import error_of
from tidyberg.errors import ServiceUnreachable, TidybergError, Transient

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass
class Retrying:
    """Of one call. Raises what went wrong last when it has been tried often enough, or when trying cannot help."""

    retries: int
    url: httpx.URL
    _failures: int = 0
    _asked_for: float | None = None

    def worked(self) -> None:
        self._failures = 0

    def failed(self, error: httpx.TransportError) -> None:
        """No answer came."""
        if self._failures >= self.retries:
            where = f"{self.url.scheme}://{self.url.netloc.decode()}"
            raise ServiceUnreachable(
                f"No tidyberg service answers at {where} ({str(error) or type(error).__name__}).",
                hint="Is `tidyberg serve` running there? --server names another address.",
            ) from error
        self._again(None)

    def refused(self, response: httpx.Response) -> None:
        error: TidybergError = error_of(response)
        if not isinstance(error, Transient) or self._failures >= self.retries:
            raise error
        asked = response.headers.get("Retry-After", "")
        self._again(float(asked) if asked.isdigit() else None)

    def pause(self) -> float:
        """How long to wait now, so that not all clients come back at once."""
        if self._asked_for is not None:
            return min(self._asked_for, LONGEST_PAUSE_SECONDS)
        most: float = min(FIRST_PAUSE_SECONDS * 2**self._failures, LONGEST_PAUSE_SECONDS)
        return most * random.uniform(0.5, 1.0)  # noqa: S311

    def _again(self, asked_for: float | None) -> None:
        self._failures += 1
        self._asked_for = asked_for


@dataclass
class JobPolling:
    """Of one who waits for a job to end."""

    job_id: str
    seconds: float | None
    _began: float = field(default_factory=time.monotonic)
    _pause: float = 0.2

    def pause(self, job: RemoteJob) -> float:
        if self.seconds is not None and time.monotonic() - self._began >= self.seconds:
            raise TimeoutError(f"RemoteJob {self.job_id} is still {job.status.value} after {self.seconds} s.")
        pause, self._pause = self._pause, min(self._pause * 1.5, 5.0)
        return pause
