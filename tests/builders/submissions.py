"""Submissions for the queue, and how a worker claims them."""

from typing import Any

from tidyberg.model.submission import Limits, Submission
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue

MANY = Limits(running=1000)


def submission(job_id: str, table: str = "db.events", tenant: str = "default", **more: Any) -> Submission:
    fields: dict[str, Any] = {
        "job_id": job_id,
        "table": TableRef.parse(table, "lab"),
        "strategy": "auto",
        "options": {"target_file_size": "512MB"},
        "created_ms": 1,
        "created_by": "ada",
        "tenant": tenant,
    }
    return Submission(**{**fields, **more})


def fill(queue: JobQueue, *lanes: tuple[str, str, str]) -> None:
    """Submits jobs, each given as (job id, table, tenant)."""
    for job_id, table, tenant in lanes:
        queue.submit(submission(job_id, f"db.{table}", tenant))


def take(queue: JobQueue, *, now_ms: int = 0, ttl_ms: int = 1000, limits: Limits = MANY) -> Submission:
    claimed = queue.claim("worker", now_ms=now_ms, ttl_ms=ttl_ms, limits=limits)
    assert claimed is not None, "nothing may run"
    return claimed


def token(claimed: Submission) -> int:
    assert claimed.claim is not None, "it is not claimed"
    return claimed.claim.token


def take_all(queue: JobQueue, *, now_ms: int = 0, limits: Limits = MANY) -> list[str]:
    """Claims all jobs that may run now, and returns their ids in order."""
    order = []
    while claimed := queue.claim("worker", now_ms=now_ms, ttl_ms=1000, limits=limits):
        order.append(claimed.job_id)
    return order
