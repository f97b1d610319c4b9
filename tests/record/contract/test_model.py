"""Several replicas change the queue as the model does, in any order of steps."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.builders.job_stores import Place
from tests.builders.submissions import submission
from tests.record.contract.model import Model
from tidyberg.errors import IdempotencyMismatch
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits, Query
from tidyberg.record.queue import JobQueue
from tidyberg.record.records import Records

REPLICAS = st.integers(0, 2)
LIMITS = st.builds(
    Limits,
    running=st.integers(0, 5),
    running_per_tenant=st.none() | st.integers(0, 3),
    of_tenant=st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
)
EXAMPLES = int(os.environ.get("TEST_QUEUE_EXAMPLES", "40"))


class Replicas(RuleBasedStateMachine):
    def __init__(self, new_place: Callable[[], Place]) -> None:
        super().__init__()
        place = new_place()
        self.opened: list[Records] = [place.open() for _ in range(3)]
        self.model = Model()
        self.now_ms = 0
        self.submitted = 0
        self.claims: list[tuple[str, int]] = [("0", 1)]  # all there ever were, and one that never was

    def queue(self, replica: int) -> JobQueue:
        return self.opened[replica].queue

    @rule(
        replica=REPLICAS,
        tenant=st.sampled_from("abc"),
        table=st.sampled_from("xyz"),
        priority=st.integers(-1, 1),
        wait_ms=st.sampled_from([0, 0, 0, 15]),
        key=st.sampled_from([None, None, "k", "l"]),
    )
    def submit(self, replica: int, tenant: str, table: str, priority: int, wait_ms: int, key: str | None) -> None:
        not_before_ms = self.now_ms + wait_ms if wait_ms else 0
        made = submission(
            str(self.submitted), f"db.{table}", tenant, priority=priority, not_before_ms=not_before_ms, options={}
        )
        self.submitted += 1
        expected = self.model.submit(made, key)
        try:
            assert self.queue(replica).submit(made, key=key) == expected
        except IdempotencyMismatch:
            assert expected is None

    @rule(replica=REPLICAS, ttl_ms=st.integers(1, 30), limits=LIMITS)
    def claim(self, replica: int, ttl_ms: int, limits: Limits) -> None:
        expected = self.model.may_claim(self.now_ms, limits)
        claimed = self.queue(replica).claim(str(replica), now_ms=self.now_ms, ttl_ms=ttl_ms, limits=limits)
        assert {claimed.job_id} <= expected if claimed else not expected
        if claimed is not None:
            assert claimed.claim is not None
            assert claimed.claim.token > max(self.model.served.values(), default=0)
            assert (claimed.claim.worker, claimed.claim.expires_ms) == (str(replica), self.now_ms + ttl_ms)
            self.claims.append((claimed.job_id, claimed.claim.token))
            self.model.claim(claimed.job_id, claimed.claim, self.now_ms)
            assert self.model.jobs[claimed.job_id] == claimed

    @rule(replica=REPLICAS, which=st.integers(0), ttl_ms=st.integers(1, 30))
    def beat(self, replica: int, which: int, ttl_ms: int) -> None:
        job_id, token = self.claims[-1 - which % len(self.claims)]
        is_held = self.model.change(job_id, token, expires_ms=self.now_ms + ttl_ms)
        expected = "lost" if not is_held else "cancel" if self.model.jobs[job_id].cancel_requested else "held"
        assert self.queue(replica).beat(job_id, token, now_ms=self.now_ms, ttl_ms=ttl_ms) == expected

    @rule(replica=REPLICAS, which=st.integers(0))
    def update(self, replica: int, which: int) -> None:
        job_id, token = self.claims[-1 - which % len(self.claims)]
        expected = self.model.change(job_id, token, run_id=f"run-{token}")
        assert self.queue(replica).update(job_id, token, {"run_id": f"run-{token}"}) == expected

    @rule(replica=REPLICAS, which=st.integers(0), status=st.sampled_from([s for s in JobStatus if s.is_final]))
    def finish(self, replica: int, which: int, status: JobStatus) -> None:
        job_id, token = self.claims[-1 - which % len(self.claims)]
        expected = self.model.change(
            job_id, token, status=status, claim=None, finished_ms=self.now_ms, outcome="nothing"
        )
        changes = {"outcome": "nothing"}
        assert self.queue(replica).finish(job_id, token, status, now_ms=self.now_ms, changes=changes) == expected

    @rule(replica=REPLICAS, which=st.integers(0), wait_ms=st.integers(0, 20))
    def put_back(self, replica: int, which: int, wait_ms: int) -> None:
        job_id, token = self.claims[-1 - which % len(self.claims)]
        until = self.now_ms + wait_ms
        expected = self.model.change(
            job_id, token, status=JobStatus.QUEUED, claim=None, not_before_ms=until, error="later"
        )
        assert self.queue(replica).put_back(job_id, token, not_before_ms=until, reason="later") == expected

    @rule(replica=REPLICAS, which=st.integers(0))
    def cancel(self, replica: int, which: int) -> None:
        job_id = str(which % (self.submitted + 1))
        cancelled = self.queue(replica).cancel(job_id, now_ms=self.now_ms)
        if job_id in self.model.jobs:
            self.model.cancel(job_id, self.now_ms)
        assert cancelled == self.model.jobs.get(job_id)

    @rule(replica=REPLICAS, which=st.integers(0))
    def add_event(self, replica: int, which: int) -> None:
        job_id = str(which % (self.submitted + 1))
        self.queue(replica).add_event(job_id, self.now_ms, "notice", {})
        if job_id in self.model.jobs:
            self.model.events[job_id] = self.model.events.get(job_id, 0) + 1
        numbers = [event.number for event in self.queue(0).events(job_id)]
        assert numbers == list(range(1, self.model.events.get(job_id, 0) + 1))

    @rule(milliseconds=st.integers(1, 20))
    def time_goes_on(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @precondition(lambda self: self.submitted > 5)
    @rule(replica=REPLICAS, age_ms=st.integers(0, 20))
    def prune(self, replica: int, age_ms: int) -> None:
        expected = self.model.prune(self.now_ms - age_ms)
        assert self.queue(replica).prune(ended_before_ms=self.now_ms - age_ms) == expected

    @invariant()
    def every_replica_sees_what_the_model_holds(self) -> None:
        queue = self.queue(self.submitted % 3)
        kept = queue.submissions(Query(newest_first=False, limit=1000)).submissions
        assert {job.job_id: job for job in kept} == self.model.jobs
        assert [job.job_id for job in kept] == list(self.model.jobs)
        assert queue.counts() == self.model.counts()

    def teardown(self) -> None:
        for records in self.opened:
            records.close()


def test_replicas_agree_with_the_model(new_place: Callable[[], Place]) -> None:
    class OnThisStore(Replicas):
        def __init__(self) -> None:
            super().__init__(new_place)

    run_state_machine_as_test(
        OnThisStore,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
