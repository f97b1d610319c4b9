"""Shows the history of jobs."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from tidyberg.cli.formatting import count, dollars, duration, moment, plural, size
from tidyberg.cli.listing import Listing
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.job import CompactionStats, Job, JobStatus
from tidyberg.model.manifest_rewrite import REWRITE_MANIFESTS

STYLES = {JobStatus.SUCCEEDED: "green", JobStatus.FAILED: "red", JobStatus.CANCELLED: "yellow"}


def show_jobs(jobs: Sequence[Job], *, timezone: str) -> RenderableType:
    if not jobs:
        return Text("no jobs are recorded")
    table = Listing()
    for heading in ("started", "job", "table", "strategy", "status"):
        table.add_column(heading, no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for job in jobs:
        table.add_row(
            moment(job.started_ms or job.created_ms, timezone), job.job_id[:8], str(job.table), job.strategy,
            Text(job.status.value, style=STYLES.get(job.status, "")), _took(job), _cost(job), what_happened(job),
        )  # fmt: skip
    return table


def what_happened(job: Job) -> str:
    if job.error is not None:
        return f"{job.stage.value}: {job.error}"
    if job.strategy in (EXPIRE, REWRITE_MANIFESTS) and job.notes:
        return job.notes[-1]
    if job.stats is None:
        return job.stage.value
    left = "; ".join(map(str, job.left))
    if job.snapshot_id is None:
        return left or ("tidy" if job.outcome else "nothing to do")
    return in_words(job.stats) + (f"; {left}" if left else "")


def in_words(stats: CompactionStats) -> str:
    return (
        f"{count(stats.files_compacted)} of {plural(stats.files_before, 'file')} rewritten,"
        f" {count(stats.files_after)} now; {size(stats.bytes_before)} → {size(stats.bytes_after)}"
    )


def _took(job: Job) -> str:
    if job.started_ms is None or job.finished_ms is None:
        return "–"
    return duration((job.finished_ms - job.started_ms) / 1000)


def _cost(job: Job) -> str:
    return "–" if job.actual_dollars is None else dollars(job.actual_dollars)
