"""The earlier runs of a submitted job: which one succeeded, and which ones died."""

from collections.abc import Sequence

from tidyberg.control.recovery import DIED
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.submission import Submission
from tidyberg.record.store import JobStore

_MOST_RUNS = 200


def earlier_runs(store: JobStore, submission: Submission, current_run_id: str | None) -> list[Job]:
    """Returns the runs of the submission, the newest first, without the current run."""
    if submission.run_id is None:
        return []
    found = store.find(table=submission.table, limit=_MOST_RUNS)
    return [job for job in found if job.submission_id == submission.job_id and job.job_id != current_run_id]


def successful_run(runs: Sequence[Job]) -> Job | None:
    """Returns a run that succeeded but was never reported, preferably one that committed."""
    done = [job for job in runs if job.status is JobStatus.SUCCEEDED and not job.unresolved and job.error_code is None]
    return next(filter(has_committed, done), done[0] if done else None)


def died(job: Job) -> bool:
    return not job.status.is_final or job.error_code == DIED


def has_committed(job: Job) -> bool:
    return bool(job.commits) or job.snapshot_id is not None


def owners(runs: Sequence[Job]) -> str:
    """Returns the processes that ran them, as far as they are known."""
    known = sorted({f"{run.owner.host}:{run.owner.pid}" for run in runs if run.owner is not None})
    return ", ".join(known) or "its worker"
