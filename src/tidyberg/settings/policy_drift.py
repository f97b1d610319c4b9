"""Compares the policies of a catalog with what the settings, the table's properties and the schedules say.

It does no I/O. A key that has no value of its own counts with the value that `maintain` would use, such as the table's
`history.expire.max-snapshot-age-ms`.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from tidyberg.model.catalog_policies import ApplicablePolicy, PolicyDrift, PolicyReport, PolicyValue
from tidyberg.model.durations import parse_age
from tidyberg.model.maintenance_policy import DEFAULT, MaintenancePolicy, PolicyLayer, PolicyScalar, policy_keys
from tidyberg.model.table import TableRef
from tidyberg.planning.expiry import expiry_defaults
from tidyberg.planning.file_sizes import TARGET_PROPERTY, resolve_sizes
from tidyberg.settings.catalog_policies import catalog_policy_layers
from tidyberg.settings.fields import Section
from tidyberg.settings.job_options import ExpireJobOptions
from tidyberg.settings.maintenance import NO_POLICIES, PolicySettings, maintenance_policy, obeys_catalog
from tidyberg.settings.options import plan_options
from tidyberg.settings.schedules import ScheduleLine
from tidyberg.settings.settings import Settings

_AGES = ("expire.older_than", "orphans.older_than")


def policy_report(
    settings: Settings, ref: TableRef, properties: Mapping[str, str], policies: Sequence[ApplicablePolicy]
) -> PolicyReport:
    of_catalog = catalog_policy_layers(policies)
    is_obeyed = obeys_catalog(settings.maintain, ref.catalog)
    own = maintenance_policy(settings.maintain, ref, properties)
    used = maintenance_policy(settings.maintain, ref, properties, (), of_catalog if is_obeyed else NO_POLICIES)
    effective = _Effective(settings, ref, properties)
    schedules = list(_schedule_layers(settings, ref))
    given = of_catalog.given()
    values: list[PolicyDrift] = []
    keys = [key for key in policy_keys() if key in given]
    for key in keys:
        asked = PolicyValue(*given[key])
        ours = effective.value(own, key)
        # If the catalog is obeyed, its values replace defaults. Only what somebody has set can contradict them.
        counts = not is_obeyed or ours.origin != DEFAULT
        values.append(PolicyDrift(key, asked, ours, counts and not _same(key, asked.value, ours.value)))
        for layer in schedules:
            if key in layer.given:
                scheduled = PolicyValue(layer.given[key], layer.origin)
                values.append(PolicyDrift(key, asked, scheduled, not _same(key, asked.value, scheduled.value)))
    return PolicyReport(
        table=ref,
        is_obeyed=is_obeyed,
        policies=tuple(policies),
        values=tuple(values),
        used={key: effective.value(used, key) for key in keys},
        notes=of_catalog.notes,
    )


class _Effective:
    """Finds the value of a key, also where the policy leaves it to the table or to the options of compactions."""

    def __init__(self, settings: Settings, ref: TableRef, properties: Mapping[str, str]) -> None:
        self._settings = settings
        self._ref = ref
        self._properties = properties

    def value(self, policy: MaintenancePolicy, key: str) -> PolicyValue:
        value, origin = policy.values()[key], policy.origin(key)
        if value is not None:
            return PolicyValue(value, origin)
        if key == "data.target_file_size":
            return self._target()
        defaults = expiry_defaults(self._properties)
        of_table: dict[str, PolicyScalar] = {
            "expire.older_than": f"{defaults.max_snapshot_age_ms // 1000}s",
            "expire.retain_last": defaults.min_snapshots,
        }
        return PolicyValue(of_table.get(key), origin)

    def _target(self) -> PolicyValue:
        options = plan_options(self._settings, self._ref, {})
        if options.target_file_size is not None:
            return PolicyValue(options.target_file_size, "compaction: or tables:")
        origin = f"table property {TARGET_PROPERTY}" if TARGET_PROPERTY in self._properties else DEFAULT
        return PolicyValue(resolve_sizes(options, self._properties).target, origin)


def _schedule_layers(settings: Settings, ref: TableRef) -> Iterator[PolicyLayer]:
    """Returns what the schedules of the settings ask for this table. Their options are stronger than any policy."""
    for line in settings.schedules:
        if line.enabled and _covers(settings, line, ref):
            origin = f"schedule {line.schedule_name}"
            options: Section = line.options  # of the model of its kind
            if isinstance(options, PolicySettings):
                yield PolicyLayer(origin, options.given())
            elif isinstance(options, ExpireJobOptions):
                asked = {"expire.older_than": options.older_than, "expire.retain_last": options.retain_last}
                given = {key: value for key, value in asked.items() if value is not None}
                yield PolicyLayer(origin, {"expire.enabled": True, **given})


def _covers(settings: Settings, line: ScheduleLine, ref: TableRef) -> bool:
    catalogs = [line.catalog] if line.catalog else settings.scheduler.catalogs
    if catalogs and ref.catalog not in catalogs:
        return False
    return fnmatchcase(str(ref) if "." in line.table else ref.name, line.table)


def _same(key: str, one: PolicyScalar, other: PolicyScalar) -> bool:
    if key in _AGES and isinstance(one, str) and isinstance(other, str):
        return parse_age(one) == parse_age(other)
    return one == other
