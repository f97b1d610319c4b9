"""Builds `Control` and `Service` from settings, and offers the Python API.

Modules that only a service or an engine needs are imported late, because a plan takes less time than their import.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import INLINE_GB, SPARK_CONNECT, CancelToken, Engine
from tidyberg.model.advice import Advice
from tidyberg.model.audit import AuditReport
from tidyberg.model.durations import parse_age
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.metadata_files import MetadataFiles
from tidyberg.model.options import INLINE, PlanOptions, Resources, VerifyMode
from tidyberg.model.orphans import OrphanOptions, OrphanPlan, OrphanResult, PrefixMismatch
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink
from tidyberg.model.sizes import parse_size
from tidyberg.model.storage_report import StorageReport
from tidyberg.model.submission import DEFAULT_TENANT
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.records import Records, open_sqlite
from tidyberg.record.store import JobStore
from tidyberg.redact import redact_text
from tidyberg.settings.catalogs import open_catalog
from tidyberg.settings.load import load_settings
from tidyberg.settings.options import plan_options
from tidyberg.settings.sections import ResourceOverrides
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.logs import known_secrets
from tidyberg.telemetry.open_tracer import open_tracer

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tidyberg.control.maintenance.maintainer import Maintainer
    from tidyberg.execute.spark.shared_spark import SparkSettings
    from tidyberg.model.maintenance import MaintenancePlan, MaintenanceResult
    from tidyberg.service.service import Service


def open_records(settings: Settings) -> Records:
    """Open Redis if the settings have its address, otherwise a SQLite file."""
    if settings.store.url is None:
        return open_sqlite(settings.store.path, is_alive)
    from tidyberg.record.redis_records import open_redis  # most commands do not need Redis, and start faster without it

    return open_redis(settings.store.url.get_secret_value(), settings.store.prefix, is_alive)


def build_control(settings: Settings, store: JobStore | None = None) -> Control:
    return Control(
        open_catalog=lambda name: open_catalog(settings, name),
        open_engine=lambda: build_engine(settings),
        store=store or open_records(settings).store,
        resources=planned_resources(settings),
        prices=settings.prices.to_prices(),
        retry=settings.commit.retry_policy,
        replans=settings.commit.replans,
        engine_reads_above=None if settings.engine == "inline" else settings.spark.manifests_above,
        open_inline=(lambda: _inline_engine(settings)) if settings.engine == "auto" else None,
        inline_resources=_inline_resources(settings) if settings.engine == "auto" else None,
        max_output_age_ms=int(settings.commit.max_output_age_hours * 3_600_000),
        wait_seconds=settings.store.wait_seconds,
        scrub=partial(redact_text, secrets=known_secrets(settings, os.environ)),
    )


def maintainer_of(
    control: Control, on_event: EventSink | None = None, cancel: CancelToken | None = None
) -> "Maintainer":
    from tidyberg.control.maintenance.maintainer import Maintainer

    return Maintainer(control, control.now_ms, on_event, cancel, control.scrub)


def build_service(settings: Settings) -> "Service":
    """Build a service that accepts jobs. `start()` also runs them."""
    from tidyberg.service.access import Access
    from tidyberg.service.auto_mode import ASK_SECONDS, AutoMode
    from tidyberg.service.background_loop import BackgroundLoop
    from tidyberg.service.event_looks import EVENT_SECONDS, EventLooks
    from tidyberg.service.kinds import KINDS
    from tidyberg.service.scheduler import LOOK_SECONDS, Scheduler
    from tidyberg.service.service import Service
    from tidyberg.service.store_clock import MEASURE_SECONDS, StoreClock
    from tidyberg.telemetry.metrics import Metrics
    from tidyberg.telemetry.store_errors import count_store_errors

    told_apart = list(dict.fromkeys((DEFAULT_TENANT, *settings.tenants)))[: settings.telemetry.max_tenant_labels]
    metrics = Metrics(table_labels=settings.telemetry.table_labels, tenants=told_apart, kinds=KINDS)
    records = count_store_errors(open_records(settings), metrics.store_failed)
    control = build_control(settings, records.store)
    control.lease_ms = round(settings.queue.lease_seconds * 1000)
    control.tracer = open_tracer(settings.telemetry)
    clock = StoreClock(records.clock_ms, metrics.clock_differs) if records.clock_ms is not None else None
    control.now_ms = clock or control.now_ms
    service = Service(
        settings,
        control,
        records,
        Access(settings.tenants, settings.access.job_roles),
        metrics,
        check_engine=lambda: _check_engine(settings),
        now_ms=control.now_ms,
    )
    if clock is not None:
        service.loops.append(BackgroundLoop("clock", clock.measure, MEASURE_SECONDS))
    if settings.scheduler.enabled:
        service.loops.append(BackgroundLoop("scheduler", Scheduler(service).look, LOOK_SECONDS))
        auto = AutoMode(service)
        if settings.scheduler.auto.enabled:
            service.loops.append(BackgroundLoop("auto", auto.look, ASK_SECONDS))
        if settings.scheduler.events.enabled:
            service.loops.append(BackgroundLoop("events", EventLooks(service, auto).look, EVENT_SECONDS))
    return service


@cache  # only success is cached: a missing Java raises, and is looked for again
def _check_java() -> None:
    from tidyberg.execute.spark.session import check_java

    check_java()


def _check_engine(settings: Settings) -> None:
    if settings.engine != "inline" and not settings.spark.connect:
        _check_java()


def build_engine(settings: Settings) -> Engine:
    if settings.engine == "inline":
        return _inline_engine(settings)
    return _spark_settings(settings).make_engine()


def _inline_engine(settings: Settings) -> Engine:
    from tidyberg.execute.inline import InlineEngine

    return InlineEngine(memory_gb=_inline_resources(settings).memory_gb)


def _spark_settings(settings: Settings) -> "SparkSettings":
    from tidyberg.execute.spark.shared_spark import SparkSettings

    return SparkSettings(
        master=settings.spark.master,
        conf=settings.spark.conf,
        connect=settings.spark.connect,
        driver_memory=settings.spark.driver_memory,
        memory_gb=planned_resources(settings).memory_gb,
        class_archive=settings.spark.class_archive,
    )


def stop_spark() -> None:
    """Stop the Spark that the calls of this process share, after all of them have ended. The next call starts it."""
    from tidyberg.execute.spark.shared_spark import shared_spark

    shared_spark.stop()


def _borrow_engine(settings: Settings) -> Engine:
    """Return an engine for one call of the Python API. Spark keeps running for the next call."""
    if settings.engine == "inline":
        return build_engine(settings)
    from tidyberg.execute.spark.shared_spark import shared_spark

    return shared_spark.borrow(_spark_settings(settings))


def planned_resources(settings: Settings) -> Resources:
    """Return the resources that the engine will have, so that a plan can be priced before the engine starts."""
    if settings.engine == "inline":
        return _inline_resources(settings)
    name = SPARK_CONNECT if settings.spark.connect else settings.spark.master
    cores = os.cpu_count() or 1
    if name.startswith("local["):
        wanted = name[len("local[") :].rstrip("]").split(",")[0]
        cores = int(wanted) if wanted.isdigit() else cores
    return Resources(
        cores=settings.resources.cores or cores,
        memory_gb=settings.resources.memory_gb or Resources().memory_gb,
        name=name,
    )


def _inline_resources(settings: Settings) -> Resources:
    """Return the resources of this process. The settings describe the cluster, if there is one."""
    own = settings.resources if settings.engine == "inline" else ResourceOverrides()
    return Resources(cores=own.cores or os.cpu_count() or 1, memory_gb=own.memory_gb or INLINE_GB, name=INLINE)


def plan(table: "Table", *, strategy: str | None = None, where: str | None = None, **options: Any) -> Plan:
    """Plan a compaction: which files, why, and at what cost. It changes nothing and starts no JVM."""
    settings = load_settings()
    with _control_for(table, settings, None) as control:
        return control.plan(_ref(table), _options(settings, table, strategy, where, options))


def compact(
    table: "Table",
    *,
    strategy: str | None = None,
    where: str | None = None,
    verify: str | None = None,
    engine: str | Engine | None = None,
    on_event: EventSink | None = None,
    **options: Any,
) -> CompactionResult:
    """Compact a table. `engine` is "spark", "inline", "auto" or your own engine. By default the settings decide.

    Spark keeps running for the next call with the same settings, until the process ends or you call `stop_spark`.
    """
    settings, engine = _with_engine(load_settings(), engine)
    with _control_for(table, settings, engine) as control:
        return control.compact(
            _ref(table),
            _options(settings, table, strategy, where, options),
            verify=VerifyMode.parse(verify) if verify else settings.verify,
            on_event=on_event,
        )


def expire(
    table: "Table",
    *,
    older_than: str | timedelta | None = None,
    retain_last: int | None = None,
    snapshot_ids: Sequence[int] = (),
    clean_metadata: bool = False,
    dry_run: bool = False,
    verify: bool | None = None,
    on_event: EventSink | None = None,
) -> ExpiryResult:
    """Expire snapshots, and delete the files that no retained snapshot needs. `older_than` is an age, such as "5d".

    What is not given comes from the table's properties `history.expire.*`, or is Iceberg's default.
    """
    age = older_than / timedelta(milliseconds=1) if isinstance(older_than, timedelta) else None
    if retain_last is not None and retain_last < 1:
        raise BadInput(f"retain_last is {retain_last}.", hint="Retain at least 1 snapshot.")
    options = ExpireOptions(
        older_than_ms=parse_age(older_than) if isinstance(older_than, str) else None if age is None else int(age),
        retain_last=retain_last,
        snapshot_ids=tuple(snapshot_ids),
        clean_metadata=clean_metadata,
        verify=verify,
    )
    with _control_for(table, load_settings(), None) as control:
        return control.expire(_ref(table), options, dry_run=dry_run, on_event=on_event)


def metadata_files(table: "Table", *, keep: int | None = None, keep_all: bool = False) -> MetadataFiles:
    """Report how many old metadata files a table keeps. With `keep` or `keep_all`, set it for all later commits."""
    if keep is not None and keep_all:
        raise BadInput("keep and keep_all contradict each other.", hint="Give one of them.")
    with _control_for(table, load_settings(), None) as control:
        settings = control.metadata_files(_ref(table))
        return settings.keep_all() if keep_all else settings.report() if keep is None else settings.keep(keep)


def advise(table: "Table", *, window: str | timedelta = "7d", apply: bool = False) -> Advice:
    """Advise how to prevent small files: table properties, and settings of the writers of the last days.

    With `apply`, set the advised properties, all in one commit.
    """
    settings = load_settings()
    age = int(window / timedelta(milliseconds=1)) if isinstance(window, timedelta) else parse_age(window)
    with _control_for(table, settings, None) as control:
        adviser = control.advice(_ref(table), _options(settings, table, None, None, {}), age)
        return adviser.apply() if apply else adviser.advise()


def storage_report(table: "Table", *, on_event: EventSink | None = None) -> StorageReport:
    """Report who holds the bytes of a table, what they cost, and what each command would free. It changes nothing."""
    settings = load_settings()
    with _control_for(table, settings, None) as control:
        return control.storage(_ref(table), _options(settings, table, None, None, {}), on_event=on_event)


def remove_orphans(
    table: "Table",
    *,
    older_than: str | timedelta = "3d",
    newer_than: datetime | None = None,
    now: bool = False,
    quarantine: bool = False,
    force: str | None = None,
    prefix_mismatch: PrefixMismatch = "error",
    locations: Sequence[str] = (),
    on_event: EventSink | None = None,
) -> OrphanResult:
    """Delete files below the table's location that no snapshot needs and an earlier run has seen too.

    `now` does not wait for a second run. `quarantine` moves the files instead. `force` is the reason for an age below a
    day. `plan_orphans` says what this would do.
    """
    options = _orphan_options(older_than, newer_than, now, quarantine, force, prefix_mismatch, locations)
    with _control_for(table, load_settings(), None) as control:
        return control.remove_orphans(_ref(table), options, on_event=on_event)


def plan_orphans(
    table: "Table",
    *,
    older_than: str | timedelta = "3d",
    newer_than: datetime | None = None,
    now: bool = False,
    force: str | None = None,
    prefix_mismatch: PrefixMismatch = "error",
    locations: Sequence[str] = (),
    on_event: EventSink | None = None,
) -> OrphanPlan:
    """Say what `remove_orphans` would delete now, and what that saves. It changes nothing."""
    options = _orphan_options(older_than, newer_than, now, False, force, prefix_mismatch, locations)
    with _control_for(table, load_settings(), None) as control:
        return control.plan_orphans(_ref(table), options, on_event=on_event)


def _orphan_options(
    older_than: str | timedelta,
    newer_than: datetime | None,
    now: bool,
    quarantine: bool,
    force: str | None,
    prefix_mismatch: PrefixMismatch,
    locations: Sequence[str],
) -> OrphanOptions:
    age = parse_age(older_than) if isinstance(older_than, str) else int(older_than / timedelta(milliseconds=1))
    return OrphanOptions(
        older_than_ms=age,
        newer_than_ms=None if newer_than is None else int(newer_than.timestamp() * 1000),
        now=now,
        quarantine=quarantine,
        force=force,
        prefix_mismatch=prefix_mismatch,
        locations=tuple(locations),
    )


def maintain(
    table: "Table",
    *,
    policy: Mapping[str, str] | None = None,
    engine: str | Engine | None = None,
    on_event: EventSink | None = None,
) -> "MaintenanceResult":
    """Do everything that the table needs, in the right order. `policy` overrides values, by key.

    The policy comes from the settings and from the table's properties `tidyberg.maintain.*`.
    """
    from tidyberg.control.maintenance.request import maintenance_request
    from tidyberg.settings.maintenance import flag_layers

    settings, engine = _with_engine(load_settings(), engine)
    with _control_for(table, settings, engine) as control:
        request = maintenance_request(settings, _ref(table), table.refresh(), flag_layers(policy or {}))
        return maintainer_of(control, on_event).run(request)


def plan_maintenance(table: "Table", *, policy: Mapping[str, str] | None = None) -> "MaintenancePlan":
    """Plan what `maintain` would do to the table as it is. It changes nothing and starts no JVM."""
    from tidyberg.control.maintenance.request import maintenance_request
    from tidyberg.settings.maintenance import flag_layers

    settings = load_settings()
    with _control_for(table, settings, None) as control:
        request = maintenance_request(settings, _ref(table), table.refresh(), flag_layers(policy or {}))
        return maintainer_of(control).plan(request, table)


def rewrite_manifests(
    table: "Table",
    *,
    branch: str = "main",
    spec_id: int | None = None,
    sort_by: Sequence[str] = (),
    target_size: str | int | None = None,
    force: bool = False,
    ignore_wap_branches: bool = False,
    on_event: EventSink | None = None,
) -> ManifestRewriteResult:
    """Cluster the entries of manifests by partition, in manifests of the right size, if that pays. No row changes."""
    options = ManifestOptions(branch, spec_id, _names(sort_by), _size(target_size), force, ignore_wap_branches)
    with _control_for(table, load_settings(), None) as control:
        return control.rewrite_manifests(_ref(table), options, on_event=on_event)


def plan_manifests(
    table: "Table",
    *,
    branch: str = "main",
    spec_id: int | None = None,
    sort_by: Sequence[str] = (),
    target_size: str | int | None = None,
    force: bool = False,
    ignore_wap_branches: bool = False,
) -> ManifestPlan:
    """Say what `rewrite_manifests` would do, what it costs, and whether it pays. It changes nothing."""
    options = ManifestOptions(branch, spec_id, _names(sort_by), _size(target_size), force, ignore_wap_branches)
    with _control_for(table, load_settings(), None) as control:
        return control.plan_manifests(_ref(table), options)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise BadInput(f"sort_by is {given!r}.", hint=f"Give a list of names: [{given!r}].")
    return tuple(given)


def _size(given: str | int | None) -> int | None:
    return None if given is None else parse_size(given)


def audit(
    table: "Table",
    *,
    branch: str = "main",
    snapshot_id: int | None = None,
    engine: str | Engine | None = None,
    on_event: EventSink | None = None,
) -> AuditReport:
    """Check whether the replace snapshots of a table kept every row, whichever tool made them. It changes nothing."""
    settings, engine = _with_engine(load_settings(), engine)
    with _control_for(table, settings, engine) as control:
        return control.audit(_ref(table), branch=branch, snapshot_id=snapshot_id, on_event=on_event)


def _with_engine(settings: Settings, engine: str | Engine | None) -> tuple[Settings, Engine | None]:
    if not isinstance(engine, str):
        return settings, engine
    if engine not in ("spark", "inline", "auto"):
        raise BadInput(f"{engine!r} is not an engine.", hint='Choose "spark", "inline" or "auto".')
    return settings.model_copy(update={"engine": engine}), None


def _control_for(table: "Table", settings: Settings, engine: Engine | None) -> Control:
    control = build_control(settings)
    control.open_catalog = lambda _: table.catalog
    control.open_engine = lambda: _borrow_engine(settings)
    if engine is not None:
        control.open_engine = lambda: engine
        control.open_inline = control.inline_resources = None
        control.resources = engine.resources
    return control


def _ref(table: "Table") -> TableRef:
    *namespace, name = table.name()
    return TableRef(table.catalog.name, tuple(namespace), name)


def _options(
    settings: Settings, table: "Table", strategy: str | None, where: str | None, options: dict[str, Any]
) -> PlanOptions:
    named = {"strategy": strategy, "where": where}
    return plan_options(settings, _ref(table), {**{k: v for k, v in named.items() if v is not None}, **options})
