"""Jobs that deal with orphans: each holds its table while it works, and records how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.catalog.open import load_table
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.control.orphan_plan import OrphanFinder
from tidyberg.control.orphan_work import OrphanWork
from tidyberg.control.quarantine import Quarantine, QuarantinedFiles, restore
from tidyberg.errors import AccessDenied, BadInput, Cancelled, StorageError, TidybergError, UnknownJob
from tidyberg.execute.engine import CancelToken
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.orphans import (
    LEAST_AGE_MS,
    ORPHANS,
    PURGE,
    RESTORE,
    CatalogLocations,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    QuarantineResult,
)
from tidyberg.model.report import EventSink, StageStarted
from tidyberg.model.table import TableRef
from tidyberg.model.words import plural
from tidyberg.observe.orphans import referenced_among
from tidyberg.observe.reachable import ReachedManifests
from tidyberg.record.process import this_process
from tidyberg.storage.table_files import delete_many

Result = TypeVar("Result")


@dataclass(frozen=True)
class OrphansJob:
    table: TableRef
    job_id: str  # no job has had it before
    services: Services
    policy: JobPolicy
    catalog: Catalog
    locations: Callable[[Catalog, Callable[[], None]], CatalogLocations]

    def plan(self, options: OrphanOptions, emit: EventSink, cancel: CancelToken) -> OrphanPlan:
        """Says what `remove` would do. Changes nothing, and takes no lease."""
        finder = self._finder(options, emit, cancel.raise_if_cancelled)
        found = finder.find(load_table(self.catalog, self.table))
        return finder.plan(found, self.services.prices.storage_per_gb_month)

    def remove(self, options: OrphanOptions, emit: EventSink, cancel: CancelToken) -> OrphanResult:
        def work(table: Table, record: JobRecord, stop: CancelToken) -> OrphanResult:
            finder = self._finder(options, emit, stop.raise_if_cancelled)
            return OrphanWork(finder, options, self.services, record, emit, stop).run(table)

        return self._hold(ORPHANS, options.as_options(), cancel, work)

    def restore(self, of_job: str | None, emit: EventSink, cancel: CancelToken) -> QuarantineResult:
        """Brings quarantined files back: those of one run, or of all."""

        def work(table: Table, record: JobRecord, stop: CancelToken) -> QuarantineResult:
            def check() -> None:
                stop.raise_if_cancelled()
                record.check_ownership()

            chosen = self._chosen(table, of_job)
            emit(StageStarted(Stage.EXECUTE, f"restoring the files of {plural(len(chosen), 'run')}"))
            done = [restore(one, check) for one in chosen]
            refused = {path: said for one in done for path, said in one.refused.items()}
            result = QuarantineResult(
                self.table,
                "partly" if refused else "restored" if chosen else "nothing",
                tuple(one.job_id for one in chosen),
                sum(one.files for one in done),
                sum(one.bytes for one in done),
                already_there=sum(one.already_there for one in done),
            )
            return self._end(record, result, refused, "restored")

        return self._hold(RESTORE, {"job": of_job} if of_job else {}, cancel, work)

    def purge(self, of_job: str | None, older_than_ms: int, emit: EventSink, cancel: CancelToken) -> QuarantineResult:
        """Deletes quarantined files of runs that are older than an age."""
        if older_than_ms < LEAST_AGE_MS and of_job is None:
            raise BadInput("An age below 24 hours needs the run to purge.", hint="Name it with --job.")

        def work(table: Table, record: JobRecord, stop: CancelToken) -> QuarantineResult:
            def check() -> None:
                stop.raise_if_cancelled()
                record.check_ownership()

            now = self.services.now_ms()
            chosen = [one for one in self._chosen(table, of_job) if one.age_ms(now) >= older_than_ms]
            emit(StageStarted(Stage.EXECUTE, f"deleting the files of {plural(len(chosen), 'run')}"))
            refused: dict[str, str] = {}
            files = size = 0
            for one in chosen:
                there = one.present()
                reached = ReachedManifests(table.io, check)
                reached.add(table.metadata.snapshots)
                needed = referenced_among(sorted(there), table, reached)
                going = sorted(set(there) - needed)
                said = delete_many(table.io, going, check=check)
                if not said and not needed and (about_record := one.remove_record()) is not None:
                    said = {one.record: about_record}
                refused |= said
                files += len(going) - len(said)
                size += sum(there[path] for path in going if path not in said)
            result = QuarantineResult(
                self.table,
                "partly" if refused else "purged" if chosen else "nothing",
                tuple(one.job_id for one in chosen),
                files,
                size,
            )
            return self._end(record, result, refused, "purged")

        return self._hold(PURGE, {"older_than_ms": older_than_ms}, cancel, work)

    def _finder(self, options: OrphanOptions, emit: EventSink, check: Callable[[], None]) -> OrphanFinder:
        def notify(text: str) -> None:
            emit(StageStarted(Stage.OBSERVE, text))

        store, now = self.services.store, self.services.now_ms()
        return OrphanFinder(
            self.table, options, self.catalog, store, self.locations, now, check, notify, own_run=self.job_id
        )

    def _chosen(self, table: Table, of_job: str | None) -> list[QuarantinedFiles]:
        runs = Quarantine(table).runs()
        if of_job is None:
            return runs
        chosen = [run for run in runs if run.job_id.startswith(of_job)]
        if len(chosen) != 1:
            known = ", ".join(run.job_id for run in runs)
            raise UnknownJob(
                f"{plural(len(chosen), 'run')} with the id {of_job!r} moved files of {self.table} to quarantine.",
                hint=f"The quarantine has files of {known}." if runs else "Nothing is in quarantine.",
            )
        return chosen

    def _end(self, record: JobRecord, result: QuarantineResult, refused: dict[str, str], verb: str) -> QuarantineResult:
        failure: TidybergError | None = None
        first = next((f"{path} ({said})" for path, said in sorted(refused.items())), None)
        if refused:
            denied = all("denied" in said.lower() for said in refused.values())
            failure = (AccessDenied if denied else StorageError)(
                f"{plural(len(refused), 'file')} could not be {verb}, first {first}.", hint="Run it again."
            )
        job = record.update(
            status=JobStatus.SUCCEEDED,
            stage=Stage.DONE,
            finished_ms=self.services.now_ms(),
            notes=(*record.job.notes, f"{plural(result.files, 'file')} {verb}"),
            error_code=failure.code if failure else None,
            error=str(failure) if failure else None,
        )
        record.forget()
        return replace(result, refused=len(refused), first_refused=first, failure=failure, job=job)

    def _hold(
        self,
        strategy: str,
        options: dict[str, Any],
        cancel: CancelToken,
        work: Callable[[Table, JobRecord, CancelToken], Result],
    ) -> Result:
        stop = CancelToken()  # the job also stops when it loses its table
        cancel.add_callback(stop.cancel)
        table = load_table(self.catalog, self.table)
        services = self.services
        job = self._new_job(strategy, options, str(table.metadata.table_uuid), services.now_ms())
        lease = Lease(
            services.store,
            job,
            this_process(),
            services.now_ms,
            ttl_ms=self.policy.lease_ms,
            wait_seconds=self.policy.wait_seconds,
            sleep=services.sleep,
            cancel=stop,
        )
        with lease:
            record = JobRecord(services.store, job, lease, services.scrub)
            try:
                return work(load_table(self.catalog, self.table) if lease.waited else table, record, stop)
            except BaseException as error:
                is_cancelled = isinstance(error, Cancelled | KeyboardInterrupt)
                record.update(
                    status=JobStatus.CANCELLED if is_cancelled else JobStatus.FAILED,
                    finished_ms=services.now_ms(),
                    error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
                    error=str(error) or type(error).__name__,
                )
                if isinstance(error, TidybergError) and (cause := record.cause_of(error)) is not error:
                    raise cause from error
                raise

    def _new_job(self, strategy: str, options: dict[str, Any], table_uuid: str, now_ms: int) -> Job:
        return Job(
            job_id=self.job_id,
            table=self.table,
            table_uuid=table_uuid,
            branch="",
            strategy=strategy,
            options=options,
            status=JobStatus.RUNNING,
            stage=Stage.RECOVER,
            engine="",
            created_ms=now_ms,
            started_ms=now_ms,
            heartbeat_ms=now_ms,
            owner=this_process(),
        )
