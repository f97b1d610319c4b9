"""One job that expires snapshots: it holds the table while it works, and records how it ended."""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import load_table
from tidyberg.control.context import JobPolicy, Services
from tidyberg.control.expiry_work import ExpiryRequest, ExpiryWork, expiry_result, planner_of
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import Lease
from tidyberg.errors import Cancelled, TidybergError
from tidyberg.execute.engine import CancelToken
from tidyberg.model.expiry import EXPIRE, ExpiryOutcome, ExpiryResult
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.report import EventSink, Notice
from tidyberg.observe.reachable import count_files
from tidyberg.record.process import this_process


@dataclass(frozen=True)
class ExpiryJob:
    request: ExpiryRequest
    services: Services
    policy: JobPolicy
    catalog: Catalog

    def preview(self, emit: EventSink, cancel: CancelToken) -> ExpiryResult:
        """Says what `run` would do. Changes nothing, and takes no lease."""
        table = load_table(self.catalog, self.request.table)
        planner = planner_of(self.request, self.catalog, self.services, emit, cancel.raise_if_cancelled)
        with catalog_errors(self.request.table.catalog, what=str(self.request.table)):
            prepared = planner.prepare(table)
        for warning in prepared.decision.warnings:
            emit(Notice("warning", warning))
        outcome: ExpiryOutcome = "nothing" if prepared.removal.is_empty else "planned"
        return expiry_result(self.request.table, outcome, table, prepared, count_files(prepared.to_delete.files))

    def run(self, emit: EventSink, cancel: CancelToken) -> ExpiryResult:
        stop = CancelToken()  # the job also stops when it loses its table
        cancel.add_callback(stop.cancel)
        table = load_table(self.catalog, self.request.table)
        services = self.services
        job = self._new_job(str(table.metadata.table_uuid), services.now_ms())
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
            work = ExpiryWork(self.request, services, self.catalog, record, emit, stop)
            try:
                return work.run(None if lease.waited else table)
            except BaseException as error:
                self._record_failure(record, error)
                if lease.lost:
                    work.hand_back()
                if isinstance(error, TidybergError) and (cause := record.cause_of(error)) is not error:
                    raise cause from error
                raise

    def _new_job(self, table_uuid: str, now_ms: int) -> Job:
        return Job(
            job_id=self.request.job_id,
            submission_id=self.request.submission_id,
            table=self.request.table,
            table_uuid=table_uuid,
            branch="",
            strategy=EXPIRE,
            options=self.request.options.as_options(),
            status=JobStatus.RUNNING,
            stage=Stage.RECOVER,
            engine="",
            created_ms=now_ms,
            started_ms=now_ms,
            heartbeat_ms=now_ms,
            owner=this_process(),
        )

    def _record_failure(self, record: JobRecord, error: BaseException) -> None:
        is_cancelled = isinstance(error, Cancelled | KeyboardInterrupt)
        record.update(
            status=JobStatus.CANCELLED if is_cancelled else JobStatus.FAILED,
            finished_ms=self.services.now_ms(),
            unresolved=record.job.expiry is not None,  # recovery finds out whether files are left to delete
            error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
            error=str(error) or type(error).__name__,
        )
