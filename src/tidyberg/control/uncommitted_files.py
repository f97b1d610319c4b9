"""Removes files that a job wrote and did not commit: after each of its commits, and when it fails [I6]."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.new_snapshot import last_sequence_number
from tidyberg.commit.outputs import existing_outputs
from tidyberg.commit.ownership import Ownership
from tidyberg.commit.publish import Committed
from tidyberg.control.context import JobContext
from tidyberg.model.job import Intent
from tidyberg.model.report import Notice
from tidyberg.model.task import TaskResult

_GONE = "the table is gone or renamed, and some of them may be committed"
_STALE = "the catalog does not show the job's last commit"


@dataclass(frozen=True)
class UncommittedFiles:
    context: JobContext
    table: Table

    def remove_after_commit(self, results: Sequence[TaskResult], committed: Committed | None) -> None:
        """Removes outputs of groups that the commit left out, and outputs of task attempts that failed."""
        record, groups = self.context.record, {result.group_id for result in results}
        kept = set(committed.groups) if committed else set()
        is_clean = committed is not None and committed.attempts <= 1 and kept == groups
        if is_clean and not any(result.attempt for result in results):
            record.conclude(groups)
            return
        keep = {file.path for result in results if result.group_id in kept for file in result.outputs}
        try:
            problem = self._remove_of(groups, keep)
        except Exception as error:  # noqa: BLE001  # the commit stands even if this fails
            problem = str(error)
        if problem:
            self.context.warn(f"leftovers are kept until the next run: {problem}")
            record.update(unresolved=True)
        else:
            record.conclude(groups)

    def remove_after_failure(self, settle_seconds: float) -> None:
        """Removes everything uncommitted after a definite failure. Recovery removes what cannot be removed now."""
        record = self.context.record
        if record.job.intent is None:
            return
        if settle_seconds:
            self.context.emit(Notice("info", "waiting for workers to stop, then removing what was written"))
            self.context.services.sleep(settle_seconds)
        try:
            problem = self._remove_all()
        except Exception as failure:  # noqa: BLE001  # must not hide the job's own error
            problem = str(failure)
        if problem:
            self.context.warn(f"files are left for `tidyberg recover`: {problem}")
            record.update(unresolved=True)
        else:
            record.conclude(record.job.intent.groups)
            record.conclude_joins()
            record.update(unresolved=False)
            record.forget()

    def _remove_of(self, groups: set[int], keep: set[str]) -> str | None:
        record = self.context.record
        intent = record.job.intent
        assert intent is not None
        if not record.may_delete(groups):
            return "another job took over the table"
        written = existing_outputs(self.table.io, intent.only(groups), self._ownership)
        candidates = {*written, *record.noted_paths()} - keep
        fresh = self._fresh()
        if fresh is None:
            return _GONE
        if not self._shows_our_commit(fresh):
            return _STALE
        unreferenced = candidates - referenced_paths(fresh, candidates, intent.sequence_number)
        return self._remove(unreferenced, intent.only(groups))

    def _remove_all(self) -> str | None:
        """Removes every file of the job that no snapshot references. Returns what went wrong, if anything."""
        record = self.context.record
        job = record.job
        assert job.intent is not None
        if not record.may_delete():
            return "another job took over the table"
        noted = record.noted_paths()
        candidates = {*existing_outputs(self.table.io, job.intent, self._ownership), *noted}
        referenced: set[str] = set()
        fresh: Table | None = None
        # Without a commit, and without metadata for one, no snapshot can reference the files. A finished commit does
        # not prove that: the store may have failed before it forgot metadata that now belongs to the table.
        if noted or job.sent is not None or job.commits or job.unresolved:
            if (fresh := self._fresh()) is not None:
                if not self._shows_our_commit(fresh):
                    return _STALE
                referenced = referenced_paths(fresh, candidates, job.intent.sequence_number)
            elif job.unresolved:
                return _GONE
            elif job.commits:  # open groups were not committed, but a noted file may belong to an earlier commit
                referenced = set(noted)
        problem = self._remove(candidates - referenced, job.intent)
        return problem or (_GONE if fresh is None and referenced else None)

    @property
    def _ownership(self) -> Ownership:
        return Ownership.of(self.table, self.context.record.job.job_id)

    def _shows_our_commit(self, fresh: Table) -> bool:
        """A catalog with a cache may show an older state, which does not reference the commit's files."""
        job, number = self.context.record.job, self.context.record.committed_number
        if number is not None and last_sequence_number(fresh.metadata) >= number:
            return True  # even if the commit's snapshot has expired since
        return not job.commits or fresh.metadata.snapshot_by_id(job.snapshot_id or -1) is not None

    def _fresh(self) -> Table | None:
        """Loads the table. Returns None if it is gone, or if another table has its name."""
        try:
            fresh = self.context.catalog.load_table(self.context.request.table.identifier)
        except NoSuchTableError:
            return None
        return fresh if fresh.metadata.table_uuid == self.table.metadata.table_uuid else None

    def _remove(self, paths: set[str], intent: Intent) -> str | None:
        refused = remove(self.table.io, paths, intent, self._ownership).refused
        return f"{len(refused)} could not be removed, first {refused[0][0]}: {refused[0][1]}" if refused else None
