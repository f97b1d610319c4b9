"""Jobs that somebody watches: one look at the store for all of them, however many streams there are.

A stream keeps only the number of the last event that it sent. The newest events of a watched job are held here, already
encoded; a stream that is further behind reads the store. So a slow reader holds no memory, and no event is lost.
"""

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from tidyberg.api.answers import moment_text
from tidyberg.api.refusals import Overloaded, RateLimited
from tidyberg.errors import Transient
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import JobEvent, JobNews
from tidyberg.model.words import are, plural

LOOK_SECONDS = 0.5
HELD_EVENTS = 32  # of each job
JOBS_AT_ONCE = 200  # in one question to the store, which answers nobody else meanwhile
_LAST_WORD_SECONDS = 1.0  # a worker says how a job ended just after it has ended
_WOKEN_AT_ONCE = 25  # streams that write before other requests have their turn
_RETRY_SECONDS = 5

Look = Callable[[Mapping[str, int]], Mapping[str, JobNews]]

_log = logging.getLogger(__name__)


class WatchedJob:
    """What is known of one job, whatever part of it its streams have sent."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.status: JobStatus | None = None
        self.last = self.floor = 0  # the newest event that is known; the newest that is no longer held
        self.is_over = False  # it has ended, and all its events are known; or nobody knows it any more
        self.streams: set[asyncio.Event] = set()
        self._held: deque[tuple[int, bytes]] = deque()
        self._last_word: object = None
        self._ended: float | None = None

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """Events with a higher number; None when some of them have to be read from the store."""
        if number < self.floor:
            return None
        return [event for event in self._held if event[0] > number]

    def learn(self, news: JobNews | None, now: float) -> bool:
        """True: there is something to tell."""
        before = (self.last, self.is_over)
        if news is None:
            self.is_over = True
            return not before[1]
        self.status = news.status
        for event in news.events:
            self._held.append((event.number, encoded(event)))
            self.last = event.number
            self._last_word = event.data.get("status")
            if len(self._held) > HELD_EVENTS:
                self.floor = self._held.popleft()[0]
        if news.status.is_final:
            self._ended = now if self._ended is None else self._ended
            waited = not news.events and now - self._ended >= _LAST_WORD_SECONDS
            self.is_over = waited or self._last_word == news.status.value
        return (self.last, self.is_over) != before


class WatchedJobs:
    """Used from the event loop only; `look` is called in a thread, once at a time."""

    def __init__(
        self,
        look: Look,
        stopping: asyncio.Event,
        keys_version: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._stopping = stopping
        self._keys_version = keys_version
        self._clock = clock
        self._jobs: dict[str, WatchedJob] = {}
        self._new: set[str] = set()  # not looked at yet
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, job_id: str) -> Iterator[tuple[WatchedJob, asyncio.Event]]:
        job = self._jobs.get(job_id)
        if job is None:
            job = self._jobs[job_id] = WatchedJob(job_id)
            self._new.add(job_id)
            self._hurry.set()
        woken = asyncio.Event()
        job.streams.add(woken)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_looking())
        try:
            yield job, woken
        finally:
            job.streams.discard(woken)
            if not job.streams and self._jobs.get(job_id) is job:
                del self._jobs[job_id]
                self._new.discard(job_id)

    async def _keep_looking(self) -> None:
        looked, version = float("-inf"), self._keys_version()
        while self._jobs:
            is_due = self._clock() - looked >= LOOK_SECONDS
            wanted = [job for job_id, job in self._jobs.items() if is_due or job_id in self._new]
            if is_due:
                looked = self._clock()
            self._new.clear()
            self._hurry.clear()
            for start in range(0, len(wanted), JOBS_AT_ONCE):
                await self._look_at(wanted[start : start + JOBS_AT_ONCE])
            before, version = version, self._keys_version()
            if self._stopping.is_set() or version != before:
                await self._wake([woken for job in self._jobs.values() for woken in job.streams])
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), max(0.01, looked + LOOK_SECONDS - self._clock()))

    async def _look_at(self, jobs: list[WatchedJob]) -> None:
        open_ones = [job for job in jobs if not job.is_over]
        try:
            found = await asyncio.to_thread(self._look, {job.job_id: job.last for job in open_ones})
        except Transient:
            return  # the store is away for now
        except Exception:  # noqa: BLE001  # streams outlive a defect: the next look may do better
            _log.exception("looking for news of watched jobs failed unexpectedly")
            return
        now = self._clock()
        told = [job for job in open_ones if job.learn(found.get(job.job_id), now)]
        await self._wake([woken for job in told for woken in job.streams])

    async def _wake(self, streams: list[asyncio.Event]) -> None:
        for start in range(0, len(streams), _WOKEN_AT_ONCE):
            for woken in streams[start : start + _WOKEN_AT_ONCE]:
                woken.set()
            await asyncio.sleep(0)


class StreamLimits:
    """How many streams there may be, in all and of one principal."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._open.total()

    def enter(self, key: str) -> None:
        """Raises when there are too many; else `leave` follows."""
        if self._open[key] >= self._most_of_one:
            raise RateLimited(
                f"{plural(self._most_of_one, 'stream')} of events {are(self._most_of_one)} open, "
                "which is all that one may have.",
                hint="Close some, or ask for the job itself now and then.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        if len(self) >= self._most:
            raise Overloaded("All streams of events are in use.", hint="Ask for the job itself now and then.")
        self._open[key] += 1

    def leave(self, key: str) -> None:
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]


def encoded(event: JobEvent) -> bytes:
    data = json.dumps({"at": moment_text(event.at_ms), **event.data}, ensure_ascii=False)
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n".encode()
