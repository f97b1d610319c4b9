"""The calls that the command line, the Python API and the service make.

Threads may share one `Control`. Each thread opens its own catalogs, because a REST session or a database connection
belongs to one thread. All threads share one engine. The job store and the manifest cache are thread-safe.
"""

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.catalog.open import list_tables, load_table
from tidyberg.control.calibration import report
from tidyberg.control.context import JobPolicy, JobRequest, Services
from tidyberg.control.engines import EngineChoice
from tidyberg.control.lease import LEASE_MS
from tidyberg.control.planner import CALIBRATING_JOBS, Planner
from tidyberg.control.table_health import health_report, summarise
from tidyberg.execute.engine import CancelToken, Engine, StartsInBackground
from tidyberg.model.accuracy import CalibrationReport
from tidyberg.model.audit import AuditReport
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.job import Job, Stage
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.options import PlanOptions, Prices, Resources, VerifyMode
from tidyberg.model.orphans import (
    CatalogLocations,
    OrphanOptions,
    OrphanPlan,
    OrphanResult,
    QuarantineResult,
    SharedLocation,
)
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink, HealthReport, Notice, StageStarted, TableSummary
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.storage_report import StorageReport
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.pin import pin
from tidyberg.planning.document import options_of
from tidyberg.record.clock import wall_clock_ms
from tidyberg.record.store import JobStore
from tidyberg.redact import redact_text
from tidyberg.telemetry.context import about
from tidyberg.telemetry.traces import Tracer

if TYPE_CHECKING:
    from tidyberg.control.catalog_locations import LocationsCache
    from tidyberg.control.dead_jobs import DeadJobs
    from tidyberg.control.manifest_rewrite import ManifestJob
    from tidyberg.control.metadata_files import MetadataFileSettings
    from tidyberg.control.orphans import OrphansJob
    from tidyberg.control.scan import Scan
    from tidyberg.control.table_advice import TableAdvice
    from tidyberg.control.then_expire import ThenExpire

DAY_MS = 24 * 60 * 60 * 1000


