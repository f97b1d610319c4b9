"""The worker threads that claim and run jobs."""

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from tidyberg.errors import TidybergError
from tidyberg.model.submission import Limits, Submission
from tidyberg.record.queue import JobQueue
from tidyberg.service.attempt import Attempt
from tidyberg.settings.serving import Queue

log = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 15.0  # between calls to a store that does not answer
_CANCEL_SECONDS = 60.0  # how long a cancelled run may clean up


@dataclass
class Workers:
    queue: JobQueue
    settings: Queue
    limits: Callable[[], Limits]
    begin: Callable[[Submission], Attempt]
    now_ms: Callable[[], int]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _news: threading.Condition = field(default_factory=threading.Condition)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _running: dict[str, Attempt] = field(default_factory=dict)  # by worker
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        for number in range(self.settings.workers):
            thread = threading.Thread(
                target=self._work, args=(f"{name}:{number}",), name=f"tidyberg-worker-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def wake(self) -> None:
        """Wakes a worker, because this process queued a job."""
        with self._news:
            self._news.notify()

    def claim_no_more(self) -> None:
        self._stopping.set()
        with self._news:
            self._news.notify_all()

    def stop(self) -> bool:
        """Claims no more jobs, waits for the grace time, then cancels. Returns False if a run still continues."""
        self.claim_no_more()
        if self._join(self.settings.grace_seconds):
            return True
        with self._lock:
            for attempt in self._running.values():
                attempt.stop()
        return self._join(_CANCEL_SECONDS)

    def _join(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, worker: str) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                claimed = self._claim(worker)
                failures = 0
            except Exception as error:
                failures += 1
                if not isinstance(error, TidybergError):
                    log.exception("claiming a job failed unexpectedly")
                elif failures == 1:
                    log.warning("the queue does not answer, so workers wait: %s", error)
                self._stopping.wait(min(_LONGEST_PAUSE_SECONDS, 0.5 * 2.0 ** min(failures, 10)))
                continue
            if claimed is None:
                with self._news:
                    if not self._stopping.is_set():
                        self._news.wait(self.settings.poll_seconds * random.uniform(0.8, 1.2))  # noqa: S311
                continue
            self._run(worker, claimed)

    def _claim(self, worker: str) -> Submission | None:
        ttl_ms = round(self.settings.claim_seconds * 1000)
        return self.queue.claim(worker, now_ms=self.now_ms(), ttl_ms=ttl_ms, limits=self.limits())

    def _run(self, worker: str, submission: Submission) -> None:
        attempt = self.begin(submission)
        with self._lock:
            self._running[worker] = attempt
        try:
            attempt.run()
        except Exception:
            log.exception("job %s: its attempt ended unexpectedly", submission.job_id)  # its claim expires
        finally:
            with self._lock:
                del self._running[worker]
