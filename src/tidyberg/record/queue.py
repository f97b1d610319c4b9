"""The queue of submissions as the rest of tidyberg sees it. Replicas share one; every method is atomic.

Times come from the caller's clock, so that tests own it. A claim that is not renewed runs out, and the submission is
given to the next worker that asks: its token is higher, and what the former holder still tries to write is refused.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from tidyberg.model.job import JobStatus
from tidyberg.model.submission import JobEvent, JobNews, Limits, Query, Submission, SubmissionPage


class JobQueue(Protocol):
    def submit(self, submission: Submission, *, key: str | None = None) -> Submission:
        """Keep it, and give it back. With an idempotency `key` that its tenant has used: the submission that it made.

        One whose job id is kept already is not kept twice: the call may be repeated when its answer got lost. Raises
        IdempotencyMismatch when the key's submission asked for something else.
        """
        ...

    def submission(self, job_id: str) -> Submission | None: ...

    def submissions(self, query: Query) -> SubmissionPage:
        """In the order in which they arrived at the store, or backwards: new ones change no page that was begun."""
        ...

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        """How many there are by tenant and status; of those that ended, at least the ones still kept."""
        ...

    def claim(self, worker: str, *, now_ms: int, ttl_ms: int, limits: Limits) -> Submission | None:
        """The next one to run, now running and ours; None when nothing may run now.

        Of the tenants that have one to run, the one with the fewest running goes first, then the one that was served
        longest ago, then by name; within a tenant the highest priority, then the one that arrived first. A table has
        at most one running. Running ones whose claim has run out come before all others, whatever the limits. A
        claim counts an attempt, unless it takes over from one that ran out; its token is higher than that of any claim
        before, of any submission.
        """
        ...

    def beat(self, job_id: str, token: int, *, now_ms: int, ttl_ms: int) -> Literal["held", "cancel", "lost"]:
        """Renew the claim. "cancel": held, and someone wants it to stop; "lost": another worker has it, or it ended."""
        ...

    def update(self, job_id: str, token: int, changes: Mapping[str, Any]) -> bool:
        """Change fields of a running submission (run_id, estimates, error, …). False: the claim is lost.

        ValueError for what is the queue's own (status, claim, attempts, …) or was asked for.
        """
        ...

    def finish(self, job_id: str, token: int, status: JobStatus, *, now_ms: int, changes: Mapping[str, Any]) -> bool:
        """End it. False, and nothing changed: the claim is lost, so that another one ends it."""
        ...

    def put_back(
        self, job_id: str, token: int, *, not_before_ms: int, reason: str, attempts: int | None = None
    ) -> bool:
        """Queue it again, with its attempts or so many; it waits until then. False: the claim is lost."""
        ...

    def cancel(self, job_id: str, *, now_ms: int) -> Submission | None:
        """A queued one ends at once; a running one is asked to stop; one that ended stays. None: there is none."""
        ...

    def estimate(self, job_id: str, *, seconds: float, dollars: float) -> None:
        """Fill in what it will take by a plan, if nobody has (its dollars are None); a guess is replaced."""
        ...

    def add_event(self, job_id: str, at_ms: int, kind: str, data: Mapping[str, Any]) -> None:
        """Only the newest some hundred of a job are kept; their numbers go on. Of an unknown job: none."""
        ...

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> list[JobEvent]: ...

    def news(self, after: Mapping[str, int], *, limit: int = 100) -> Mapping[str, JobNews]:
        """Of each of these jobs its status, and then its events after that number: when the status is final, all that
        were recorded before are there. One question to the store, however many jobs; unknown jobs are left out."""
        ...

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        """Forget submissions that ended before then, with their events and idempotency keys, oldest first."""
        ...
