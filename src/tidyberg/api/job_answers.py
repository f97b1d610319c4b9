"""Converts jobs to response models."""

import math
from dataclasses import asdict

from tidyberg.api.answers import JobAnswer, JobCreatedAnswer, JobErrorAnswer, LeftAnswer
from tidyberg.model.job import CopyTotals, Job, JobStatus, Progress
from tidyberg.model.left import LeftAlone
from tidyberg.model.submission import Submission


def created(submission: Submission) -> JobCreatedAnswer:
    return JobCreatedAnswer(
        job_id=submission.job_id,
        status=submission.status,
        created_at=submission.created_ms,
        estimated_duration_seconds=_whole_seconds(submission.estimated_seconds),
    )


def job_answer(submission: Submission, run: Job | None, now_ms: int) -> JobAnswer:
    queued = submission.status is JobStatus.QUEUED
    copied = run.copied if run else CopyTotals()
    waits = queued and submission.not_before_ms > now_ms
    return JobAnswer(
        job_id=submission.job_id,
        kind=submission.kind,
        status=submission.status,
        progress=run.progress if run else Progress(),
        created_at=submission.created_ms,
        started_at=submission.started_ms,
        estimated_completion=estimated_completion(submission, run, now_ms),
        estimated_duration_seconds=_whole_seconds(submission.estimated_seconds),
        finished_at=submission.finished_ms,
        catalog=submission.table.catalog,
        namespace=".".join(submission.table.namespace),
        table=submission.table.name,
        strategy=submission.strategy,
        options=dict(submission.options),
        tenant=submission.tenant,
        created_by=submission.created_by,
        priority=submission.priority,
        verify=submission.verify,
        plan_hash=submission.plan_hash or (run.plan_hash if run else None),
        stage=run.stage if run else None,
        attempts=submission.attempts,
        run_id=submission.run_id,
        waits_until=submission.not_before_ms if waits else None,
        cancel_requested=submission.cancel_requested,
        outcome=submission.outcome,
        left=[left_answer(each) for each in run.left] if run else [],
        stats=run.stats if run else None,
        expired=run.expired if run else None,
        groups_copied=copied.groups,
        encoded_instead=dict(copied.encoded_instead),
        bytes_moved=copied.bytes_moved,
        bytes_spliced=run.spliced.bytes_spliced if run else 0,
        splices_given_up=dict(run.spliced.encoded_instead) if run else {},
        files_joined=run.files_joined if run else 0,
        requests=dict(run.requests) if run else {},
        worker_memory_bytes=run.worker_memory_bytes if run else 0,
        snapshot_id=run.snapshot_id if run else None,
        estimated_cost=submission.estimated_dollars,
        cost=submission.dollars,
        notes=list(run.notes) if run else [],
        error=JobErrorAnswer(code=submission.error_code, message=submission.error) if submission.error else None,
    )


def left_answer(left: LeftAlone) -> LeftAnswer:
    return LeftAnswer(**asdict(left), take_now=left.take_now)


def estimated_completion(submission: Submission, run: Job | None, now_ms: int) -> int | None:
    """Extrapolates from the finished groups, or uses the estimate before the first. Never returns a past time."""
    if submission.status is not JobStatus.RUNNING or submission.started_ms is None:
        return None
    if run is not None and run.started_ms is not None and run.progress.groups_completed:
        done = run.progress.groups_completed / max(run.progress.groups_total, run.progress.groups_completed)
        return max(now_ms, run.started_ms + round((now_ms - run.started_ms) / done))
    if submission.estimated_seconds is None:
        return None
    return max(now_ms, submission.started_ms + round(submission.estimated_seconds * 1000))


def _whole_seconds(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds)
