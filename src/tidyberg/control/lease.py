"""Holding a table while a job runs: a lease that is renewed in the background, and the journal of its commit."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from tidyberg.errors import Conflict, TableBusy, TidybergError
from tidyberg.model.job import Job, Owner
from tidyberg.record.store import JobStore

LEASE_MS = 60_000


class Lease:
    """A context manager: the table is ours inside it, or TableBusy is raised."""

    def __init__(self, store: JobStore, job: Job, owner: Owner, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._table_uuid = job.table_uuid
        self._job = job
        self._owner = owner
        self.now_ms = now_ms
        self._stopped = threading.Event()
        self._renewer = threading.Thread(target=self._renew_until_stopped, name="tidyberg-lease", daemon=True)

    def __enter__(self) -> "Lease":
        holder = self._store.acquire(
            self._table_uuid, self._job.job_id, self._owner, now_ms=self.now_ms(), ttl_ms=LEASE_MS
        )
        if holder is not None:
            raise TableBusy(
                f"Job {holder} is at work on {self._job.table}.",
                hint="Wait for it to end; `tidyberg history` shows it.",
            )
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._renewer.join()
        self._store.release(self._table_uuid, self._job.job_id)

    def is_held(self) -> bool:
        return self._store.renew(self._table_uuid, self._job.job_id, now_ms=self.now_ms(), ttl_ms=LEASE_MS)

    def check(self) -> None:
        """I7: who lost the lease commits nothing and deletes nothing."""
        if not self.is_held():
            raise Conflict(f"Another job took over {self._job.table}; this one stops without a trace in the table.")

    def _renew_until_stopped(self) -> None:
        while not self._stopped.wait(LEASE_MS / 3000):
            try:
                self.is_held()
            except TidybergError:
                continue  # the store may answer again before the lease ends; check() decides before a commit


class JobRecord:
    """The stored state of the running job, and the journal of its commit."""

    def __init__(self, store: JobStore, job: Job, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self.job = job
        store.save(job)

    def update(self, **changes: object) -> Job:
        self.job = replace(self.job, **changes)  # type: ignore[arg-type]  # the names are Job's own fields
        self._store.save(self.job)
        return self.job

    def about_to_write(self, paths: Sequence[str]) -> None:
        self._store.note_paths(self.job.job_id, paths)

    def about_to_commit(self, parent_id: int, snapshot_id: int) -> None:
        # The heartbeat too: recovery counts the time a server may take from the last request.
        self.update(sent_parent_id=parent_id, sent_snapshot_id=snapshot_id, heartbeat_ms=self._lease.now_ms())
        self._lease.check()

    def owns_table(self) -> bool:
        return self._lease.is_held()

    def noted_paths(self) -> list[str]:
        return self._store.paths(self.job.job_id)

    def forget_paths(self) -> None:
        self._store.forget_paths(self.job.job_id)
