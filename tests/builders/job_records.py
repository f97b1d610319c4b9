"""Jobs and submissions, and a queue with fixed contents."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tidyberg.model.job import CompactionStats, Job, JobStatus, Owner, Progress, Stage
from tidyberg.model.submission import Query, Submission, SubmissionPage
from tidyberg.model.table import TableRef
from tidyberg.record.queue import JobQueue

TABLE = TableRef("lake", ("db",), "events")

SUBMISSION = Submission(
    job_id="job-1",
    table=TABLE,
    strategy="small_files",
    options={},
    created_ms=1_000_000,
    created_by="ada",
    status=JobStatus.SUCCEEDED,
    started_ms=1_004_000,
    finished_ms=1_094_000,
    attempts=1,
    run_id="job-1",
)
STATS = CompactionStats(
    files_before=12,
    files_after=3,
    files_compacted=10,
    files_removed=10,
    bytes_before=1000,
    bytes_after=600,
    bytes_saved=400,
    snapshots_expired=0,
    compaction_time_ms=90_000.0,
    small_files_remaining=0,
)
RUN = Job(
    job_id="job-1",
    table=TABLE,
    table_uuid="uuid",
    branch="main",
    strategy="small_files",
    options={},
    status=JobStatus.SUCCEEDED,
    stage=Stage.DONE,
    engine="inline",
    created_ms=1_004_000,
    started_ms=1_004_000,
    finished_ms=1_094_000,
    predicted_seconds=45.0,
    predicted_bytes=500,
    predicted_dollars=0.02,
    actual_dollars=0.01,
    task_seconds=120.0,
    cores=2,
    cluster="inline",
    commits=1,
    requests={"get": 12, "put": 3},
    progress=Progress(1, 1, 1, 1, 10, 1000, 500),
    stats=STATS,
)


def submission(status: JobStatus = JobStatus.SUCCEEDED, **changes: Any) -> Submission:
    return replace(SUBMISSION, status=status, **changes)


@dataclass
class FixedQueue:
    """The part of a queue that metrics use."""

    contents: list[Submission] = field(default_factory=list)
    asked: int = 0
    failure: Exception | None = None

    def counts(self) -> Mapping[tuple[str, JobStatus], int]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        found: dict[tuple[str, JobStatus], int] = {}
        for each in self.contents:
            found[each.tenant, each.status] = found.get((each.tenant, each.status), 0) + 1
        return found

    def submissions(self, query: Query) -> SubmissionPage:
        matching = [each for each in self.contents if query.statuses is None or each.status in query.statuses]
        matching.sort(key=lambda each: each.created_ms, reverse=query.newest_first)
        return SubmissionPage(tuple(matching[: query.limit]), None)


HERE = Owner("here", 1, 1.0)

ELSEWHERE = Owner("elsewhere", 2, 1.0)


def job(job_id: str = "a", table: str = "db.events", created_ms: int = 1) -> Job:
    return Job(
        job_id=job_id,
        table=TableRef.parse(table, "lab"),
        table_uuid="uuid",
        branch="main",
        strategy="auto",
        options={"target_file_size": 1},
        status=JobStatus.RUNNING,
        stage=Stage.OBSERVE,
        engine="inline",
        created_ms=created_ms,
    )


def as_queue(queue: FixedQueue) -> JobQueue:
    return cast(JobQueue, queue)
