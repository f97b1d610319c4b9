"""Simulates the schedulers of several replicas on one store and one clock, with any interleaving of their calls."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.builders.job_stores import Place
from tests.builders.services import FakeClock
from tidyberg.app import build_control
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Query, Submission
from tidyberg.record.records import Records
from tidyberg.service.scheduler import Scheduler
from tidyberg.service.service import Service
from tidyberg.settings.settings import Settings

_PATIENCE_SECONDS = 60.0


class KilledError(BaseException):
    """Kills a thread. A BaseException, so that no handler in between catches it."""


class _Gated:
    """A part of the records whose calls wait until the test releases them."""

    def __init__(self, real: Any, before: Callable[[str, Any], None]) -> None:
        self._real, self._before = real, before

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._before(name, kwargs.get("key"))
            return real(*args, **kwargs)

        return call


@dataclass
class Replica:
    """Runs its look in a thread. The test steps it from one store call to the next."""

    settings: Settings
    place: Place
    clock: FakeClock
    keys: set[str]  # idempotency keys that any replica tried to submit
    killed: bool = False
    _may_go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _thread: threading.Thread | None = None
    _failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._records = self.place.open()
        self.start()

    def start(self) -> None:
        """Starts like a new process, without memory."""
        gated = Records(
            self._records.store, _Gated(self._records.queue, self._gate), _Gated(self._records.ledger, self._gate)
        )
        control = build_control(self.settings, self._records.store)
        self.scheduler = Scheduler(Service(self.settings, control, gated, now_ms=self.clock))
        self.killed = False

    @property
    def is_looking(self) -> bool:
        return self._thread is not None

    def step(self) -> None:
        """Starts a look, or continues to the next store call."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        else:
            self._may_go.release()
        assert self._stopped.acquire(timeout=_PATIENCE_SECONDS), "a replica hangs"
        if self._failure is not None:
            raise self._failure

    def look(self) -> None:
        self.step()
        while self.is_looking:
            self.step()

    def kill(self) -> None:
        self.killed = True
        while self.is_looking:
            self.step()

    def close(self) -> None:
        self.kill()
        self._records.close()

    def _look(self) -> None:
        try:
            self.scheduler.look()
        except KilledError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the test
            self._failure = error
        self._thread = None
        self._stopped.release()

    def _gate(self, name: str, key: str | None) -> None:
        if threading.current_thread() is not self._thread:
            return
        self._stopped.release()
        assert self._may_go.acquire(timeout=_PATIENCE_SECONDS), "nobody lets it go on"
        if self.killed:
            raise KilledError
        if name == "submit" and key is not None:
            self.keys.add(key)


@dataclass
class Crowd:
    replicas: list[Replica]
    clock: FakeClock
    observer: Records
    draw: random.Random
    keys: set[str]

    def pass_time(self, until_ms: int, longest_pause_ms: int) -> None:
        """One replica always looks in time. The others sleep, die, start and delay between any two calls."""
        asleep_until = [0] * len(self.replicas)
        while self.clock.now_ms < until_ms:
            self.clock.now_ms = min(until_ms, self.clock.now_ms + self.draw.randrange(1_000, longest_pause_ms))
            keeper = self.draw.randrange(len(self.replicas))
            for number in self.draw.sample(range(len(self.replicas)), len(self.replicas)):
                replica = self.replicas[number]
                if number == keeper:
                    self._finish_look(replica)
                    replica.look()
                    asleep_until[number] = 0
                elif asleep_until[number] <= self.clock.now_ms:
                    self._dawdle(replica)
                    if self.draw.random() < 0.1:
                        asleep_until[number] = self.clock.now_ms + self.draw.randrange(10_000_000)
                self.run_jobs()
        for replica in self.replicas:
            self._finish_look(replica)
            replica.look()

    def run_jobs(self) -> None:
        """Finishes all queued jobs, so that none blocks a later one."""
        queue, now_ms = self.observer.queue, self.clock.now_ms
        while (job := queue.claim("test", now_ms=now_ms, ttl_ms=60_000, limits=Limits(1000))) is not None:
            assert job.claim is not None
            assert queue.finish(job.job_id, job.claim.token, JobStatus.SUCCEEDED, now_ms=now_ms, changes={})

    def submissions(self) -> list[Submission]:
        found: list[Submission] = []
        cursor = None
        while True:
            page = self.observer.queue.submissions(Query(limit=500, cursor=cursor))
            found += page.submissions
            if (cursor := page.next) is None:
                return found

    def _finish_look(self, replica: Replica) -> None:
        if replica.killed:
            replica.start()
        while replica.is_looking:
            replica.step()

    def _dawdle(self, replica: Replica) -> None:
        if replica.killed:
            replica.start()
        for _ in range(self.draw.randrange(12)):
            replica.step()
            if self.draw.random() < 0.3:
                self.run_jobs()
        if self.draw.random() < 0.1:
            replica.kill()


@contextmanager
def crowd(settings: Settings, place: Place, start_ms: int, draw: random.Random, size: int = 3) -> Iterator[Crowd]:
    clock, keys, observer = FakeClock(start_ms), set[str](), place.open()
    replicas = [Replica(settings, place, clock, keys) for _ in range(size)]
    try:
        for replica in replicas:
            replica.look()
        yield Crowd(replicas, clock, observer, draw, keys)
    finally:
        for replica in replicas:
            replica.close()
        observer.close()
