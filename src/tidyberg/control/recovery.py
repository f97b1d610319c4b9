"""Finds jobs that died, decides from the table whether they committed, and removes what they left [I6, I7].

Not finding a job's snapshot proves nothing, so nothing is removed that any snapshot references, and nothing at all
while a commit that was sent could still land.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.outputs import existing_outputs
from tidyberg.commit.snapshot import snapshot_of_job
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.record.process import is_alive
from tidyberg.record.store import JobStore
from tidyberg.settings.catalog_errors import catalog_errors

COMMIT_GRACE_MS = 600_000  # how long a request that was sent may still be worked on by a catalog server


@dataclass(frozen=True)
class Recovery:
    store: JobStore
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep

    def recover(self, catalog: Catalog, job: Job) -> str:
        """Settle one dead job whose table the caller holds; says what was done."""
        with catalog_errors(job.table.catalog, what=str(job.table)):
            table = self._load(catalog, job)
        intent = job.intent
        if intent is None:
            return self._finish(job, JobStatus.FAILED, "died before it wrote anything")
        if not job.status.is_final and intent.settle_seconds:
            self.sleep(intent.settle_seconds)  # workers outlive the process that started them by some seconds
        io = table.io if table else load_file_io(dict(catalog.properties), next(iter(intent.directories.values())))
        noted = [path for path in self.store.paths(job.job_id) if io.new_input(path).exists()]
        candidates = {*existing_outputs(io, intent), *noted}
        if table is None and job.sent_snapshot_id is not None and candidates:
            # A renamed table is gone from its old name only: what a commit may have published stays.
            status = job.status if job.status is JobStatus.SUCCEEDED else JobStatus.FAILED
            what = f"{job.table} is gone or renamed; {len(candidates)} files that a commit may have published are kept"
            return self._finish(job, status, what)
        referenced: set[str] = set()
        landed = table is not None and snapshot_of_job(table.metadata, job.job_id) is not None
        if table is not None and job.sent_snapshot_id is not None:
            referenced = referenced_paths(table, candidates, intent.sequence_number)
            if not landed and not referenced and self._may_still_land(catalog, table, job):
                return self._postpone(job, "its commit may still land; its files are kept until that is known")
        removal = remove(io, sorted(candidates - referenced))
        if removal.refused:
            path, answer = removal.refused[0]
            return self._postpone(
                job, f"{len(removal.refused)} leftovers could not be removed, first {path} ({answer})"
            )
        if landed or referenced:
            return self._finish(
                replace(job, snapshot_id=job.sent_snapshot_id, stage=Stage.DONE),
                JobStatus.SUCCEEDED,
                f"had committed snapshot {job.sent_snapshot_id}; {len(removal.removed)} leftovers removed",
            )
        return self._finish(job, JobStatus.FAILED, f"had not committed; {len(removal.removed)} leftovers removed")

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
        if ref is None or ref.snapshot_id != job.sent_parent_id:
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

    def _finish(self, job: Job, status: JobStatus, what: str) -> str:
        self.store.save(
            replace(
                job,
                status=status,
                unresolved=False,
                finished_ms=job.finished_ms or self.now_ms(),
                notes=(*job.notes, f"recovered: {what}"),
                error_code=None if status is JobStatus.SUCCEEDED else job.error_code or "died",
                error=None if status is JobStatus.SUCCEEDED else job.error or "The process that ran it died.",
            )
        )
        self.store.forget_paths(job.job_id)
        return f"job {job.job_id} {what}"
