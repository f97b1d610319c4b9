"""The interface of the job store: jobs, leases of tables, and the files and finished groups of each job."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidyberg.model.job import Job, Owner
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult


@dataclass(frozen=True)
class Finished:
    """A group that a job has rewritten but not committed yet."""

    result: TaskResult
    finished_ms: int


class JobStore(Protocol):
    def save(self, job: Job, *, holder: str | None = None) -> bool:
        """Insert or replace a job.

        `holder` is the job itself or the job that recovers it. With `holder`, the job is saved only while the holder
        has the table. False means that the holder has lost the table and nothing was changed.
        """
        ...

    def get(self, job_id: str) -> Job | None: ...

    def find(self, *, table: TableRef | None = None, unfinished: bool = False, limit: int = 20) -> list[Job]:
        """Return jobs, newest first. `unfinished` selects jobs that are running or unresolved."""
        ...

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        """Take the lease of a table. Returns None on success, otherwise the id of the job that holds it.

        A lease is valid until it expires or its process is known to be dead. A stopped process loses its lease.
        """
        ...

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        """Renew a lease. False means that another job has it, so this job must not write any more."""
        ...

    def release(self, table_uuid: str, job_id: str) -> None: ...

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        """Record the metadata files that a job is about to write."""
        ...

    def paths(self, job_id: str) -> list[str]: ...

    def forget_paths(self, job_id: str) -> None: ...

    def save_plan(self, job_id: str, document: str) -> None:
        """Save the plan of a job, so that another job can continue it. A plan that is too large is not saved."""
        ...

    def plan(self, job_id: str) -> str | None: ...

    def save_finished(self, job_id: str, finished: Finished, *, table_uuid: str | None = None) -> None:
        """Save the result of a rewritten group. A result that is too large is not saved.

        With `table_uuid`, it is saved only while the job has that table. Otherwise its outputs may have been removed.
        """
        ...

    def finished(self, job_id: str) -> list[Finished]:
        """Return the finished groups that this version can read."""
        ...

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        """Forget some or all finished groups of a job before their outputs are deleted, so that nobody reuses them.

        False means that `holder` has lost the table. Nothing is forgotten, because the new holder may use the groups.
        """
        ...

    def forget(self, job_id: str) -> None:
        """Delete the paths, the plan and the finished groups of a job that was concluded."""
        ...

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        """Delete jobs that ended before a time, with all their data, oldest first.

        Jobs with an unknown outcome and jobs that hold a table are kept.
        """
        ...

    def close(self) -> None: ...