@dataclass
class Control:
    open_catalog: Callable[[str | None], Catalog]
    open_engine: Callable[[], Engine]
    store: JobStore
    resources: Resources = field(default_factory=Resources)  # of the engine, known before it starts
    prices: Prices = field(default_factory=Prices)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    replans: int = 2  # how often a job plans again for groups that conflicted
    max_output_age_ms: int = DAY_MS  # older outputs of dead jobs are not reused: a cleaner may have removed them
    wait_seconds: float = 0.0  # how long to wait for a table that another job holds
    lease_ms: int = LEASE_MS  # a job that does not renew its lease for this long loses its table
    now_ms: Callable[[], int] = wall_clock_ms
    sleep: Callable[[float], None] = time.sleep
    engine_reads_above: int | None = None  # above this many bytes, the engine's tasks read the manifests
    open_inline: Callable[[], Engine] | None = None  # for plans that take less time than Spark needs to start
    inline_resources: Resources | None = None  # of the inline engine
    cache: ManifestCache = field(default_factory=ManifestCache)
    tracer: Tracer = field(default_factory=Tracer)
    scrub: Callable[[str], str] = redact_text  # I12: removes secrets from error messages
    _locations: "LocationsCache | None" = None
    _engine: Engine | None = None
    _inline: Engine | None = None
    _engine_lock: threading.Lock = field(default_factory=threading.Lock)
    _of_thread: threading.local = field(default_factory=threading.local)

    def __enter__(self) -> "Control":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._engine_lock:
            if self._engine is not None:
                self._engine.close()
                self._engine = None
        self.store.close()

    def expect_work(self) -> None:
        """Starts the engine while the table is observed. `close` ends it if there is nothing to do."""
        if self.open_inline is not None:
            return  # the plan decides which engine is used
        engine = self._get_engine()
        if isinstance(engine, StartsInBackground):
            engine.start_in_background()

    def catalog(self, name: str | None = None) -> Catalog:
        """The catalog of this thread."""
        opened: dict[str | None, Catalog] = self._of_thread.__dict__.setdefault("catalogs", {})
        if name not in opened:
            catalog = self.open_catalog(name)
            opened[name] = opened.setdefault(catalog.name, catalog)  # the default catalog has a name too
        return opened[name]

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
    ) -> AuditReport:
        """Checks that one replace snapshot, or every one in the branch's history, kept every row. Changes nothing."""
        from tidyberg.auditing.auditor import Auditor

        table = load_table(self.catalog(ref.catalog), ref)
        with catalog_errors(ref.catalog, what=str(ref)):
            auditor = Auditor(
                table=table,
                pinned=pin(table, ref, branch),
                engine=self._get_engine,
                cache=self.cache,
                emit=on_event or _ignore,
                cancel=cancel or CancelToken(),
                max_parallelism=max_parallelism,
            )
            return auditor.audit(snapshot_id)

    def expire(
        self,
        ref: TableRef,
        options: ExpireOptions,
        *,
        dry_run: bool = False,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
        submission_id: str | None = None,
        sent_before: frozenset[int] = frozenset(),
    ) -> ExpiryResult:
        """Expires snapshots, and deletes the files that no retained snapshot references.

        `sent_before` are snapshots that earlier attempts at the submission may have expired.
        """
        from tidyberg.control.expiry import ExpiryJob
        from tidyberg.control.expiry_work import ExpiryRequest

        request = ExpiryRequest(ref, options, job_id or str(uuid.uuid4()), submission_id, sent_before)
        with (
            about(job_id=submission_id or request.job_id, run_id=request.job_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span("expire_snapshots") as span,
        ):
            job = ExpiryJob(request, self._services, self._policy, self.catalog(ref.catalog))
            emit, token = on_event or _ignore, cancel or CancelToken()
            result = job.preview(emit, token) if dry_run else job.run(emit, token)
            span.set(outcome=result.outcome, files=result.files.files, bytes=result.files.bytes)
            return result

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

        emit, token = on_event or _ignore, cancel or CancelToken()
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

    def metadata_files(self, ref: TableRef) -> "MetadataFileSettings":
        """How many old metadata files a table keeps: reports it, or sets it."""
        from tidyberg.control.metadata_files import MetadataFileSettings

        return MetadataFileSettings(ref, self.catalog(ref.catalog), self._services)

    def advice(self, ref: TableRef, options: PlanOptions, window_ms: int) -> "TableAdvice":
        """How to prevent small files: advises from the commits of this window, or sets the advised properties."""
        from tidyberg.control.table_advice import TableAdvice

        catalog, resources = self.catalog(ref.catalog), self.resources
        calibration = partial(self._planner.calibration, resources)
        return TableAdvice(ref, catalog, self._services, resources, calibration, options, window_ms)

    def plan_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> OrphanPlan:
        """Finds files that no snapshot references, and says which of them `remove_orphans` would delete now."""
        return self._orphans(ref).plan(options, on_event or _ignore, cancel or CancelToken())

    def remove_orphans(
        self,
        ref: TableRef,
        options: OrphanOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
    ) -> OrphanResult:
        """Deletes, or moves to quarantine, files that no snapshot references. It makes its own plan."""
        job = self._orphans(ref, job_id)
        with (
            about(job_id=job.job_id, run_id=job.job_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span("remove_orphans") as span,
        ):
            result = job.remove(options, on_event or _ignore, cancel or CancelToken())
            span.set(outcome=result.outcome, files=result.files.files, bytes=result.files.bytes)
            return result

    def restore_orphans(
        self,
        ref: TableRef,
        of_job: str | None = None,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> QuarantineResult:
        """Brings quarantined files back: those of one run, or of all."""
        return self._orphans(ref).restore(of_job, on_event or _ignore, cancel or CancelToken())

    def purge_orphans(
        self,
        ref: TableRef,
        older_than_ms: int,
        of_job: str | None = None,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> QuarantineResult:
        """Deletes files that were moved to quarantine longer ago than this."""
        return self._orphans(ref).purge(of_job, older_than_ms, on_event or _ignore, cancel or CancelToken())

    def check_locations(
        self, catalog: str | None = None, cancel: CancelToken | None = None
    ) -> tuple[CatalogLocations, list[SharedLocation]]:
        """Loads every table of a catalog, and returns those that share a directory."""
        from tidyberg.control.catalog_locations import find_locations
        from tidyberg.observe.shared_locations import shared_locations

        check = (cancel or CancelToken()).raise_if_cancelled
        found = find_locations(self.catalog(catalog), self.open_catalog, check)
        return found, shared_locations(found.tables)

    def table_at(self, path: str, catalogs: Sequence[str], cancel: CancelToken | None = None) -> TableRef | None:
        """Returns the table below whose location a file lies, the innermost if several are nested.

        A table that was created in the last minutes may not be known yet.
        """
        from tidyberg.observe.locations import root_of

        check = (cancel or CancelToken()).raise_if_cancelled
        found = [
            (root, one.table)
            for catalog in catalogs
            for one in self._known_locations().get(self.catalog(catalog), check).tables
            if (root := root_of(path, one.roots)) is not None
        ]
        return max(found, key=lambda pair: len(pair[0]))[1] if found else None

    def plan_manifests(
        self, ref: TableRef, options: ManifestOptions, *, cancel: CancelToken | None = None
    ) -> ManifestPlan:
        """Says what `rewrite_manifests` would do, whether it pays, and why. Changes nothing."""
        return self._manifest_job(ref, options, None).plan(cancel or CancelToken())

    def rewrite_manifests(
        self,
        ref: TableRef,
        options: ManifestOptions,
        *,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
        job_id: str | None = None,
    ) -> ManifestRewriteResult:
        """Clusters the entries of manifests by partition, in manifests of the right size, if that pays."""
        job = self._manifest_job(ref, options, job_id)
        run_id = job.request.job_id
        with (
            about(job_id=run_id, run_id=run_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span("rewrite_manifests") as span,
        ):
            result = job.run(on_event or _ignore, cancel or CancelToken())
            span.set(outcome=result.outcome, files=result.replaced, bytes=result.bytes_written)
            return result

    def _manifest_job(self, ref: TableRef, options: ManifestOptions, job_id: str | None) -> "ManifestJob":
        from tidyberg.control.manifest_rewrite import ManifestJob, ManifestRequest

        request = ManifestRequest(ref, options, job_id or str(uuid.uuid4()))
        return ManifestJob(request, self._services, self._policy, self.catalog(ref.catalog), self._dead_jobs)

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
        emit, cancel = on_event or _ignore, cancel or CancelToken()
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

    def _orphans(self, ref: TableRef, job_id: str | None = None) -> "OrphansJob":
        from tidyberg.control.orphans import OrphansJob

        catalog, locations = self.catalog(ref.catalog), self._known_locations()
        return OrphansJob(ref, job_id or str(uuid.uuid4()), self._services, self._policy, catalog, locations.get)

    def _known_locations(self) -> "LocationsCache":
        from tidyberg.control.catalog_locations import LocationsCache

        if self._locations is None:
            self._locations = LocationsCache(self.open_catalog, self.now_ms)
        return self._locations

    @property
    def _services(self) -> Services:
        return Services(
            self.store, self.cache, self.retry, self.prices, self.tracer, self.scrub, self.now_ms, self.sleep
        )

    @property
    def _policy(self) -> JobPolicy:
        return JobPolicy(self.replans, self.max_output_age_ms, self.wait_seconds, self.lease_ms)

    @property
    def _planner(self) -> Planner:
        return Planner(
            self.store,
            self.cache,
            self.resources,
            self.prices,
            self.now_ms,
            self.tracer,
            self._get_engine,
            self.engine_reads_above,
            self.inline_resources,
        )

    @property
    def _dead_jobs(self) -> "DeadJobs":
        from tidyberg.control.dead_jobs import DeadJobs

        return DeadJobs(self.store, self.catalog, self.now_ms, self.sleep, self.lease_ms)

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

        ref, run_id = request.table, request.job_id
        with (
            about(job_id=request.submission_id or run_id, run_id=run_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span("compact_table", strategy=request.options.strategy.value) as span,
        ):
            job = CompactionJob(
                request,
                self._services,
                self._policy,
                self.catalog(ref.catalog),
                EngineChoice(self._get_engine, self._get_inline if self.open_inline else None),
                self._planner,
                self._dead_jobs,
            )
            result = job.run(on_event or _ignore, cancel or CancelToken())
            files, read = result.stats.files_compacted, result.job.progress.bytes_read
            span.set(outcome=result.outcome, files=files, bytes=read)
            return result

    def _get_engine(self) -> Engine:
        with self._engine_lock:
            if self._engine is None:
                self._engine = self.open_engine()
            return self._engine

    def _get_inline(self) -> Engine:
        with self._engine_lock:
            if self._inline is None:
                assert self.open_inline is not None
                self._inline = self.open_inline()
            return self._inline


def _ignore(_: object) -> None:
    return None
