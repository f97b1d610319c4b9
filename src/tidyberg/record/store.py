"""The job store as the rest of tidyberg sees it: jobs, who holds which table, what each job wrote and finished."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidyberg.model.job import Job, Owner
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult


@dataclass(frozen=True)
class Finished:
    """A group that a job has rewritten and not committed yet."""

    result: TaskResult
    finished_ms: int


class JobStore(Protocol):
    def save(self, job: Job, *, holder: str | None = None) -> bool:
        """Insert the job, or replace what is known of it.

        With `holder`, the job itself or who settles it: only while that one has the job's table. False: it lost it, and
        nothing is changed of what its successor recorded.
        """
        ...

    def get(self, job_id: str) -> Job | None: ...

    def find(self, *, table: TableRef | None = None, unfinished: bool = False, limit: int = 20) -> list[Job]:
        """Newest first. `unfinished`: only jobs that run, or ended unresolved."""
        ...

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        """Take the table for this job. None: it is ours now; else the id of the job that holds it.

        A lease is valid while it has not run out and its process is not seen to be dead: one that is stopped loses it.
        """
        ...

    def renew(self, table_uuid: str, job_id: str, *, now_ms: int, ttl_ms: int) -> bool:
        """Keep the table. False: another job took it over, so this one must write no more."""
        ...

    def release(self, table_uuid: str, job_id: str) -> None: ...

    def note_paths(self, job_id: str, paths: Sequence[str]) -> None:
        """Record metadata files that the job is about to write."""
        ...

    def paths(self, job_id: str) -> list[str]: ...

    def forget_paths(self, job_id: str) -> None: ...

    def save_plan(self, job_id: str, document: str) -> None:
        """Keep the plan that the job is at, so that another can go on with it. One too large is not kept."""
        ...

    def plan(self, job_id: str) -> str | None: ...

    def save_finished(self, job_id: str, finished: Finished, *, table_uuid: str | None = None) -> None:
        """Keep the result of a group that is rewritten. One too large is not kept.

        With `table_uuid`: only while the job has that table. Else its outputs may be gone, or be removed any moment.
        """
        ...

    def finished(self, job_id: str) -> list[Finished]:
        """What can be read of it by this version."""
        ...

    def withdraw(self, table_uuid: str, holder: str, job_id: str, groups: Collection[int] | None = None) -> bool:
        """Before outputs of a job are deleted: forget those groups, or all, so that nobody takes them over.

        False, and nothing is forgotten: `holder` no longer has the table, and who has it may have taken them over.
        """
        ...

    def forget(self, job_id: str) -> None:
        """The job is settled: its paths, its plan and its finished groups are of no use any more."""
        ...

    def prune(self, *, ended_before_ms: int, at_most: int = 1000) -> int:
        """Forget jobs that ended before then, with all that is kept of them, oldest first.

        Never one whose outcome is not known, nor one that still holds its table.
        """
        ...

    def close(self) -> None: ...
