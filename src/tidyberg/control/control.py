"""The calls that the command line, the Python API and the service make."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import list_tables, load_table
from tidyberg.control.calibration import report
from tidyberg.control.context import JobRequest
from tidyberg.control.control_base import ignore_events
from tidyberg.control.engines import EngineChoice
from tidyberg.control.maintenance_calls import MaintenanceCalls
from tidyberg.control.planner import CALIBRATING_JOBS
from tidyberg.control.table_health import health_report, summarise
from tidyberg.execute.engine import CancelToken
from tidyberg.model.accuracy import CalibrationReport
from tidyberg.model.audit import AuditReport
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.job import Job, Stage
from tidyberg.model.layout_report import LayoutReport
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink, HealthReport, Notice, StageStarted, TableSummary
from tidyberg.model.storage_report import StorageReport
from tidyberg.model.table import TableRef
from tidyberg.model.task import KEY_MEMORY_BYTES
from tidyberg.observe.pin import pin
from tidyberg.planning.document import options_of

if TYPE_CHECKING:
    from tidyberg.control.scan import Scan
    from tidyberg.control.then_expire import ThenExpire


@dataclass
class Control(MaintenanceCalls):
    def tables(self, catalog: str | None = None, namespace: str | None = None) -> list[TableSummary]:
        opened = self.catalog(catalog)
        return [summarise(opened, ref) for ref in list_tables(opened, namespace)]

    def health(self, ref: TableRef, options: PlanOptions) -> HealthReport:
        table = load_table(self.catalog(ref.catalog), ref)
        inventory = self._planner.observe(table, ref, options)
        statistics = self._planner.statistics(inventory, options)
        return health_report(inventory, statistics, options, self.now_ms())

    def plan(self, ref: TableRef, options: PlanOptions) -> Plan:
        return self._planner.observe_and_plan(load_table(self.catalog(ref.catalog), ref), ref, options)

    def layout(self, ref: TableRef, options: PlanOptions) -> LayoutReport:
        """Says how files lie along the order in the options, and what a sort would change. Changes nothing."""
        return self._planner.layout(load_table(self.catalog(ref.catalog), ref), ref, options)

    def compact(
        self,
        ref: TableRef,
        options: PlanOptions,
        *,
        verify: VerifyMode = VerifyMode.COUNTS,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
        submission_id: str | None = None,
    ) -> CompactionResult:
        """`job_id` must be new. `submission_id` names the submission that this job is an attempt at."""
        request = JobRequest(ref, options, verify, job_id or str(uuid.uuid4()), submission_id)
        return self._run_and_expire(request, on_event, cancel)

    def apply(
        self,
        plan: Plan,
        *,
        verify: VerifyMode = VerifyMode.COUNTS,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
        submission_id: str | None = None,
    ) -> CompactionResult:
        """Runs exactly this plan. Groups that have become stale are left out."""
        options = options_of(plan)
        request = JobRequest(plan.table, options, verify, job_id or str(uuid.uuid4()), submission_id, plan)
        return self._run_and_expire(request, on_event, cancel)

    def audit(
        self,
        ref: TableRef,
        *,
        branch: str = "main",
        snapshot_id: int | None = None,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        max_parallelism: int | None = None,
        key_memory_bytes: int = KEY_MEMORY_BYTES,
    ) -> AuditReport:
        """Checks that one replace snapshot, or every one in the branch's history, kept every row. Changes nothing.

        Keys of equality deletes that would take more memory than `key_memory_bytes` in a task are looked up in parts.
        """
        from tidyberg.auditing.auditor import Auditor

        table = load_table(self.catalog(ref.catalog), ref)
        with catalog_errors(ref.catalog, what=str(ref)):
            auditor = Auditor(
                table=table,
                pinned=pin(table, ref, branch),
                engine=self._get_engine,
                cache=self.cache,
                emit=on_event or ignore_events,
                cancel=cancel or CancelToken(),
                max_parallelism=max_parallelism,
                key_memory_bytes=key_memory_bytes,
            )
            return auditor.audit(snapshot_id)

    def storage(
        self,
        ref: TableRef,
        options: PlanOptions | None = None,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> StorageReport:
        """Reports who holds the bytes of a table. With `options`, also what a compaction would do. Changes nothing."""
        from tidyberg.control.storage_report import StorageReporter

        emit, token = on_event or ignore_events, cancel or CancelToken()
        reporter = StorageReporter(
            ref,
            self.catalog(ref.catalog),
            self.prices,
            self.now_ms(),
            token.raise_if_cancelled,
            lambda text: emit(StageStarted(Stage.OBSERVE, text)),
            None if options is None else lambda: self.plan(ref, options),
        )
        with self.tracer.span("report_storage"):
            return reporter.report()

    def expire_after(
        self,
        compaction: Job,
        options: ExpireOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        sent_before: frozenset[int] = frozenset(),
    ) -> ExpiryResult:
        """Expires snapshots for a compaction that has ended, and adds the result to its record."""
        return self._then_expire(compaction, options, on_event, cancel, sent_before).run(compaction)

    def history(self, ref: TableRef | None = None, limit: int = 20) -> list[Job]:
        return self.store.find(table=ref, limit=limit)

    def calibration(self, shown: Callable[[TableRef], bool] = lambda _: True) -> CalibrationReport:
        """The figures behind estimates, and how accurate estimates were for the tables that may be shown."""
        return report(self.store.find(limit=CALIBRATING_JOBS), self.resources.name, shown)

    def recover(
        self, ref: TableRef | None = None, on_event: EventSink | None = None, cancel: CancelToken | None = None
    ) -> list[str]:
        """Recovers dead jobs of one table or of all tables, and returns what was done.

        Tables that a living process holds are skipped. The next recovery continues one that was cancelled.
        """
        emit, cancel = on_event or ignore_events, cancel or CancelToken()
        dead_jobs = replace(self._dead_jobs, cancel=cancel, notify=lambda text: emit(StageStarted(Stage.RECOVER, text)))
        done = []
        for job in self.store.find(table=ref, unfinished=True, limit=1000):
            cancel.raise_if_cancelled()
            if report := dead_jobs.recover(job):
                done.append(report)
                emit(Notice("info", report))
        return done

    def scan(
        self, ref: TableRef, *, remove_after_hours: float | None = None, cancel: CancelToken | None = None
    ) -> "Scan":
        """Finds outputs that no snapshot references and no open run owns.

        Removes those that are older than `remove_after_hours`, if that is set.
        """
        from tidyberg.control.scan import Scanner

        table = load_table(self.catalog(ref.catalog), ref)
        scanner = Scanner(self.store, self.now_ms, cancel or CancelToken())
        with catalog_errors(ref.catalog, what=str(ref)):
            return scanner.scan(table) if remove_after_hours is None else scanner.remove(table, remove_after_hours)

    def ended_run(self, run_id: str) -> Job | None:
        """Returns the run if it has ended, by itself or by dying after its last commit landed.

        Returns None if its request must run again, under a new id. The new run continues what this one had finished.
        A run that is still alive keeps its table, and the new run gets TableBusy.
        """
        return self._dead_jobs.outcome(run_id)

    def _run_and_expire(
        self, request: JobRequest, on_event: EventSink | None, cancel: CancelToken | None
    ) -> CompactionResult:
        from tidyberg.control.then_expire import expiry_after

        wanted = expiry_after(request.options)
        result = self._run(request, on_event, cancel)
        if wanted is None:
            return result
        return self._then_expire(result.job, wanted, on_event, cancel).add_to(result)

    def _then_expire(
        self,
        compaction: Job,
        options: ExpireOptions,
        on_event: EventSink | None,
        cancel: CancelToken | None,
        sent_before: frozenset[int] = frozenset(),
    ) -> "ThenExpire":
        from tidyberg.control.then_expire import ThenExpire

        def expire() -> ExpiryResult:
            return self.expire(
                compaction.table,
                options,
                on_event=on_event,
                cancel=cancel,
                submission_id=compaction.submission_id,
                sent_before=sent_before,
            )

        return ThenExpire(self.store, expire, self.scrub)

    def _run(self, request: JobRequest, on_event: EventSink | None, cancel: CancelToken | None) -> CompactionResult:
        from tidyberg.control.job import CompactionJob  # imports all that rewrites and commits, which plans do not need

        ref, strategy = request.table, request.options.strategy.value
        with self._traced("compact_table", ref, request.job_id, request.submission_id, strategy=strategy) as span:
            job = CompactionJob(
                request,
                self._services,
                self._policy,
                self.catalog(ref.catalog),
                EngineChoice(self._get_engine, self._get_inline if self.open_inline else None),
                self._planner,
                self._dead_jobs,
            )
            result = job.run(on_event or ignore_events, cancel or CancelToken())
            files, read = result.stats.files_compacted, result.job.progress.bytes_read
            span.set(outcome=result.outcome, files=files, bytes=read)
            return result
