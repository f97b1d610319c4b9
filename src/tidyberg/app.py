"""Builds `Control` and `Service` from settings. This is the one place where parts are wired.

Modules that only a service or an engine needs are imported late, because a plan takes less time than their import.
"""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from tidyberg.control.control import Control
from tidyberg.execute.engine import INLINE_GB, SPARK_CONNECT, CancelToken, Engine
from tidyberg.model.options import INLINE, Resources
from tidyberg.model.report import EventSink
from tidyberg.model.submission import DEFAULT_TENANT
from tidyberg.model.table import TableRef
from tidyberg.model.tenant_namespaces import tenant_of
from tidyberg.record.process import is_alive
from tidyberg.record.records import Records, open_sqlite
from tidyberg.record.store import JobStore
from tidyberg.redact import redact_text
from tidyberg.settings.catalogs import named_catalog, open_catalog
from tidyberg.settings.sections import ResourceOverrides
from tidyberg.settings.settings import Settings
from tidyberg.telemetry.logs import known_secrets
from tidyberg.telemetry.open_tracer import open_tracer

if TYPE_CHECKING:
    from tidyberg.control.maintenance.maintainer import Maintainer
    from tidyberg.execute.spark.shared_spark import SparkSettings
    from tidyberg.operations.operations import TableOperations
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
        engine_lists_above=None if settings.engine == "inline" else settings.spark.files_above,
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
        Access(settings.tenants, settings.access.job_roles, _maker_of_tables(settings)),
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


def _maker_of_tables(settings: Settings) -> Callable[[TableRef], str | None]:
    """Return a function that finds the tenant which made a table by table operations, if one did."""
    operations = settings.operations
    catalog = cache(lambda: named_catalog(settings, operations.catalog))  # may read the configuration of PyIceberg

    def maker(table: TableRef) -> str | None:
        if not operations.enabled or table.catalog != catalog():
            return None
        return tenant_of(operations.namespace_prefix, table.namespace)

    return maker


def table_operations(settings: Settings, control: Control) -> "TableOperations":
    """Build table operations that compact in this process with `control`, as AWS Lambda needs them."""
    from tidyberg.operations.build import build_operations
    from tidyberg.operations.compaction import InlineCompactor

    return build_operations(settings, control, InlineCompactor(settings, control))


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
    return spark_settings(settings).make_engine()


def _inline_engine(settings: Settings) -> Engine:
    from tidyberg.execute.inline import InlineEngine, task_memory_bytes

    resources = _inline_resources(settings)
    limit = settings.resources.memory_gb if settings.engine == "inline" else None
    memory = None if limit is None else task_memory_bytes(limit, resources.cores)
    return InlineEngine(resources.cores, resources.memory_gb, memory)


def spark_settings(settings: Settings) -> "SparkSettings":
    from tidyberg.execute.spark.shared_spark import SparkSettings

    return SparkSettings(
        master=settings.spark.master,
        conf=settings.spark.conf,
        connect=settings.spark.connect,
        driver_memory=settings.spark.driver_memory,
        memory_gb=planned_resources(settings).memory_gb,
        class_archive=settings.spark.class_archive,
    )


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
