"""A slow and simple model of the queue, in plain lists and loops. Every store must agree with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Claim, Limits, Submission

QUEUED, RUNNING = JobStatus.QUEUED, JobStatus.RUNNING


@dataclass
class Model:
    jobs: dict[str, Submission] = field(default_factory=dict)  # in the order of arrival
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)

    def submit(self, submission: Submission, key: str | None) -> Submission | None:
        """None: the key was used for something else."""
        if key is not None:
            job_id = self.keys.setdefault((submission.tenant, key), submission.job_id)
            if job_id != submission.job_id:
                made = self.jobs[job_id]
                is_same = (made.table, made.priority) == (submission.table, submission.priority)
                return made if is_same else None
        self.jobs[submission.job_id] = submission
        return submission

    def running(self, tenant: str | None = None) -> int:
        return sum(job.status is RUNNING and tenant in (None, job.tenant) for job in self.jobs.values())

    def may_claim(self, now_ms: int, limits: Limits) -> set[str]:
        """The ids of which one is claimed next."""
        ends = {job.job_id: job.claim.expires_ms for job in self.jobs.values() if job.claim is not None}
        run_out = {job_id: end for job_id, end in ends.items() if end <= now_ms}
        if run_out:
            return {job_id for job_id, end in run_out.items() if end == min(run_out.values())}
        busy = {job.table for job in self.jobs.values() if job.status is RUNNING}
        turns = [
            (self.running(job.tenant), self.served.get(job.tenant, 0), job.tenant, -job.priority, arrival, job.job_id)
            for arrival, job in enumerate(self.jobs.values())
            if job.status is QUEUED
            and job.not_before_ms <= now_ms
            and job.table not in busy
            and self.running() < limits.running
            and self.running(job.tenant) < limits.for_tenant(job.tenant)
        ]
        return {min(turns)[-1]} if turns else set()

    def claim(self, job_id: str, claim: Claim, now_ms: int) -> None:
        job = self.jobs[job_id]
        self.served[job.tenant] = claim.token
        self.jobs[job_id] = replace(
            job,
            status=RUNNING,
            claim=claim,
            attempts=job.attempts + (job.status is not RUNNING),
            started_ms=now_ms if job.started_ms is None else job.started_ms,
            error=None,
        )

    def change(self, job_id: str, token: int, **changes: Any) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.claim is None or job.claim.token != token:
            return False
        if "expires_ms" in changes:
            changes["claim"] = replace(job.claim, expires_ms=changes.pop("expires_ms"))
        self.jobs[job_id] = replace(job, **changes)
        return True

    def cancel(self, job_id: str, now_ms: int) -> None:
        job = self.jobs[job_id]
        if job.status is QUEUED:
            self.jobs[job_id] = replace(job, status=JobStatus.CANCELLED, finished_ms=now_ms)
        elif job.status is RUNNING:
            self.jobs[job_id] = replace(job, cancel_requested=True)

    def prune(self, before_ms: int) -> int:
        gone = {j.job_id for j in self.jobs.values() if j.finished_ms is not None and j.finished_ms < before_ms}
        self.jobs = {job_id: job for job_id, job in self.jobs.items() if job_id not in gone}
        self.keys = {key: job_id for key, job_id in self.keys.items() if job_id not in gone}
        self.events = {job_id: count for job_id, count in self.events.items() if job_id not in gone}
        return len(gone)

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        found: dict[tuple[str, JobStatus], int] = {}
        for job in self.jobs.values():
            found[job.tenant, job.status] = found.get((job.tenant, job.status), 0) + 1
        return found
