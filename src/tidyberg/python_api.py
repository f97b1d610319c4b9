"""The Python API: one function for each thing that a caller can do to a table that PyIceberg has loaded.

`tidyberg/__init__.py` offers these functions. Each call builds its own `Control`. Spark is shared by all calls.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidyberg.app import build_control, build_engine, maintainer_of, spark_settings
from tidyberg.control.control import Control
from tidyberg.errors import BadInput
from tidyberg.execute.engine import Engine
from tidyberg.model.advice import Advice
from tidyberg.model.audit import AuditReport
from tidyberg.model.catalog_policies import PolicyReport
from tidyberg.model.durations import parse_age
from tidyberg.model.expiry import ExpireOptions, ExpiryResult
from tidyberg.model.manifest_rewrite import ManifestOptions, ManifestPlan, ManifestRewriteResult
from tidyberg.model.metadata_files import MetadataFiles
from tidyberg.model.options import PlanOptions, VerifyMode
from tidyberg.model.orphans import OrphanOptions, OrphanPlan, OrphanResult, PrefixMismatch
from tidyberg.model.plan import Plan
from tidyberg.model.report import CompactionResult, EventSink
from tidyberg.model.sizes import parse_size
from tidyberg.model.storage_report import StorageReport
from tidyberg.model.table import TableRef
from tidyberg.settings.load import load_settings
from tidyberg.settings.options import plan_options
from tidyberg.settings.settings import Settings

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tidyberg.model.maintenance import MaintenancePlan, MaintenanceRequest, MaintenanceResult


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
    if retain_last is not None and retain_last < 1:
        raise BadInput(f"retain_last is {retain_last}.", hint="Retain at least 1 snapshot.")
    options = ExpireOptions(
        older_than_ms=None if older_than is None else _milliseconds(older_than),
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
    return OrphanOptions(
        older_than_ms=_milliseconds(older_than),
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
    settings, engine = _with_engine(load_settings(), engine)
    with _control_for(table, settings, engine) as control:
        return maintainer_of(control, on_event).run(_maintenance_request(table, settings, policy))


def plan_maintenance(table: "Table", *, policy: Mapping[str, str] | None = None) -> "MaintenancePlan":
    """Plan what `maintain` would do to the table as it is. It changes nothing and starts no JVM."""
    settings = load_settings()
    with _control_for(table, settings, None) as control:
        return maintainer_of(control).plan(_maintenance_request(table, settings, policy), table)


def _maintenance_request(table: "Table", settings: Settings, policy: Mapping[str, str] | None) -> "MaintenanceRequest":
    from tidyberg.control.maintenance.request import maintenance_request
    from tidyberg.settings.maintenance import flag_layers

    return maintenance_request(settings, _ref(table), table.refresh(), flag_layers(policy or {}))


def policy_report(table: "Table") -> PolicyReport:
    """Report the policies that the catalog stores for the table, and what tidyberg is told differently elsewhere.

    It changes nothing. The catalog must have the policy API of Apache Polaris.
    """
    from tidyberg.control.maintenance.request import report_policies

    return report_policies(load_settings(), _ref(table), table.refresh())


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


def _milliseconds(age: str | timedelta) -> int:
    return parse_age(age) if isinstance(age, str) else int(age / timedelta(milliseconds=1))


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
        memory = plan_options(settings, _ref(table), {}).join_delete_size
        return control.audit(
            _ref(table), branch=branch, snapshot_id=snapshot_id, on_event=on_event, key_memory_bytes=memory
        )


def stop_spark() -> None:
    """Stop the Spark that the calls of this process share, after all of them have ended. The next call starts it."""
    from tidyberg.execute.spark.shared_spark import shared_spark

    shared_spark.stop()


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


def _borrow_engine(settings: Settings) -> Engine:
    """Return an engine for one call of the Python API. Spark keeps running for the next call."""
    if settings.engine == "inline":
        return build_engine(settings)
    from tidyberg.execute.spark.shared_spark import shared_spark

    return shared_spark.borrow(spark_settings(settings))


def _ref(table: "Table") -> TableRef:
    *namespace, name = table.name()
    return TableRef(table.catalog.name, tuple(namespace), name)


def _options(
    settings: Settings, table: "Table", strategy: str | None, where: str | None, options: dict[str, Any]
) -> PlanOptions:
    named = {"strategy": strategy, "where": where}
    return plan_options(settings, _ref(table), {**{k: v for k, v in named.items() if v is not None}, **options})
