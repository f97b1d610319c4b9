"""Keeps a claim while its job runs, and stops the run when the claim is lost or somebody wants it to end."""

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
    CANCELLED = "cancelled"  # somebody asked for it
    SHUTDOWN = "shutdown"  # the service stops: the job is for another to go on with
    LOST = "lost"  # another worker has the job, or may have it


class Heartbeat:
    """A context manager around a run. `stopped` says why the run was told to stop, None while it was not."""

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
        """The first reason stays, but that the claim is lost goes before all others."""
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
            # The store may answer again in time. Once the claim may have run out there, another may have the job.
            if (self._clock() - self._heard) * 1000 >= self._ttl_ms:
                self.stop(StopReason.LOST)
            return
        self._heard = self._clock()
        if answer == "lost":
            self.stop(StopReason.LOST)
        elif answer == "cancel":
            self.stop(StopReason.CANCELLED)
