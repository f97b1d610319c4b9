"""The job store as the rest of tidyberg sees it: jobs, who holds which table, and what each job may have written."""

from collections.abc import Sequence
from typing import Protocol

from tidyberg.model.job import Job, Owner
from tidyberg.model.table import TableRef


class JobStore(Protocol):
    def save(self, job: Job) -> None:
        """Insert the job, or replace what is known of it."""
        ...

    def get(self, job_id: str) -> Job | None: ...

    def find(self, *, table: TableRef | None = None, unfinished: bool = False, limit: int = 20) -> list[Job]:
        """Newest first. `unfinished`: only jobs that run, or ended unresolved."""
        ...

    def acquire(self, table_uuid: str, job_id: str, owner: Owner, *, now_ms: int, ttl_ms: int) -> str | None:
        """Take the table for this job. None: it is ours now; else the id of the job that holds it."""
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

    def close(self) -> None: ...
