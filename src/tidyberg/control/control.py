"""The control room: what the command line, the Python API and the service call.

Threads may share one: each opens catalogs of its own (a REST session and a database connection belong to one thread),
all use one engine, and the job store and the manifest cache guard themselves.
"""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from tidyberg.catalog.errors import catalog_errors
from tidyberg.control.calibration import report
from tidyberg.control.describe import health_report, summarise
from tidyberg.control.engines import EngineChoice
from tidyberg.control.journal import JobRecord
from tidyberg.control.lease import LEASE_MS, Lease
from tidyberg.control.planner import CALIBRATING_JOBS, Planner
from tidyberg.control.workbench import Workbench
from tidyberg.errors import BadInput, Cancelled, TidybergError
from tidyberg.execute.engine import CancelToken, Engine, StartsInBackground
from tidyberg.model.accuracy import CalibrationReport
from tidyberg.model.audit import AuditReport
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.options import PlanOptions, Prices, Resources, VerifyMode
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink, HealthReport, Notice, StageStarted, TableSummary
from tidyberg.model.retry import RetryPolicy
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.pin import pin
from tidyberg.planning.document import options_of
from tidyberg.record.clock import wall_clock_ms
from tidyberg.record.process import this_process
from tidyberg.record.store import JobStore
from tidyberg.redact import redact_text
from tidyberg.settings.catalogs import list_tables, load_table
from tidyberg.telemetry.context import about
from tidyberg.telemetry.traces import Tracer

if TYPE_CHECKING:
    from tidyberg.control.scan import Scan
    from tidyberg.control.settling import Settler

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class _Identity:
    job_id: str
    submission_id: str | None


