"""The stored state of the running job: what it is about to write, what it has finished, and how its commits ended."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tidyberg.control.lease import Lease
from tidyberg.errors import Cancelled, TidybergError
from tidyberg.model.job import Job, SentCommit
from tidyberg.model.task import TaskResult
from tidyberg.record.store import Finished, JobStore


class JobRecord:
    """Also the journal of its commits, as `commit` knows it."""

    def __init__(self, store: JobStore, job: Job, lease: Lease, scrub: Callable[[str], str]) -> None:
        self._store = store
        self._lease = lease
        self._scrub = scrub
        self._announced: list[str] = []
        self.job = job
        self.committed_number: int | None = None  # the sequence number of its last commit, where there is one
        self.update()

    def update(self, **changes: object) -> Job:
        """Of a job that lost its table nothing more is recorded: its successor has settled it."""
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
        """Of a job that lost its table: its successor may have forgotten the paths before the files were there."""
        self._store.note_paths(self.job.job_id, self._announced)

    def about_to_commit(self, sent: SentCommit) -> None:
        # The heartbeat too: recovery counts the time a server may take from the last request.
        self.update(sent=sent, heartbeat_ms=self._lease.now_ms())
        self._lease.check()

    def check_ownership(self) -> None:
        """Raises when another job took over the table."""
        self._lease.check()

    def raise_if_lost(self) -> None:
        """The same, of what is known already."""
        self._lease.raise_if_lost()

    def cause_of(self, error: TidybergError) -> TidybergError:
        """A job that lost its table is cancelled, and that is what its caller must hear of."""
        return (self._lease.loss or error) if isinstance(error, Cancelled) else error

    def may_delete(self, groups: Collection[int] | None = None) -> bool:
        """Outputs have an owner, and it moves with the lease. From here on nobody takes these groups over."""
        return self._store.withdraw(self.job.table_uuid, self.job.job_id, self.job.job_id, groups)

    def noted_paths(self) -> list[str]:
        return self._store.paths(self.job.job_id)

    def settled(self, groups: Collection[int]) -> None:
        """Nothing but what is committed remains of these groups, nor of the metadata of their commit."""
        intent = self.job.intent
        assert intent is not None
        self.update(sent=None, intent=intent.only(intent.groups - frozenset(groups)))
        self._store.withdraw(self.job.table_uuid, self.job.job_id, self.job.job_id, groups)
        if not self.job.unresolved:  # else they may be those of an earlier commit, for recovery to look at
            self._store.forget_paths(self.job.job_id)

    def forget(self) -> None:
        self._store.forget(self.job.job_id)
