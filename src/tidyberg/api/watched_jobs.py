"""Reads the events of all watched jobs from the store in one call, however many streams are open.

This module holds the newest events of each watched job, already encoded. A stream keeps only the number of its last
event, and reads the store if it is further behind. A slow reader uses no extra memory and loses no event.
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
HELD_EVENTS = 32  # per job
JOBS_AT_ONCE = 200  # in one call, because the store serves no other call meanwhile
_LAST_WORD_SECONDS = 1.0  # a worker writes the final event just after the job ended
_WOKEN_AT_ONCE = 25  # streams that write before other requests run
_RETRY_SECONDS = 5

Look = Callable[[Mapping[str, int]], Mapping[str, JobNews]]

_log = logging.getLogger(__name__)


class WatchedJob:
    """The state and the newest events of one watched job."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.status: JobStatus | None = None
        self.last = self.floor = 0  # the newest known event; the newest event that is no longer held
        self.is_over = False  # the job ended and all its events are known, or the job no longer exists
        self.streams: set[asyncio.Event] = set()
        self._held: deque[tuple[int, bytes]] = deque()
        self._last_word: object = None
        self._ended: float | None = None

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """Returns the events with a higher number, or None if some of them must be read from the store."""
        if number < self.floor:
            return None
        return [event for event in self._held if event[0] > number]

    def learn(self, news: JobNews | None, now: float) -> bool:
        """Adds what the store returned. Returns True if the streams have something to send."""
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
    """Use it in the event loop only. It calls `look` in a thread, one call at a time."""

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
        self._new: set[str] = set()  # not read yet
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
            return  # the store does not answer now
        except Exception:  # noqa: BLE001  # streams survive: the next look may succeed
            _log.exception("reading the events of watched jobs failed unexpectedly")
            return
        now = self._clock()
        changed = [job for job in open_ones if job.learn(found.get(job.job_id), now)]
        await self._wake([woken for job in changed for woken in job.streams])

    async def _wake(self, streams: list[asyncio.Event]) -> None:
        for start in range(0, len(streams), _WOKEN_AT_ONCE):
            for woken in streams[start : start + _WOKEN_AT_ONCE]:
                woken.set()
            await asyncio.sleep(0)


class StreamLimits:
    """Limits the number of open streams, in total and per principal."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._open.total()

    def enter(self, key: str) -> None:
        """Raises if too many streams are open. Otherwise call `leave` afterwards."""
        if self._open[key] >= self._most_of_one:
            raise RateLimited(
                f"{plural(self._most_of_one, 'event stream')} {are(self._most_of_one)} open, "
                "which is the limit for one principal.",
                hint="Close some, or poll the job instead.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        if len(self) >= self._most:
            raise Overloaded("All event streams are in use.", hint="Poll the job instead.")
        self._open[key] += 1

    def leave(self, key: str) -> None:
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]


def encoded(event: JobEvent) -> bytes:
    data = json.dumps({"at": moment_text(event.at_ms), **event.data}, ensure_ascii=False)
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n".encode()
