"""The interface of the queue of submissions. All replicas share one queue, and every method is atomic.

Times come from the caller's clock, so that tests control it. A claim that is not renewed expires. The next worker then
gets the submission with a higher token, and the queue rejects changes by the former worker.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import JobEvent, JobNews, Limits, Query, Submission, SubmissionPage


class JobQueue(Protocol):
    def submit(self, submission: Submission, *, key: str | None = None) -> Submission:
        """Save a submission and return it. If its tenant has used the idempotency `key`, return the earlier one.

        A submission with a known job id is not saved twice, so the call may be repeated if its answer is lost. Raises
        IdempotencyMismatch if the earlier submission made a different request.
        """
        ...

    def submission(self, job_id: str) -> Submission | None: ...

    def submissions(self, query: Query) -> SubmissionPage:
        """Return a page, in the order of arrival or backwards. New submissions do not change earlier pages."""
        ...

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        """Return the number of submissions by tenant and status. Ended ones include at least those still kept."""
        ...

    def claim(self, worker: str, *, now_ms: int, ttl_ms: int, limits: Limits) -> Submission | None:
        """Claim the next submission to run, and set it to running. Returns None if nothing may run now.

        The tenant with the fewest running submissions goes first, then the one that was served longest ago, then the
        first by name. Within a tenant, the highest priority goes first, then the earliest arrival. A table has at most
        one running submission. Running submissions with an expired claim come before all others and ignore the limits.
        A claim counts as an attempt, unless it takes over an expired claim. Its token is higher than all tokens of all
        earlier claims.
        """
        ...

    def beat(self, job_id: str, token: int, *, now_ms: int, ttl_ms: int) -> Literal["held", "cancel", "lost"]:
        """Renew a claim. "cancel" means that the worker should stop, "lost" that it no longer has the submission."""
        ...

    def update(self, job_id: str, token: int, changes: Mapping[str, Any]) -> bool:
        """Change fields of a running submission (run_id, estimates, error, …). False means that the claim is lost.

        Raises ValueError for fields of the queue (status, claim, attempts, …) or of the request.
        """
        ...

    def finish(self, job_id: str, token: int, status: JobStatus, *, now_ms: int, changes: Mapping[str, Any]) -> bool:
        """End a submission. False means that the claim is lost and nothing was changed."""
        ...

    def put_back(
        self, job_id: str, token: int, *, not_before_ms: int, reason: str, attempts: int | None = None
    ) -> bool:
        """Queue a submission again, not before a time. `attempts` replaces its count. False: the claim is lost."""
        ...

    def cancel(self, job_id: str, *, now_ms: int) -> Submission | None:
        """Cancel a submission. A queued one ends now, a running one is asked to stop. None means that it is unknown."""
        ...

    def estimate(self, job_id: str, *, seconds: float, dollars: float) -> None:
        """Save a plan's estimate, unless there is one already. It replaces a guess, which has no dollars."""
        ...

    def add_event(self, job_id: str, at_ms: int, kind: str, data: Mapping[str, Any]) -> None:
        """Add an event. Only the newest few hundred of a job are kept. Events of an unknown job are dropped."""
        ...

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> list[JobEvent]: ...

    def news(self, after: Mapping[str, int], *, limit: int = 100) -> Mapping[str, JobNews]:
        """Return the status of each job and its events after a number, with one request. Unknown jobs are left out.

        The status is read first, so if it is final, all events are there.
        """
        ...

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        """Delete submissions that ended before a time, with their events and idempotency keys, oldest first."""
        ...
