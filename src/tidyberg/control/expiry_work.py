"""Expires snapshots while a job holds its table: it decides, lists files, commits, deletes and verifies."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.errors import catalog_errors
from tidyberg.commit.expiry import ExpiryPublisher, MetadataRemoval
from tidyberg.control.context import Services
from tidyberg.control.expired_files import DeletedFiles, delete_files, remove_lost_metadata
from tidyberg.control.expiry_list import list_location, remove_list, write_list
from tidyberg.control.expiry_plan import ExpiryPlanner, PreparedExpiry
from tidyberg.control.held_table import HeldTable
from tidyberg.errors import (
    Cancelled,
    CommitStateUnknown,
    Conflict,
    DamagedFile,
    StorageError,
    TidybergError,
)
from tidyberg.model.expiry import EXPIRE, ExpireOptions, ExpiryOutcome, ExpiryResult, FileCounts
from tidyberg.model.job import ExpiryRecord, ExpiryTotals, Stage
from tidyberg.model.report import EventSink, Notice, StageStarted
from tidyberg.model.sizes import MB, format_size
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.missing_files import find_missing
from tidyberg.observe.reachable import ReachedManifests, count_files

VERIFY_BELOW_BYTES = 64 * MB  # of manifests


@dataclass(frozen=True)
class ExpiryRequest:
    table: TableRef
    options: ExpireOptions
    job_id: str  # no job has had it before
    submission_id: str | None = None  # the submission that this job is an attempt at
    sent_before: frozenset[int] = frozenset()  # snapshots that earlier attempts may have expired


def planner_of(
    request: ExpiryRequest, catalog: Catalog, services: Services, emit: EventSink, check: Callable[[], None]
) -> ExpiryPlanner:
    def warn(text: str) -> None:
        emit(Notice("warning", text))

    return ExpiryPlanner(
        request.table,
        request.options,
        catalog,
        services.now_ms(),
        check,
        warn,
        sent_before=request.sent_before,
        engine_reads=services.engine_reads,
    )


@dataclass
class ExpiryWork:
    """The stages of an expiry while it holds its table."""

    request: ExpiryRequest
    held: HeldTable
    _listed: tuple[Table, pa.Table] | None = None  # the table and the files on the list, once there is one

    def run(self) -> ExpiryResult:
        recovered = self.held.recover_dead_jobs(EXPIRE)
        table = self.held.table or self.held.load()
        self.held.stage(Stage.OBSERVE, f"reading the manifests of {self.request.table}")
        planner = planner_of(
            self.request, self.held.catalog, self.held.services, self.held.emit, self.held.cancel.raise_if_cancelled
        )
        with catalog_errors(self.request.table.catalog, what=str(self.request.table)):
            prepared = planner.prepare(table)
        for warning in prepared.decision.warnings:
            self.held.warn(warning)
        if prepared.removal.is_empty:
            return self._finish("nothing", table, prepared, DeletedFiles(FileCounts()), recovered=recovered)
        self._record_list(table, prepared)
        removal, fresh = self._commit(planner, prepared)
        deleted = self._delete(fresh, prepared, removal)
        failure = self._leftovers(fresh, deleted)
        self.held.record.update(unresolved=failure is not None)
        verified = None
        if removal.snapshot_ids or self.request.options.verify:
            verified, failure = self._verify(fresh, prepared, failure)
        done = replace(
            prepared, removal=removal, decision=replace(prepared.decision, snapshot_ids=removal.snapshot_ids)
        )
        return self._finish(
            "expired" if not deleted.refused else "partly",
            table,
            done,
            deleted,
            verified=verified,
            failure=failure,
            recovered=recovered,
        )

    def _record_list(self, table: Table, prepared: PreparedExpiry) -> None:
        """Records the list before it is written, so that recovery finds it."""
        files, removal = prepared.to_delete.ordered(), prepared.removal
        location = list_location(table, self.held.record.job.job_id)
        counts = count_files(files)
        record = ExpiryRecord(location, removal.snapshot_ids, removal.refs, counts.files, counts.bytes)
        self.held.record.update(stage=Stage.PLAN, expiry=record)
        self._listed = table, files
        write_list(table.io, location, files, self.held.record.job.job_id, str(table.metadata.table_uuid))

    def hand_back(self) -> None:
        """For a job that lost its table: its commit may have landed after another job had removed its list."""
        store, expiry = self.held.services.store, self.held.record.job.expiry
        if self._listed is None or expiry is None or expiry.sent_from is None:
            return
        table, files = self._listed
        try:
            if (found := store.get(self.held.record.job.job_id)) is not None:
                write_list(table.io, expiry.list_path, files, found.job_id, found.table_uuid)
                store.save(replace(found, expiry=expiry, unresolved=True))
        except TidybergError as error:  # must not hide how the job itself ended
            self.held.warn(f"expired files may be left in storage: {error}")

    def _commit(self, planner: ExpiryPlanner, prepared: PreparedExpiry) -> tuple[MetadataRemoval, Table]:
        """Returns what was removed, and the table after that."""
        known = set(prepared.decision.snapshot_ids)
        self.held.stage(Stage.COMMIT, f"expiring {plural(len(known), 'snapshot')}")

        def decide(now: Table) -> MetadataRemoval:
            # Only snapshots whose files are on the list: others that would expire now are for the next run.
            return planner.removal(now, planner.decide(now), prepared.retained, only=known)

        loop, record = self.held.commit_loop(), self.held.record
        publisher = ExpiryPublisher(
            loop, record.job.job_id, decide, record.about_to_write, about_to_commit=self._about_to_commit
        )
        try:
            removal = publisher.publish()
        except CommitStateUnknown:
            raise
        except TidybergError:
            self._undo()
            raise
        record.update(commit_retries=max(0, loop.sent - 1))
        try:
            fresh = self.held.load()
        except TidybergError:
            self.held.warn("the snapshots are expired; their files are left for the next expire, or `tidyberg recover`")
            raise
        if not removal.is_done(fresh.metadata):
            raise Conflict(
                f"The catalog still shows the expired snapshots of {self.request.table}; no file was deleted.",
                hint="A cache may show an older state. `tidyberg recover` deletes the files later.",
            )
        return removal, fresh

    def _about_to_commit(self, base: str, removal: MetadataRemoval) -> None:
        """Records what this attempt removes: after a conflict, that may be less than the list was made for."""
        expiry = self.held.record.job.expiry
        assert expiry is not None, "the list is recorded first"
        sent = replace(expiry, sent_from=base, snapshot_ids=removal.snapshot_ids, refs=removal.refs)
        self.held.record.update(expiry=sent, heartbeat_ms=self.held.services.now_ms())
        self.held.record.check_ownership()
        self.held.cancel.raise_if_cancelled()

    def _undo(self) -> None:
        """Removes the list, because no attempt can land any more. Otherwise recovery decides."""
        expiry = self.held.record.job.expiry
        assert expiry is not None
        try:
            self.held.record.check_ownership()
            fresh = self.held.load()
            if {one.snapshot_id for one in fresh.metadata.snapshots}.isdisjoint(expiry.snapshot_ids):
                return  # somebody expired them: recovery deletes what is left of their files
            self._remove_metadata_files(fresh)
            if remove_list(fresh.io, expiry.list_path) is None:
                self.held.record.update(expiry=None)
                self.held.record.forget()
        except Exception as error:  # noqa: BLE001  # must not hide the job's own error
            self.held.warn(f"files are left for `tidyberg recover`: {error}")

    def _delete(self, fresh: Table, prepared: PreparedExpiry, removal: MetadataRemoval) -> DeletedFiles:
        """Looks at the table once more: a writer may have committed since the list was made."""
        if not removal.snapshot_ids:
            return DeletedFiles(FileCounts())
        retained = prepared.retained
        retained.io = fresh.io  # credentials may have been renewed
        retained.add(fresh.metadata.snapshots)
        prepared.to_delete.protect(fresh, retained)
        files = prepared.to_delete.ordered()
        self.held.stage(Stage.EXECUTE, f"deleting {plural(files.num_rows, 'file')}")

        def progress(done: int) -> None:
            self.held.emit(StageStarted(Stage.EXECUTE, f"deleted {done:,} of {plural(files.num_rows, 'file')}"))

        return delete_files(fresh.io, files, self.held.check_ownership, progress)

    def _leftovers(self, fresh: Table, deleted: DeletedFiles) -> TidybergError | None:
        """Removes the list and metadata files of lost attempts. Returns the error if files are left."""
        expiry = self.held.record.job.expiry
        assert expiry is not None
        if deleted.refused:
            return StorageError(
                f"{plural(len(deleted.refused), 'file')} could not be deleted, first {deleted.first_refused}.",
                hint="The list is kept: the next expire of the table, or `tidyberg recover`, tries again.",
            )
        self._remove_metadata_files(fresh)
        if (said := remove_list(fresh.io, expiry.list_path)) is not None:
            return StorageError(f"{expiry.list_path} could not be deleted: {said}.", hint="Run `tidyberg recover`.")
        return None

    def _remove_metadata_files(self, fresh: Table) -> None:
        """Removes the metadata files of attempts that lost. Only where none of them can still be swapped in."""
        remove_lost_metadata(
            self.held.catalog, fresh, self.held.record.job, self.held.record.noted_paths(), has_ended=True
        )

    def _verify(
        self, fresh: Table, prepared: PreparedExpiry, failure: TidybergError | None
    ) -> tuple[int | None, TidybergError | None]:
        wanted = self.request.options.verify
        retained = prepared.retained
        if wanted is False or (wanted is None and retained.bytes >= VERIFY_BELOW_BYTES):
            return None, failure
        self.held.stage(Stage.VERIFY, "looking for every file of the retained snapshots")
        try:
            if len(retained.lists) != len(fresh.metadata.snapshots):  # others have expired some of them meanwhile
                check, engine_reads = self.held.cancel.raise_if_cancelled, self.held.services.engine_reads
                retained = ReachedManifests(fresh.io, check, engine_reads)
            retained.add(fresh.metadata.snapshots)
            found = find_missing(fresh, retained)
        except Cancelled:
            raise
        except TidybergError as error:
            if wanted:
                return None, failure or error
            self.held.warn(f"not verified: {error}")
            return None, failure
        if found.missing:
            return found.references, DamagedFile(
                f"{plural(len(found.missing), 'file')} of retained snapshots of {self.request.table} "
                f"are missing, first {found.missing[0]}.",
                hint="tidyberg deleted none of them: another tool removed them, before or meanwhile. Roll back to a "
                "snapshot whose files are all there, or restore them from a copy.",
            )
        return found.references, failure

    def _finish(
        self,
        outcome: ExpiryOutcome,
        table: Table,
        prepared: PreparedExpiry,
        deleted: DeletedFiles,
        *,
        verified: int | None = None,
        failure: TidybergError | None = None,
        recovered: tuple[str, ...] = (),
    ) -> ExpiryResult:
        result = replace(
            expiry_result(self.request.table, outcome, table, prepared, deleted.counts),
            refused=len(deleted.refused),
            first_refused=deleted.first_refused,
            verified=verified,
            failure=failure,
            recovered=recovered,
        )
        job = self.held.finish(
            in_words(result),
            failure,
            outcome="tidy" if outcome == "nothing" else "committed" if failure is None else "partly",
            expired=totals_of(result),
        )
        return replace(result, job=job)


def in_words(result: ExpiryResult) -> str:
    if result.outcome == "nothing":
        return "nothing to expire"
    freed = f"{plural(result.files.files, 'file')} deleted, {format_size(result.files.bytes)} freed"
    refs = f" and {plural(len(result.decision.refs), 'ref')}" if result.decision.refs else ""
    return f"{plural(result.snapshots_expired, 'snapshot')}{refs} expired; {freed}"


def totals_of(result: ExpiryResult) -> ExpiryTotals:
    """For the record of the job."""
    return ExpiryTotals(
        snapshots_expired=result.snapshots_expired,
        refs_removed=len(result.decision.refs),
        files_deleted=result.files.files,
        bytes_deleted=result.files.bytes,
        files_refused=result.refused,
        files_outside=result.outside,
        snapshots_kept=len(result.decision.retained),
        references_verified=result.verified,
    )


def expiry_result(
    ref: TableRef, outcome: ExpiryOutcome, table: Table, prepared: PreparedExpiry, files: FileCounts
) -> ExpiryResult:
    return ExpiryResult(
        table=ref,
        outcome=outcome,
        decision=replace(
            prepared.decision, refs=tuple(ref for ref in prepared.decision.refs if ref.name in prepared.removal.refs)
        ),
        snapshots_before=len(table.metadata.snapshots),
        files=files,
        schemas_removed=prepared.removal.schema_ids,
        specs_removed=prepared.removal.spec_ids,
        outside=prepared.outside.num_rows,
        first_outside=prepared.first_outside,
    )
