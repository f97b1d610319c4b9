"""The state changes of a submission, which all stores share. These functions are pure."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tidyberg.errors import BadInput, IdempotencyMismatch
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Claim, Submission

KEPT_EVENTS = 300  # per job

# The fields that a worker may set. All others belong to the request or to the queue.
_LEARNED = frozenset(("run_id", "estimated_seconds", "estimated_dollars", "outcome", "dollars", "error_code", "error"))
assert frozenset(field.name for field in fields(Submission)) >= _LEARNED


def claimed(submission: Submission, claim: Claim, now_ms: int) -> Submission:
    return replace(
        submission,
        status=JobStatus.RUNNING,
        claim=claim,
        # A worker that takes over a submission continues its attempt.
        attempts=submission.attempts + (submission.status is not JobStatus.RUNNING),
        started_ms=now_ms if submission.started_ms is None else submission.started_ms,
        error_code=None,
        error=None,
    )


def renewed(submission: Submission, expires_ms: int) -> Submission:
    assert submission.claim is not None, "only a claim can be renewed"
    return replace(submission, claim=replace(submission.claim, expires_ms=expires_ms))


def learned(submission: Submission, changes: Mapping[str, Any]) -> Submission:
    if not changes.keys() <= _LEARNED:
        raise ValueError(f"a worker cannot change {sorted(changes.keys() - _LEARNED)} of a submission")
    return replace(submission, **changes)


def ended(submission: Submission, status: JobStatus, now_ms: int) -> Submission:
    if not status.is_final:
        raise ValueError(f"a submission cannot end as {status}")
    return replace(submission, status=status, finished_ms=now_ms, claim=None)


def put_back(submission: Submission, not_before_ms: int, reason: str, *, attempts: int | None = None) -> Submission:
    return replace(
        submission,
        status=JobStatus.QUEUED,
        claim=None,
        not_before_ms=not_before_ms,
        error=reason,
        attempts=submission.attempts if attempts is None else attempts,
    )


def cancelled(submission: Submission, now_ms: int) -> Submission:
    if submission.status is JobStatus.QUEUED:
        return ended(submission, JobStatus.CANCELLED, now_ms)
    return replace(submission, cancel_requested=submission.cancel_requested or submission.status is JobStatus.RUNNING)


def estimated(submission: Submission, seconds: float, dollars: float) -> Submission:
    if submission.estimated_dollars is not None:
        return submission
    return replace(submission, estimated_seconds=seconds, estimated_dollars=dollars)


def holds(submission: Submission | None, token: int) -> bool:
    return submission is not None and submission.claim is not None and submission.claim.token == token


def asked_for(submission: Submission) -> str:
    """Return the parts of a request that must be equal for one idempotency key."""
    table = (submission.table.catalog, *submission.table.identifier)
    asked = (table, submission.strategy, submission.options, submission.priority, submission.verify)
    return json.dumps((*asked, submission.plan_hash, submission.kind), sort_keys=True, default=str)


def check_same_request(kept: Submission, new: Submission, key: str) -> None:
    if asked_for(kept) != asked_for(new):
        raise IdempotencyMismatch(
            f"The idempotency key {key!r} was used before, for another request (job {kept.job_id}).",
            hint="Send a new key with a new request.",
        )


def position(cursor: str) -> int:
    """Parse a cursor: the number of the last submission on the previous page."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise BadInput(f"{cursor!r} is not a cursor.", hint="Give the `next_cursor` of a page, or none to start over.")
    return int(cursor)
