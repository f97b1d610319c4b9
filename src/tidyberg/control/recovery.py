"""Recovers dead jobs: decides from the table whether they committed, and removes their uncommitted files [I6, I7].

A missing snapshot does not prove that a job did not commit. So recovery never removes a file that any snapshot
references. It removes nothing at all while a sent commit could still land. A fence in the table prevents that commit.

A job's record says where to look, but it proves nothing: anyone with access to the store could have written it. The
table's metadata and the file names decide what may be deleted (commit/ownership.py). Every manifest is read to find out
which files are referenced.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.metadata_file import swaps_blindly, swaps_in_process
from tidyberg.commit.cleanup import referenced_paths, remove
from tidyberg.commit.fence import FenceInDoubtError, fence_name, put_up_fence
from tidyberg.commit.new_snapshot import last_sequence_number, snapshot_of_job
from tidyberg.commit.outputs import existing_outputs, exists, group_of
from tidyberg.commit.ownership import Ownership, is_manifest_of
from tidyberg.control.expiry_recovery import doubt_about_expiry, settle_expiry
from tidyberg.errors import StorageError, TableBusy
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Intent, Job, JobStatus, SentCommit, Stage
from tidyberg.model.orphans import ORPHANS, PURGE, RESTORE
from tidyberg.model.words import plural
from tidyberg.record.process import is_alive
from tidyberg.record.store import JobStore

log = logging.getLogger(__name__)

DIED = "died"  # the error code of a job whose process died
COMMIT_GRACE_MS = 600_000  # how long a catalog may still carry out a swap that a fence does not stop
MOST_SETTLE_SECONDS = 30.0  # a record, which may be forged, cannot ask for more
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class Finding:
    """The facts that recovery found out about a dead job that had begun to write."""

    table: Table | None  # None if it is gone, or if another table has its name
    files: frozenset[str] = frozenset()  # files of the job that exist
    foreign: frozenset[str] = frozenset()  # paths in its record that do not belong to it
    referenced: frozenset[str] = frozenset()  # its files that some snapshot references
    landed: bool = False  # whether the last commit that it sent went through
    doubt: str | None = None  # why that commit could still land

    @property
    def io(self) -> FileIO:
        assert self.table is not None, "nothing is looked up of a table that is gone"
        return self.table.io


@dataclass(frozen=True)
class Recovery:
    store: JobStore
    holder: str  # id of the job or recovery that holds the table
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep
    cancel: CancelToken = field(default_factory=CancelToken)
    notify: Callable[[str], None] = log.info  # called with the progress of a long recovery

    def recover(self, catalog: Catalog, job: Job) -> str:
        """Recovers one dead job and returns what was done. The caller holds the table."""
        return self.conclude(job, self.examine(catalog, job))

    def examine(self, catalog: Catalog, job: Job) -> Finding | None:
        """Finds out what the job did. Changes no data, but may put up a fence to rule out a commit in doubt.

        Returns None if the job died before it could write.
        """
        with catalog_errors(job.table.catalog, what=str(job.table)):
            table = self._load(catalog, job)
        intent = job.intent
        if job.expiry is not None:
            doubt = doubt_about_expiry(catalog, table, job, self.now_ms()) if table is not None else None
            return Finding(table, doubt=doubt)
        if intent is None:
            return None
        if table is None:
            return Finding(None)
        if not job.status.is_final and intent.settle_seconds:
            # Workers may live some seconds longer than the process that started them.
            self.sleep(min(intent.settle_seconds, MOST_SETTLE_SECONDS))
        table, doubt = self._rule_out(catalog, table, job)
        written = self.store.paths(job.job_id)
        if job.sent is not None and fence_name(job.job_id, job.sent.chunk) in table.metadata.refs:
            written += self.store.paths(_fencing(job))  # no other recovery can still swap one of them in
        ownership, check = Ownership.of(table, job.job_id), self.cancel.raise_if_cancelled
        noted = [path for path in written if ownership.owns(path) and exists(table.io, path)]
        outputs = existing_outputs(table.io, intent, ownership, check)
        files = {*outputs, *noted}
        referenced = referenced_paths(table, files, None, check)
        sent = frozenset(job.sent.groups) if job.sent is not None else frozenset()
        landed = job.sent is not None and (
            snapshot_of_job(table.metadata, job.job_id, job.sent.chunk) is not None
            # The snapshot may have expired while its files are still live.
            or not referenced.isdisjoint(outputs_of(intent.only(sent), outputs))
            or any(is_manifest_of(path, job.job_id, job.sent.chunk) for path in referenced)
        )
        doubt = None if landed else doubt
        foreign = foreign_paths(intent, written, ownership)
        return Finding(table, frozenset(files), foreign, frozenset(referenced), landed, doubt)

    def conclude(self, job: Job, finding: Finding | None) -> str:
        """Records the job's outcome and removes its uncommitted files, except those that another job has adopted."""
        if finding is None:
            is_repeatable = job.strategy in (ORPHANS, RESTORE, PURGE)  # another run finds out what is left to do
            what = "died; running it again continues it" if is_repeatable else "died before it wrote anything"
            return self._finish(job, JobStatus.FAILED, what)
        if finding.doubt:  # also of an expiry, whose list is kept
            what = f"its commit may still land ({finding.doubt}); its files are kept until that is known"
            return self._postpone(job, what)
        if job.expiry is not None:
            return self._conclude_expiry(job, finding.table)
        has_committed = finding.landed or job.commits > 0
        status = JobStatus.SUCCEEDED if has_committed or job.status is JobStatus.SUCCEEDED else JobStatus.FAILED
        assert job.intent is not None  # otherwise there is no finding
        if finding.table is None:
            # A renamed table still exists, and only its metadata shows which files belong to it.
            where = next(iter(job.intent.directories.values()), None)
            kept = f"; what the job may have left is kept (first in {where})" if where else ""
            return self._finish(job, status, f"{job.table} is gone or renamed{kept}")
        keep = finding.files & self.taken_over(job)
        leftovers = finding.files - finding.referenced - keep
        if not self.store.withdraw(job.table_uuid, self.holder, job.job_id):
            return self._lost(job)
        removal = remove(
            finding.io,
            leftovers,
            job.intent,
            Ownership.of(finding.table, job.job_id),
            check=self.cancel.raise_if_cancelled,
            progress=self._reporting(job, len(leftovers)),
        )
        if removal.refused:
            path, answer = removal.refused[0]
            return self._postpone(
                job, f"{plural(len(removal.refused), 'leftover')} could not be removed, first {path} ({answer})"
            )
        taken_over = f", {len(keep)} taken over by the next job" if keep else ""
        removed = f"{plural(len(removal.removed), 'leftover')} removed{taken_over}{self._left_alone(job, finding)}"
        if not has_committed:
            return self._finish(job, status, f"had not committed; {removed}")
        rest = len(open_groups(job, finding))
        if finding.landed and job.sent is not None:
            job = replace(job, snapshot_id=job.sent.snapshot_id, stage=Stage.DONE)
            if not rest:
                job = replace(job, error_code=None, error=None)
        but = f", but not {plural(rest, 'further group')}" if rest else ""
        what = f"had committed snapshot {job.snapshot_id}{but}"
        return self._finish(job, status, f"{what}; {removed}", died=rest > 0)

    def _conclude_expiry(self, job: Job, table: Table | None) -> str:
        if table is None:
            return self._finish(job, JobStatus.FAILED, f"{job.table} is gone or renamed; none of its files was deleted")

        def check() -> None:
            self.cancel.raise_if_cancelled()
            if not self.store.withdraw(job.table_uuid, self.holder, job.job_id):
                raise TableBusy(f"Another job took over {job.table}.")

        settled = settle_expiry(table, job, self.store.paths(job.job_id), check)
        if settled.has_landed:
            job = replace(job, status=JobStatus.SUCCEEDED, stage=Stage.DONE, expired=settled.totals)
        if not settled.is_finished:
            if settled.has_landed:
                job = replace(job, outcome="partly", error_code=StorageError.code, error=settled.what)
            return self._postpone(job, settled.what)
        if settled.has_landed:
            job = replace(job, outcome="committed", error_code=None, error=None)
        status = JobStatus.SUCCEEDED if settled.has_landed else JobStatus.FAILED
        return self._finish(job, status, settled.what)

    def _reporting(self, job: Job, total: int) -> Callable[[int], None]:
        last = time.monotonic()

        def report(number: int) -> None:
            nonlocal last
            if time.monotonic() - last >= PROGRESS_SECONDS:
                last = time.monotonic()
                self.notify(f"job {job.job_id}: {number:,} of {total:,} leftovers removed")

        return report

    def _left_alone(self, job: Job, finding: Finding) -> str:
        if not finding.foreign:
            return ""
        first = min(finding.foreign)
        log.warning(
            "The record of job %s names %d paths that are not its own, first %s: they are left alone. "
            "Check who can write to the job store.",
            job.job_id,
            len(finding.foreign),
            first,
        )
        if len(finding.foreign) == 1:
            return f"; a path of its record is not its own and was left alone, {first}"
        return f"; {len(finding.foreign):,} paths of its record are not its own and were left alone, first {first}"

    def taken_over(self, job: Job) -> frozenset[str]:
        """Outputs of dead jobs that other open jobs have adopted, to commit or to remove them."""
        others = self.store.find(table=job.table, unfinished=True, limit=1000)
        return frozenset(
            path
            for other in others
            if other.job_id != job.job_id and other.intent is not None
            for paths in other.intent.adopted.values()
            for path in paths
        )

    def _load(self, catalog: Catalog, job: Job) -> Table | None:
        """Returns None if the table is gone, or if another table has its name."""
        try:
            table = catalog.load_table(job.table.identifier)
        except NoSuchTableError:
            return None
        return table if str(table.metadata.table_uuid) == job.table_uuid else None

    def _rule_out(self, catalog: Catalog, table: Table, job: Job) -> tuple[Table, str | None]:
        """Returns the table as of a moment after which the last commit cannot land, or a reason for doubt."""
        sent = job.sent
        if sent is None or (self._is_ruled_out(catalog, table, job, sent) and not self.store.paths(_fencing(job))):
            return table, None
        # A fence that another recovery began must be completed: that recovery may have stopped within its swap, and
        # the metadata file that it would swap in is among the files to remove.
        try:
            fenced = put_up_fence(
                catalog,
                table,
                fence_name(job.job_id, sent.chunk),
                attempt=f"{job.job_id}/{sent.chunk}/fence/{self.holder}",
                about_to_write=lambda paths: self.store.note_paths(_fencing(job), paths),
                now_ms=self.now_ms(),
                sleep=self.sleep,
            )
        except FenceInDoubtError as error:
            return table, str(error) or type(error).__name__
        if swaps_blindly(catalog) and self.now_ms() - (job.heartbeat_ms or job.created_ms) < COMMIT_GRACE_MS:
            return fenced, "a Hive metastore does not compare before it swaps"
        return fenced, None

    def _is_ruled_out(self, catalog: Catalog, table: Table, job: Job, sent: SentCommit) -> bool:
        """Returns True if the last commit cannot land, even without a fence."""
        if snapshot_of_job(table.metadata, job.job_id, sent.chunk) is not None:
            return True
        if swaps_in_process(catalog) and job.owner is not None and is_alive(job.owner) is False:
            return True  # only the dead process could have made the swap
        # No snapshot gets this number again.
        return sent.sequence_number is not None and last_sequence_number(table.metadata) >= sent.sequence_number

    def _postpone(self, job: Job, what: str) -> str:
        """Leaves the job open for the next recovery."""
        status = job.status if job.status.is_final else JobStatus.FAILED
        postponed = replace(job, status=status, unresolved=True, finished_ms=job.finished_ms or self.now_ms())
        if not self.store.save(postponed, holder=self.holder):
            return self._lost(job)
        return f"job {job.job_id}: {what}"

    def _finish(self, job: Job, status: JobStatus, what: str, *, died: bool | None = None) -> str:
        died = status is not JobStatus.SUCCEEDED if died is None else died
        finished = replace(
            job,
            status=status,
            unresolved=False,
            finished_ms=job.finished_ms or self.now_ms(),
            notes=(*job.notes, f"recovered: {what}"),
            error_code=job.error_code or (DIED if died else None),
            error=job.error or ("The process that ran it died." if died else None),
        )
        if not self.store.save(finished, holder=self.holder):
            return self._lost(job)
        self.store.forget(job.job_id)
        self.store.forget(_fencing(job))
        return f"job {job.job_id} {what}"

    def _lost(self, job: Job) -> str:
        return f"job {job.job_id} is left to the one that took over {job.table} meanwhile"


def open_groups(job: Job, finding: Finding) -> frozenset[int]:
    """Groups of the job's plan that are not committed."""
    if job.intent is None or (job.sent is None and job.status.is_final):
        return frozenset()
    committed = job.sent.groups if job.sent is not None and finding.landed else ()
    return job.intent.groups - frozenset(committed)


def outputs_of(intent: Intent, paths: Collection[str]) -> frozenset[str]:
    """The paths that are outputs of the intent's groups."""
    adopted = {path for several in intent.adopted.values() for path in several}
    return frozenset(path for path in paths if path in adopted or group_of(path) in intent.directories)


def foreign_paths(intent: Intent, noted: Collection[str], ownership: Ownership) -> frozenset[str]:
    """Paths in a record that the job cannot have written."""
    adopted = (path for several in intent.adopted.values() for path in several)
    directories = (directory for directory in intent.directories.values() if not ownership.holds(directory))
    paths = (path for path in [*adopted, *noted] if not ownership.owns(path, (path,)))
    return frozenset([*directories, *paths])


def _fencing(job: Job) -> str:
    """The store's key for metadata files of fences against this job."""
    return f"{job.job_id}/fence"
