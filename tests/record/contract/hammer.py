"""Workers that claim from one queue as fast as they can, in threads and in processes."""

import random
import threading
import time
from dataclasses import dataclass

from tests.builders.job_stores import Place
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Submission
from tidyberg.record.queue import JobQueue

LIMITS = Limits(running=8, running_per_tenant=4)
TTL_MS = 1500


@dataclass(frozen=True)
class Turn:
    """What a worker had, from when to when by the machine's monotonic clock; None: it dropped it, as if it died."""

    job_id: str
    table: str
    token: int
    since: float
    until: float
    ended_it: bool | None


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def work(place: Place, seed: int, expected: int) -> list[Turn]:
    """Until so many have ended, in three threads that share a connection."""
    records = place.open()
    turns: list[Turn] = []
    threads = [
        threading.Thread(target=_worker, args=(records.queue, random.Random(seed * 10 + n), expected, turns))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records.close()
    return turns


def _worker(queue: JobQueue, rng: random.Random, expected: int, turns: list[Turn]) -> None:
    while _ended(queue) < expected:
        claimed = queue.claim("worker", now_ms=wall_clock_ms(), ttl_ms=TTL_MS, limits=LIMITS)
        if claimed is None:
            time.sleep(0.01)
        else:
            turns.append(_turn(queue, claimed, rng.random()))


def _turn(queue: JobQueue, claimed: Submission, chance: float) -> Turn:
    assert claimed.claim is not None
    token, since = claimed.claim.token, time.monotonic()
    ended_it: bool | None = None
    if chance < 0.1:
        queue.put_back(claimed.job_id, token, not_before_ms=wall_clock_ms() + 20, reason="later")
        until = since
    elif chance < 0.15:
        until = since  # its holder dies: another worker must end it
    else:
        queue.beat(claimed.job_id, token, now_ms=wall_clock_ms(), ttl_ms=TTL_MS)
        until = time.monotonic()
        ended_it = queue.finish(claimed.job_id, token, JobStatus.SUCCEEDED, now_ms=wall_clock_ms(), changes={})
    return Turn(claimed.job_id, str(claimed.table), token, since, until, ended_it)


def _ended(queue: JobQueue) -> int:
    return sum(count for (_, status), count in queue.counts().items() if status.is_final)
