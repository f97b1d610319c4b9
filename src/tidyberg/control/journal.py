"""Stores the state of a running job: what it will write, what it has finished, and how its commits ended."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tidyberg.control.lease import Lease
from tidyberg.errors import Cancelled, TidybergError
from tidyberg.model.job import Job, SentCommit
from tidyberg.model.task import TaskResult
from tidyberg.record.store import Finished, JobStore


class JobRecord:
    """Implements the `Journal` of commit/publish.py."""

    def __init__(self, store: JobStore, job: Job, lease: Lease, scrub: Callable[[str], str]) -> None:
        self._store = store
        self._lease = lease
        self._scrub = scrub
        self._announced: list[str] = []
        self.job = job
        self.committed_number: int | None = None  # sequence number of the last commit
        self.update()

    def update(self, **changes: object) -> Job:
        """Changes nothing in the store once the job has lost its table: its successor has recovered it."""
        if isinstance(error := changes.get("error"), str):
            changes["error"] = self._scrub(error)  # I12
        self.job = replace(self.job, **changes)  # type: ignore[arg-type]  # the names are Job's own fields
        if not self._store.save(self.job, holder=self.job.job_id):
            self._lease.lose()
        return self.job

    def save_plan(self, document: str) -> None:
        self._store.save_plan(self.job.job_id, document)

    def save_finished(self, result: TaskResult, finished_ms: int) -> None:
        finished = Finished(result, finished_ms)
        self._store.save_finished(self.job.job_id, finished, table_uuid=self.job.table_uuid)

    def about_to_write(self, paths: Sequence[str]) -> None:
        self._announced += paths
        self._store.note_paths(self.job.job_id, paths)

    def announce_again(self) -> None:
        """For a job that lost its table: its successor may have forgotten paths before their files existed."""
        self._store.note_paths(self.job.job_id, self._announced)

    def about_to_commit(self, sent: SentCommit) -> None:
        # Recovery measures from the heartbeat how long the server may still work on the request.
        self.update(sent=sent, heartbeat_ms=self._lease.now_ms())
        self._lease.check()

    def check_ownership(self, unless_within: float = 0.0) -> None:
        """Asks the store, unless it did so within the last seconds. Raises if another job took over the table."""
        self._lease.check(unless_within)

    def raise_if_lost(self) -> None:
        """Raises if the loss of the table is already known. Does not ask the store."""
        self._lease.raise_if_lost()

    def cause_of(self, error: TidybergError) -> TidybergError:
        """Losing the table cancels the job. The caller gets the loss as the error, not the cancellation."""
        return (self._lease.loss or error) if isinstance(error, Cancelled) else error

    def may_delete(self, groups: Collection[int] | None = None) -> bool:
        """Only the owner may delete outputs, and the owner holds the lease. No job adopts these groups afterwards."""
        return self._store.withdraw(self.job.table_uuid, self.job.job_id, self.job.job_id, groups)

    def noted_paths(self) -> list[str]:
        return self._store.paths(self.job.job_id)

    def conclude(self, groups: Collection[int]) -> None:
        """Removes groups from the intent. Call it when only committed files remain of them and of their metadata."""
        intent = self.job.intent
        assert intent is not None
        rest = replace(intent.only(intent.groups - frozenset(groups)), joins=intent.joins)
        self.update(sent=None, intent=rest)
        self._store.withdraw(self.job.table_uuid, self.job.job_id, self.job.job_id, groups)
        if not self.job.unresolved:  # otherwise they may belong to an earlier commit that recovery must examine
            self._store.forget_paths(self.job.job_id)

    def conclude_joins(self) -> None:
        """Call it when no file of the job's joins remains."""
        assert self.job.intent is not None
        self.update(intent=replace(self.job.intent, joins={}))

    def forget(self) -> None:
        self._store.forget(self.job.job_id)
