"""Redis is killed again and again under load: confirmed writes stay, and every job ends once."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tests.builders.job_stores import nobody_knows
from tests.builders.submissions import submission
from tests.seed import SEED
from tests.servers.redis import RedisServer
from tidyberg.errors import StoreUnreachable
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Query
from tidyberg.record.queue import JobQueue
from tidyberg.record.redis_records import open_redis

JOBS, TABLES, KILLS = 150, 11, 4
TTL_MS = 400
LIMITS = Limits(running=6, running_per_tenant=4)
T = TypeVar("T")


@dataclass
class Load:
    queue: JobQueue
    submitted: set[str] = field(default_factory=set)  # as it has answered
    ended: list[str] = field(default_factory=list)
    failures: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def submit_all(self) -> None:
        for number in range(JOBS):
            made = submission(str(number), f"db.t{number % TABLES}", f"tenant-{number % 3}")
            self.submitted.add(self._until_answered(lambda made=made: self.queue.submit(made)).job_id)  # type: ignore[misc]
            time.sleep(0.005)

    def work(self) -> None:
        while not self.over.is_set():
            claimed = self._until_answered(lambda: self.queue.claim("w", now_ms=now(), ttl_ms=TTL_MS, limits=LIMITS))
            if claimed is None or claimed.claim is None:
                time.sleep(0.01)
                continue
            try:  # a worker that does not hear whether it has ended a job does not know, and leaves it
                done = JobStatus.SUCCEEDED
                if self.queue.finish(claimed.job_id, claimed.claim.token, done, now_ms=now(), changes={}):
                    self.ended.append(claimed.job_id)
            except StoreUnreachable:
                self.failures += 1

    def _until_answered(self, ask: Callable[[], T]) -> T:
        while True:
            try:
                return ask()
            except StoreUnreachable:
                self.failures += 1


def now() -> int:
    return time.time_ns() // 1_000_000


def test_nothing_that_redis_has_answered_is_lost_however_often_it_dies(redis_to_kill: RedisServer) -> None:
    rng = random.Random(SEED)
    records = open_redis(redis_to_kill.url, "tidyberg:", nobody_knows)
    load = Load(records.queue)
    workers = [threading.Thread(target=load.work) for _ in range(4)]
    submitter = threading.Thread(target=load.submit_all)
    for thread in (submitter, *workers):
        thread.start()
    # Gone for a moment, or for longer than calls are tried again: both, whatever is drawn.
    moments = [0.0, 0.6, *rng.choices([0.0, 0.6], k=KILLS - 2)]
    rng.shuffle(moments)
    for away in moments:
        time.sleep(rng.uniform(0.1, 0.4))
        redis_to_kill.kill()
        time.sleep(away)
        redis_to_kill.start()
    submitter.join()
    while records.queue.counts().keys() & {(f"tenant-{n}", s) for n in range(3) for s in ("queued", "running")}:
        time.sleep(0.02)
    load.over.set()
    for worker in workers:
        worker.join()
    kept = records.queue.submissions(Query(limit=1000)).submissions
    records.close()
    assert load.failures, "nobody noticed that it was away"
    assert load.submitted == {job.job_id for job in kept} == {str(number) for number in range(JOBS)}
    assert {job.status for job in kept} == {JobStatus.SUCCEEDED}
    assert len(load.ended) == len(set(load.ended)), "a job ends once"