@dataclass
class Control:
    open_catalog: Callable[[str | None], Catalog]
    open_engine: Callable[[], Engine]
    store: JobStore
    resources: Resources = field(default_factory=Resources)  # what the engine will have, known before it starts
    prices: Prices = field(default_factory=Prices)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    replans: int = 2  # how often groups that conflicted are planned again within a job
    max_output_age_ms: int = DAY_MS  # older outputs of dead jobs are not reused: a cleaner may have taken them
    wait_seconds: float = 0.0  # how long to wait for a table that another job holds
    lease_ms: int = LEASE_MS  # a job that does not renew its lease for so long has lost its table
    now_ms: Callable[[], int] = wall_clock_ms
    sleep: Callable[[float], None] = time.sleep
    engine_reads_above: int | None = None  # bytes of manifests that a plan has read by the engine's tasks
    open_inline: Callable[[], Engine] | None = None  # for plans that it does before another engine has started
    inline_resources: Resources | None = None  # what that one will have
    cache: ManifestCache = field(default_factory=ManifestCache)
    tracer: Tracer = field(default_factory=Tracer)
    scrub: Callable[[str], str] = redact_text  # I12: of the words of errors, before anyone keeps or shows them
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
        """Let the engine start while the table is looked at; `close` ends it where there was nothing to do."""
        if self.open_inline is not None:
            return  # only the plan will tell
        engine = self._get_engine()
        if isinstance(engine, StartsInBackground):
            engine.start_in_background()

    def catalog(self, name: str | None = None) -> Catalog:
        """This thread's own."""
        opened: dict[str | None, Catalog] = self._of_thread.__dict__.setdefault("catalogs", {})
        if name not in opened:
            catalog = self.open_catalog(name)
            opened[name] = opened.setdefault(catalog.name, catalog)  # the default one has a name too
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
        """`job_id`: the run's, one that no run had before; `submission_id`: whose attempt it is."""
        identity = _Identity(job_id or str(uuid.uuid4()), submission_id)
        return self._run(identity, ref, options, None, verify, on_event or _ignore, cancel or CancelToken())

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
        """Run this very plan; its groups that went stale are left out."""
        identity, options = _Identity(job_id or str(uuid.uuid4()), submission_id), options_of(plan)
        return self._run(identity, plan.table, options, plan, verify, on_event or _ignore, cancel or CancelToken())

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
        """Whether replace snapshots, all in the branch's history or one, kept every row. Changes nothing."""
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

    def history(self, ref: TableRef | None = None, limit: int = 20) -> list[Job]:
        return self.store.find(table=ref, limit=limit)

    def calibration(self, shown: Callable[[TableRef], bool] = lambda _: True) -> CalibrationReport:
        """What estimates are made from, and how good they were for tables that may be shown."""
        return report(self.store.find(limit=CALIBRATING_JOBS), self.resources.name, shown)

    def recover(
        self, ref: TableRef | None = None, on_event: EventSink | None = None, cancel: CancelToken | None = None
    ) -> list[str]:
        """Settle jobs that died, of one table or of all, that no living process holds; says what was done.

        What a cancelled one had not removed is left to the next.
        """
        emit, cancel = on_event or _ignore, cancel or CancelToken()
        settler = replace(self._settler, cancel=cancel, notify=lambda said: emit(StageStarted(Stage.RECOVER, said)))
        done = []
        for job in self.store.find(table=ref, unfinished=True, limit=1000):
            cancel.raise_if_cancelled()
            if said := settler.settle(job):
                done.append(said)
                emit(Notice("info", said))
        return done

    def scan(
        self, ref: TableRef, *, remove_after_hours: float | None = None, cancel: CancelToken | None = None
    ) -> "Scan":
        """Outputs that no snapshot of the table references and no open run claims; removes the old ones if told to."""
        from tidyberg.control.scan import Scanner

        table = load_table(self.catalog(ref.catalog), ref)
        scanner = Scanner(self.store, self.now_ms, cancel or CancelToken())
        with catalog_errors(ref.catalog, what=str(ref)):
            return scanner.scan(table) if remove_after_hours is None else scanner.remove(table, remove_after_hours)

    def settled(self, run_id: str) -> Job | None:
        """The run as it ended, by itself or dead after its last commit landed: then there is nothing to run again.

        None: run what it was asked again, under a new id; that goes on from what this one had finished. A run that
        still lives keeps its table: the next one is told that it is busy.
        """
        return self._settler.outcome(run_id)

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
    def _settler(self) -> "Settler":
        from tidyberg.control.settling import Settler

        return Settler(self.store, self.catalog, self.now_ms, self.sleep, self.lease_ms)

    def _run(
        self,
        identity: _Identity,
        ref: TableRef,
        options: PlanOptions,
        plan: Plan | None,
        verify: VerifyMode,
        emit: EventSink,
        cancel: CancelToken,
    ) -> CompactionResult:
        run_id = identity.job_id
        with (
            about(job_id=identity.submission_id or run_id, run_id=run_id, table=f"{ref.catalog}.{ref}"),
            self.tracer.span("compact_table", strategy=options.strategy.value) as span,
        ):
            result = self._run_as(identity, ref, options, plan, verify, emit, cancel)
            files, read = result.stats.files_compacted, result.job.progress.bytes_read
            span.set(outcome=result.outcome, files=files, bytes=read)
            return result

    def _run_as(
        self,
        identity: _Identity,
        ref: TableRef,
        options: PlanOptions,
        plan: Plan | None,
        verify: VerifyMode,
        emit: EventSink,
        cancel: CancelToken,
    ) -> CompactionResult:
        # Whatever rewrites and commits is imported here: plans and reports come sooner without it.
        from tidyberg.control.pipeline import Pipeline
        from tidyberg.control.preparation import Preparation

        catalog = self.catalog(ref.catalog)
        table = load_table(catalog, ref)
        stop = CancelToken()  # the run's own: it also stops when its table is lost
        cancel.add_callback(stop.cancel)
        now = self.now_ms()
        job = Job(
            job_id=identity.job_id,
            submission_id=identity.submission_id,
            table=ref,
            table_uuid=str(table.metadata.table_uuid),
            branch=options.branch,
            strategy=options.strategy.value,
            options={key: value for key, value in asdict(options).items() if value is not None},
            status=JobStatus.RUNNING,
            stage=Stage.RECOVER,
            engine="",
            created_ms=now,
            started_ms=now,
            heartbeat_ms=now,
            owner=this_process(),
        )
        with Lease(
            self.store,
            job,
            this_process(),
            self.now_ms,
            ttl_ms=self.lease_ms,
            wait_seconds=self.wait_seconds,
            sleep=self.sleep,
            cancel=stop,
        ) as lease:
            if self.store.get(job.job_id) is not None:  # names of outputs contain it [I5]
                raise BadInput(f"There was a run {job.job_id} before.", hint="Give each run an id of its own.")
            record = JobRecord(self.store, job, lease, self.scrub)
            engines = EngineChoice(self._get_engine, self._get_inline if self.open_inline else None)
            bench = Workbench(
                catalog=catalog,
                options=options,
                verify=verify,
                record=record,
                engine=engines,
                cache=self.cache,
                retry=self.retry,
                prices=self.prices,
                emit=emit,
                cancel=stop,
                now_ms=self.now_ms,
                sleep=self.sleep,
                tracer=self.tracer,
                why_engine=lambda: engines.reason,
            )
            recovery = bench.recovery(self.store)
            preparation = Preparation(bench, self._planner, recovery, plan, self.max_output_age_ms)
            try:
                planned = preparation.prepare()
                engines.choose(planned.plan)
                result = Pipeline(
                    bench,
                    planned,
                    replan=preparation.plan_again,
                    replans=self.replans if plan is None else 0,  # a plan that was given is run as it is
                ).run()
            except BaseException as error:
                self._record_failure(record, error)
                if lease.lost:
                    self._end(bench, lease)
                    if isinstance(error, Cancelled):
                        raise record.cause_of(error) from error
                raise
            self._end(bench, lease)
            return result

    def _end(self, bench: Workbench, lease: Lease) -> None:
        """Settle jobs that lost this table and woke up meanwhile, or this one, when that is what happened to it."""
        job = bench.record.job
        try:
            said = self._settler.reopen(bench.record) if lease.lost else self._settle_late(bench)
        except TidybergError as error:  # the job's own end is what its caller must hear of
            said = f"other jobs of {job.table} are not settled: {error}"
        if said:
            bench.emit(Notice("info", said))

    def _settle_late(self, bench: Workbench) -> str:

        job = bench.record.job
        recovery = bench.recovery(self.store)
        others = self.store.find(table=job.table, unfinished=True, limit=1000)
        late = [other for other in others if other.job_id != job.job_id and other.table_uuid == job.table_uuid]
        return "; ".join(recovery.recover(bench.catalog, other) for other in late)

    def _record_failure(self, record: JobRecord, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            status = JobStatus.CANCELLED
        elif record.job.commits:
            status = JobStatus.SUCCEEDED  # what it had committed stands
        elif isinstance(error, KeyboardInterrupt):
            status = JobStatus.CANCELLED
        else:
            status = JobStatus.FAILED
        record.update(
            status=status,
            finished_ms=self.now_ms(),
            # It may have failed between taking over what a dead job had finished and going on with it.
            unresolved=record.job.unresolved or (record.job.intent is not None and bool(record.job.intent.groups)),
            error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
            error=str(error) or type(error).__name__,
        )

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
