"""Finds jobs that died, decides from the table whether they committed, and removes what they left [I6, I7].

Not finding a job's snapshot proves nothing, so nothing is removed that any snapshot references, and nothing at all
while a commit that was sent could still land.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table

from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.outputs import existing_outputs, exists
from tidyberg.commit.snapshot import snapshot_of_job
from tidyberg.model.job import Intent, Job, JobStatus, Stage
from tidyberg.record.process import is_alive
from tidyberg.record.store import JobStore
from tidyberg.settings.catalog_errors import catalog_errors

COMMIT_GRACE_MS = 600_000  # how long a request that was sent may still be worked on by a catalog server


@dataclass(frozen=True)
class Finding:
    """What became of a dead job that had begun to write."""

    io: FileIO
    table: Table | None  # None when it is gone, or another one has its name now
    files: frozenset[str]  # those of the job that exist
    noted: frozenset[str]  # those of them that are metadata
    referenced: frozenset[str]  # those of them that some snapshot references
    landed: bool  # whether the commit that it sent last, if any, went through
    may_land: bool  # whether it still could


@dataclass(frozen=True)
class Recovery:
    store: JobStore
    holder: str  # the job, or the claim of a recovery, that holds the table
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep

    def recover(self, catalog: Catalog, job: Job) -> str:
        """Settle one dead job whose table the caller holds; says what was done."""
        return self.conclude(job, self.examine(catalog, job))

    def examine(self, catalog: Catalog, job: Job) -> Finding | None:
        """Changes nothing. None: the job died before it could write."""
        with catalog_errors(job.table.catalog, what=str(job.table)):
            table = self._load(catalog, job)
        intent = job.intent
        if intent is None:
            return None
        if not job.status.is_final and intent.settle_seconds:
            self.sleep(intent.settle_seconds)  # workers outlive the process that started them by some seconds
        written = self.store.paths(job.job_id)
        io = table.io if table else load_file_io(dict(catalog.properties), _location(intent, written))
        noted = [path for path in written if exists(io, path)]
        files = {*existing_outputs(io, intent), *noted}
        if table is None:
            return Finding(io, None, frozenset(files), frozenset(noted), frozenset(), landed=False, may_land=False)
        referenced = referenced_paths(table, files, intent.sequence_number)
        landed = job.sent is not None and (
            snapshot_of_job(table.metadata, job.job_id, job.sent.chunk) is not None
            # Our snapshot may be expired already while its files live on.
            or not referenced.isdisjoint(existing_outputs(io, intent.only(job.sent.groups)))
        )
        may_land = job.sent is not None and not landed and self._may_still_land(catalog, table, job)
        return Finding(io, table, frozenset(files), frozenset(noted), frozenset(referenced), landed, may_land)

    def conclude(self, job: Job, finding: Finding | None, keep: Collection[str] = ()) -> str:
        """Record what became of the job and remove what it left, but for files to `keep`: another job has them now."""
        if finding is None:
            return self._finish(job, JobStatus.FAILED, "died before it wrote anything")
        if finding.may_land:
            return self._postpone(job, "its commit may still land; its files are kept until that is known")
        has_committed = finding.landed or job.commits > 0
        status = JobStatus.SUCCEEDED if has_committed or job.status is JobStatus.SUCCEEDED else JobStatus.FAILED
        is_in_doubt = job.sent is not None or (job.unresolved and job.commits > 0)
        if finding.table is None and is_in_doubt and finding.files:
            # A renamed table is gone from its old name only: what a commit may have published stays.
            files = len(finding.files)
            what = f"{job.table} is gone or renamed; {files} files that a commit may have published are kept"
            return self._finish(job, status, what)
        leftovers = finding.files - finding.referenced - frozenset(keep)
        if finding.table is None and job.commits:
            leftovers -= finding.noted  # they may be of a commit that is settled: it died before that was forgotten
        if not self.store.withdraw(job.table_uuid, self.holder, job.job_id):
            return f"job {job.job_id} is left to the one that took over {job.table} meanwhile"
        removal = remove(finding.io, sorted(leftovers))
        if removal.refused:
            path, answer = removal.refused[0]
            self.store.note_paths(job.job_id, [path for path, _ in removal.refused])  # else a gap in names hides them
            return self._postpone(
                job, f"{len(removal.refused)} leftovers could not be removed, first {path} ({answer})"
            )
        taken_over = f", {len(keep)} taken over by the next job" if keep else ""
        removed = f"{len(removal.removed)} leftovers removed{taken_over}"
        if not has_committed:
            return self._finish(job, status, f"had not committed; {removed}")
        rest = len(open_groups(job, finding))
        if finding.landed and job.sent is not None:
            job = replace(job, snapshot_id=job.sent.snapshot_id, stage=Stage.DONE)
            if not rest:
                job = replace(job, error_code=None, error=None)
        what = f"had committed snapshot {job.snapshot_id}" + (f", but not {rest} further groups" if rest else "")
        return self._finish(job, status, f"{what}; {removed}", died=rest > 0)

    def _load(self, catalog: Catalog, job: Job) -> Table | None:
        """The job's table, or None when it is gone or another one has its name now."""
        try:
            table = catalog.load_table(job.table.identifier)
        except NoSuchTableError:
            return None
        return table if str(table.metadata.table_uuid) == job.table_uuid else None

    def _may_still_land(self, catalog: Catalog, table: Table, job: Job) -> bool:
        """A sent commit requires its parent to be the head still: once the head has moved it never lands."""
        ref = table.metadata.refs.get(job.branch)
        if ref is None or job.sent is None or ref.snapshot_id != job.sent.parent_id:
            return False
        dead = job.owner is not None and is_alive(job.owner) is False
        if isinstance(catalog, SqlCatalog) and dead:
            return False  # the process itself was the one to swap
        last_sign = job.heartbeat_ms or job.created_ms
        return self.now_ms() - last_sign < COMMIT_GRACE_MS

    def _postpone(self, job: Job, what: str) -> str:
        """Not settled yet: the next recovery looks again."""
        status = job.status if job.status.is_final else JobStatus.FAILED
        self.store.save(replace(job, status=status, unresolved=True, finished_ms=job.finished_ms or self.now_ms()))
        return f"job {job.job_id}: {what}"

    def _finish(self, job: Job, status: JobStatus, what: str, *, died: bool | None = None) -> str:
        died = status is not JobStatus.SUCCEEDED if died is None else died
        self.store.save(
            replace(
                job,
                status=status,
                unresolved=False,
                finished_ms=job.finished_ms or self.now_ms(),
                notes=(*job.notes, f"recovered: {what}"),
                error_code=job.error_code or ("died" if died else None),
                error=job.error or ("The process that ran it died." if died else None),
            )
        )
        self.store.forget(job.job_id)
        return f"job {job.job_id} {what}"


def open_groups(job: Job, finding: Finding) -> frozenset[int]:
    """Groups of the plan that the job was at which are not committed."""
    if job.intent is None or (job.sent is None and job.status.is_final):
        return frozenset()
    committed = job.sent.groups if job.sent is not None and finding.landed else ()
    return job.intent.groups - frozenset(committed)


def _location(intent: Intent, written: Sequence[str]) -> str | None:
    """Some place of the table, to open its storage by; None where there is nothing to look for."""
    adopted = (path for paths in intent.adopted.values() for path in paths)
    return next(iter([*intent.directories.values(), *adopted, *written]), None)
