"""The control room: what the command line, the Python API and the service call."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tidyberg.auditing.auditor import Auditor
from tidyberg.commit.publish import RetryPolicy
from tidyberg.control.calibration import calibrate
from tidyberg.control.lease import JobRecord, Lease
from tidyberg.control.pipeline import Pipeline
from tidyberg.control.recovery import Recovery
from tidyberg.errors import Cancelled, TableBusy, TidybergError
from tidyberg.execute.engine import CancelToken, Engine
from tidyberg.model.audit import AuditReport
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.job import Job, JobStatus, Stage
from tidyberg.model.options import Calibration, PlanOptions, Prices, Resources, VerifyMode
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink, HealthReport, Notice, StageStarted, TableSummary
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.bounds import resolve_sizes
from tidyberg.planning.decide import make_plan
from tidyberg.planning.document import options_of
from tidyberg.planning.health import assess
from tidyberg.record.process import this_process
from tidyberg.record.store import JobStore
from tidyberg.settings.catalog_errors import catalog_errors
from tidyberg.settings.catalogs import list_tables, load_table


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Control:
    open_catalog: Callable[[str | None], Catalog]
    open_engine: Callable[[], Engine]
    store: JobStore
    resources: Resources = field(default_factory=Resources)  # what the engine will have, known before it starts
    prices: Prices = field(default_factory=Prices)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    now_ms: Callable[[], int] = _wall_clock
    sleep: Callable[[float], None] = time.sleep
    cache: ManifestCache = field(default_factory=ManifestCache)
    _engine: Engine | None = None
    _catalogs: dict[str | None, Catalog] = field(default_factory=dict)

    def __enter__(self) -> "Control":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self.store.close()

    def catalog(self, name: str | None = None) -> Catalog:
        if name not in self._catalogs:
            self._catalogs[name] = self.open_catalog(name)
        return self._catalogs[name]

    def tables(self, catalog: str | None = None, namespace: str | None = None) -> list[TableSummary]:
        opened = self.catalog(catalog)
        return [self._summarise(opened, ref) for ref in list_tables(opened, namespace)]

    def health(self, ref: TableRef, options: PlanOptions) -> HealthReport:
        inventory = self._observe(load_table(self.catalog(ref.catalog), ref), ref, options)
        statistics = self._statistics(inventory, options)
        target = resolve_sizes(options, inventory.pinned.properties).target
        worst = sorted(statistics, key=lambda s: (-s.small_files, -s.delete_files, -s.files, s.partition))
        return HealthReport(
            table=ref,
            branch=options.branch,
            snapshot_id=inventory.pinned.snapshot_id,
            snapshot_ms=inventory.pinned.timestamp_ms,
            health=assess(statistics, options, target, self.now_ms()),
            files=inventory.data_files.num_rows,
            small_files=sum(s.small_files for s in statistics),
            bytes=sum(s.bytes for s in statistics),
            records=sum(s.records for s in statistics),
            delete_files=inventory.delete_files.num_rows,
            partitions=tuple((inventory.partitions[s.partition].label, s) for s in worst),
            file_sizes=tuple(inventory.data_files["size"].to_pylist()),
            target_file_size=target,
        )

    def plan(self, ref: TableRef, options: PlanOptions) -> Plan:
        inventory = self._observe(load_table(self.catalog(ref.catalog), ref), ref, options)
        return self._plan(inventory, options)

    def compact(
        self,
        ref: TableRef,
        options: PlanOptions,
        *,
        verify: VerifyMode = VerifyMode.COUNTS,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        return self._run(ref, options, None, verify, on_event or _ignore, cancel or CancelToken())

    def apply(
        self,
        plan: Plan,
        *,
        verify: VerifyMode = VerifyMode.COUNTS,
        on_event: EventSink | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        """Run this very plan; its groups that went stale are left out."""
        return self._run(plan.table, options_of(plan), plan, verify, on_event or _ignore, cancel or CancelToken())

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

    def recover(self, ref: TableRef | None = None, on_event: EventSink | None = None) -> list[str]:
        """Settle jobs that died, of one table or of all, that no living process holds; says what was done."""
        emit = on_event or _ignore
        done = []
        for job in self.store.find(table=ref, unfinished=True, limit=1000):
            claim = replace(job, job_id=str(uuid.uuid4()))
            try:
                with Lease(self.store, claim, this_process(), self.now_ms):
                    recovery = Recovery(self.store, self.now_ms, self.sleep)
                    done.append(recovery.recover(self.catalog(job.table.catalog), job))
            except TableBusy:
                continue  # it lives
            except TidybergError as error:  # one catalog that does not answer keeps no other from being tidied
                done.append(f"job {job.job_id} is not settled: {error}")
            emit(Notice("info", done[-1]))
        return done

    def _run(
        self,
        ref: TableRef,
        options: PlanOptions,
        plan: Plan | None,
        verify: VerifyMode,
        emit: EventSink,
        cancel: CancelToken,
    ) -> CompactionResult:
        catalog = self.catalog(ref.catalog)
        table = load_table(catalog, ref)
        now = self.now_ms()
        job = Job(
            job_id=str(uuid.uuid4()),
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
        with Lease(self.store, job, this_process(), self.now_ms) as lease:
            record = JobRecord(self.store, job, lease)
            try:
                self._recover_others(catalog, job, emit)
                record.update(stage=Stage.OBSERVE)
                emit(StageStarted(Stage.OBSERVE, f"reading the manifests of {ref}"))
                table = load_table(catalog, ref)
                inventory = self._observe(table, ref, options)
                record.update(stage=Stage.PLAN)
                pipeline = Pipeline(
                    catalog=catalog,
                    table=table,
                    inventory=inventory,
                    plan=plan or self._plan(inventory, options),
                    options=options,
                    verify=verify,
                    record=record,
                    engine=self._get_engine,
                    cache=self.cache,
                    retry=self.retry,
                    prices=self.prices,
                    emit=emit,
                    cancel=cancel,
                    now_ms=self.now_ms,
                    sleep=self.sleep,
                )
                return pipeline.run()
            except BaseException as error:
                self._record_failure(record, error)
                raise

    def _record_failure(self, record: JobRecord, error: BaseException) -> None:
        if record.job.snapshot_id is not None:
            status = JobStatus.SUCCEEDED  # it had committed; what failed came after
        elif isinstance(error, Cancelled | KeyboardInterrupt):
            status = JobStatus.CANCELLED
        else:
            status = JobStatus.FAILED
        record.update(
            status=status,
            finished_ms=self.now_ms(),
            error_code=error.code if isinstance(error, TidybergError) else type(error).__name__,
            error=str(error) or type(error).__name__,
        )

    def _recover_others(self, catalog: Catalog, job: Job, emit: EventSink) -> None:
        """We hold the table: any other job of it that claims to run is dead."""
        for other in self.store.find(table=job.table, unfinished=True, limit=1000):
            if other.job_id != job.job_id:
                emit(StageStarted(Stage.RECOVER, f"settling job {other.job_id}, which died"))
                emit(Notice("info", Recovery(self.store, self.now_ms, self.sleep).recover(catalog, other)))

    def _get_engine(self) -> Engine:
        if self._engine is None:
            self._engine = self.open_engine()
        return self._engine

    def _observe(self, table: Table, ref: TableRef, options: PlanOptions) -> Inventory:
        with catalog_errors(ref.catalog, what=str(ref)):
            return take_inventory(table, pin(table, ref, options.branch), self.cache)

    def _statistics(self, inventory: Inventory, options: PlanOptions) -> tuple[PartitionStatistics, ...]:
        return partition_statistics(
            inventory,
            small_file_threshold=options.small_file_threshold,
            hot_window_seconds=options.hot_window_seconds,
            now_ms=self.now_ms(),
        )

    def _plan(self, inventory: Inventory, options: PlanOptions) -> Plan:
        return make_plan(
            inventory,
            self._statistics(inventory, options),
            options,
            now_ms=self.now_ms(),
            prices=self.prices,
            calibration=self._calibration(),
            resources=self.resources,
        )

    def _calibration(self) -> Calibration:
        return calibrate(self.store.find(limit=100), self.resources.name)

    def _summarise(self, catalog: Catalog, ref: TableRef) -> TableSummary:
        try:
            table = load_table(catalog, ref)
        except TidybergError as error:
            return TableSummary(ref, None, None, None, None, None, error=str(error))
        snapshot = table.metadata.current_snapshot()
        if snapshot is None:
            return TableSummary(ref, 0, 0, 0, 0, None)
        summary: Mapping[str, Any] = snapshot.summary.additional_properties if snapshot.summary else {}

        def number(name: str) -> int | None:
            return int(summary[name]) if name in summary else None

        return TableSummary(
            ref,
            number("total-data-files"),
            number("total-files-size"),
            number("total-records"),
            number("total-delete-files"),
            snapshot.timestamp_ms,
        )


def _ignore(_: object) -> None:
    return None
