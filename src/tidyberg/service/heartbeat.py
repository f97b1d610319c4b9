"""Renews the claim while a job runs, and stops the run if the claim is lost or the job is cancelled."""

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType

from tidyberg.errors import TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.submission import Submission
from tidyberg.record.queue import JobQueue

BEATS_PER_CLAIM = 4


class StopReason(StrEnum):
    CANCELLED = "cancelled"  # a user cancelled the job
    SHUTDOWN = "shutdown"  # the service stops and another worker continues the job
    LOST = "lost"  # another worker has the job, or may have it


class Heartbeat:
    """A context manager around a run. `stopped` is the reason why the run was stopped, or None."""

    def __init__(
        self,
        queue: JobQueue,
        submission: Submission,
        cancel: CancelToken,
        *,
        ttl_ms: int,
        now_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert submission.claim is not None
        self._queue = queue
        self._job_id = submission.job_id
        self._token = submission.claim.token
        self._cancel = cancel
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped: StopReason | None = None
        self._ended = threading.Event()
        self._heard = clock()
        self._thread = threading.Thread(target=self._beat_until_ended, name="tidyberg-heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def stopped(self) -> StopReason | None:
        return self._stopped

    @property
    def is_lost(self) -> bool:
        return self._stopped is StopReason.LOST

    def stop(self, why: StopReason) -> None:
        """Stops the run. The first reason stays, except that a lost claim replaces any other."""
        with self._lock:
            if self._stopped is None or why is StopReason.LOST:
                self._stopped = why
        self._cancel.cancel()

    def _beat_until_ended(self) -> None:
        while not self._ended.wait(self._ttl_ms / 1000 / BEATS_PER_CLAIM):
            self._beat()
            if self.is_lost:
                return

    def _beat(self) -> None:
        try:
            answer = self._queue.beat(self._job_id, self._token, now_ms=self._now_ms(), ttl_ms=self._ttl_ms)
        except TidybergError:
            # The store may recover in time. Once the claim may have expired, another worker may have the job.
            if (self._clock() - self._heard) * 1000 >= self._ttl_ms:
                self.stop(StopReason.LOST)
            return
        self._heard = self._clock()
        if answer == "lost":
            self.stop(StopReason.LOST)
        elif answer == "cancel":
            self.stop(StopReason.CANCELLED)
