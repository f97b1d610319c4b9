"""The answer of an invocation: what was done to each table, and what is left for the next invocation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.errors import Cancelled, OutOfTime, TableBusy, TablePaused, TidybergError
from tidyberg.model.expiry import ExpiryResult
from tidyberg.model.job import Job
from tidyberg.model.maintenance import MaintenanceResult
from tidyberg.model.report import CompactionResult

# "committed", "partly", "tidy", "waiting" and "refused" are outcomes of a compaction, "done" and "nothing" of maintain.
TableOutcome = Literal[
    "committed",
    "partly",
    "tidy",
    "waiting",
    "refused",
    "done",
    "nothing",
    "out-of-time",
    "busy",
    "failed",
    "not-started",
]
SPARK_HINT = "Some files are too large for this function: give it more time and memory, or compact the table on Spark."
_BUSY = (TableBusy, TablePaused)


@dataclass(frozen=True)
class TableReport:
    table: str
    outcome: TableOutcome
    is_finished: bool  # another invocation would find nothing more to do now
    message: str
    job_id: str | None = None
    done: Mapping[str, Any] = field(default_factory=dict)
    left: Mapping[str, Any] = field(default_factory=dict)
    error: TidybergError | None = None  # what the operator should look at; running out of time is none

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "table": self.table,
            "outcome": self.outcome,
            "finished": self.is_finished,
            "message": self.message,
            "job_id": self.job_id,
            "done": dict(self.done),
            "left": dict(self.left),
        }
        if self.error is not None:
            found["error"] = {"code": self.error.code, "message": self.error.message, "hint": self.error.hint}
        return found


@dataclass(frozen=True)
class InvocationReport:
    tables: tuple[TableReport, ...]

    @property
    def is_finished(self) -> bool:
        return all(table.is_finished for table in self.tables)

    @property
    def failed(self) -> tuple[TableReport, ...]:
        return tuple(table for table in self.tables if table.error is not None)

    def document(self) -> dict[str, Any]:
        open_tables = [table.table for table in self.tables if not table.is_finished]
        return {
            "finished": self.is_finished,
            "failed": len(self.failed),
            "left": open_tables,
            "tables": [table.document() for table in self.tables],
        }


def of_compaction(result: CompactionResult) -> TableReport:
    stats, failure = result.stats, result.failure
    total = result.job.progress.groups_total
    groups = max(0, total - result.groups_committed)
    left: dict[str, Any] = {"groups": groups, "small_files": stats.small_files_remaining}
    if result.left:
        left["reasons"] = [str(each) for each in result.left]
    is_too_large = any(each.code == "group-size" for each in result.left)
    words = _message(result, groups)
    if isinstance(failure, OutOfTime) and failure.too_large:
        is_too_large = True
    return TableReport(
        table=str(result.job.table),
        outcome=result.outcome,
        is_finished=_is_final(failure) and not result.groups_left,
        message=f"{words} {SPARK_HINT}" if is_too_large else words,
        job_id=result.job.job_id,
        done={
            "groups": result.groups_committed,
            "files_replaced": stats.files_compacted,
            "files_written": len(result.sizes_written),
            "bytes_replaced": stats.bytes_freed_at_expiry,
            "bytes_written": sum(result.sizes_written),
            "commits": result.job.commits,
            "snapshot_id": result.snapshot_id,
            "snapshots_expired": stats.snapshots_expired,
        },
        left=left,
        error=None if isinstance(failure, OutOfTime | Cancelled | None) else failure,
    )


def of_maintenance(result: MaintenanceResult) -> TableReport:
    failure = result.failure
    is_late = isinstance(failure, OutOfTime)
    outcome: TableOutcome = "partly" if is_late else result.outcome
    steps = [{"step": step.step, "status": step.status, "message": step.reason} for step in result.steps]
    stopped = [step.step for step in result.steps if step.status in ("failed", "stopped")]
    return TableReport(
        table=str(result.table),
        outcome=outcome,
        is_finished=_is_final(failure),
        message=str(failure) if failure is not None else "All steps have ended.",
        done={"steps": steps},
        left={"steps": stopped},
        error=None if is_late else failure,
    )


def of_expiry(result: ExpiryResult) -> TableReport:
    return TableReport(
        table=str(result.table),
        outcome="partly" if result.failure is not None else "done" if result.snapshots_expired else "nothing",
        is_finished=result.failure is None,
        message=f"{result.snapshots_expired:,} snapshots expired, {result.files.files:,} files deleted.",
        job_id=result.job.job_id if result.job is not None else None,
        done={"snapshots_expired": result.snapshots_expired, "files_deleted": result.files.files},
        left={"files": result.refused},
        error=result.failure,
    )


def of_error(table: str, error: TidybergError, job: Job | None) -> TableReport:
    """`job` is the record of the run, which says how far it came."""
    done: dict[str, Any] = {"groups": 0, "commits": 0}
    left: dict[str, Any] = {}
    job_id = None if job is None else job.job_id
    if job is not None:
        done = {"groups": 0, "commits": job.commits, "snapshot_id": job.snapshot_id}
        left = {"groups": job.progress.groups_total}
    if isinstance(error, OutOfTime | Cancelled):
        words = "The time limit of the function ended. Nothing that was committed is lost."
        if isinstance(error, OutOfTime):
            words = f"{error} {SPARK_HINT}" if error.too_large else str(error)
        return TableReport(table, "out-of-time", _is_final(error), words, job_id, done, left)
    if isinstance(error, _BUSY):
        return TableReport(table, "busy", False, str(error), None, done, left)
    return TableReport(table, "failed", False, str(error), job_id, done, left, error)


def not_started(table: str) -> TableReport:
    return TableReport(
        table, "not-started", False, "There was no time left for it. The next invocation begins with it."
    )


def _is_final(failure: TidybergError | None) -> bool:
    """Returns True if another invocation with the same limits could not do more."""
    return failure is None or (isinstance(failure, OutOfTime) and failure.too_large >= failure.unfinished)


def _message(result: CompactionResult, groups: int) -> str:
    if result.failure is not None:
        return f"{result.groups_committed:,} groups are committed, {groups:,} are left. {result.failure}"
    if result.outcome == "committed":
        return f"{result.stats.files_compacted:,} files became {len(result.sizes_written):,}."
    return str(result.left[0]) if result.left else "No file needs a rewrite."
