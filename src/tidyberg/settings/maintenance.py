"""The section `maintain:` of the settings, and the policy of one table.

Stronger places win: defaults, `maintain:`, its catalogs, namespaces and tables, the table's properties, flags. Within
`maintain:`, the more specific scope wins. What a catalog says about a namespace or a table is stronger than what
`maintain:` says about the same for all catalogs.

Policies that the catalog itself stores count if `policies_from` says so. They are stronger than `maintain:`, and weaker
than the table's properties. But they cannot switch a step on that `maintain:` switches off.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from enum import Enum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from tidyberg.errors import BadInput
from tidyberg.model.catalog_policies import CatalogPolicyLayers
from tidyberg.model.durations import parse_age, parse_moment
from tidyberg.model.maintenance_policy import MaintenancePolicy, PolicyLayer, PolicyScalar, merge_policy, policy_keys
from tidyberg.model.orphans import LEAST_AGE_MS
from tidyberg.model.table import TableRef
from tidyberg.settings.fields import Section, Size, StrategyName

PROPERTY_PREFIX = "tidyberg.maintain."
FLAG = "flag"
_WILDCARDS = frozenset("*?[")
# Properties of Iceberg by which the owner of a table has decided. They are stronger than the settings.
_OF_ICEBERG = {
    "history.expire.max-snapshot-age-ms": "expire.older_than",
    "history.expire.min-snapshots-to-keep": "expire.retain_last",
}


def _age(value: str) -> str:
    try:
        parse_age(value)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return value.strip()


def _orphan_age(value: str) -> str:
    if parse_age(_age(value)) < LEAST_AGE_MS:
        raise ValueError(f"{value!r} is below 24 hours, and a writer may not have committed its files yet")
    return value.strip()


def _as_text(value: object) -> object:
    """YAML reads a date without quotes as a date."""
    return value.isoformat() if isinstance(value, date) else value


def _moment(value: str) -> str:
    try:
        parse_moment(value)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return value.strip()


Age = Annotated[str, AfterValidator(_age)]
OrphanAge = Annotated[str, AfterValidator(_orphan_age)]
Moment = Annotated[str, BeforeValidator(_as_text), AfterValidator(_moment)]


class PolicySection(Section):
    """Rejects unknown keys and names the allowed ones. Keys may be written with dashes, as in table properties."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        named: dict[str, Any] = {}
        for key, value in data.items():
            name = str(key).replace("-", "_")
            if name not in cls.model_fields:
                raise ValueError(f"{key!r} is not a key here; the keys are {', '.join(cls.model_fields)}")
            if name in named:
                raise ValueError(f"{key!r} is given twice")
            named[name] = value
        return named


class DeletesStepSettings(PolicySection):
    """Minor compaction of deletes."""

    enabled: bool | None = Field(None, description="Whether `maintain` merges deletes. Default: true.")


class DataStepSettings(PolicySection):
    """Compaction. `compaction:` and `tables:` have its other options."""

    enabled: bool | None = Field(None, description="Whether `maintain` compacts data files. Default: true.")
    strategy: StrategyName | None = Field(None, description="The strategy. Default: that of `compaction:`.")
    max_cost: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="The most dollars that the compaction may cost."
    )
    target_file_size: Size | None = Field(
        None, description="The size of output files. Default: that of `compaction:` and `tables:`."
    )


class ExpireStepSettings(PolicySection):
    """Expiry of snapshots."""

    enabled: bool | None = Field(None, description="Whether `maintain` expires snapshots. Default: true.")
    older_than: Age | None = Field(
        None, description="The age of snapshots to expire, such as 5d. Default: the table's property, or 5 days."
    )
    retain_last: int | None = Field(
        None, ge=1, description="Snapshots that each branch keeps. Default: the table's property, or 1."
    )
    clean_metadata: bool | None = Field(
        None, description="Whether unused schemas and partition specs are removed. Default: false."
    )


class ManifestsStepSettings(PolicySection):
    """Rewriting of manifests."""

    enabled: bool | None = Field(None, description="Whether `maintain` rewrites manifests. Default: true.")


class OrphansStepSettings(PolicySection):
    """Files that no snapshot references."""

    enabled: bool | None = Field(None, description="Whether `maintain` looks for orphans. Default: true.")
    action: Literal["report", "delete", "quarantine"] | None = Field(
        None, description="report, delete or quarantine. Default: report."
    )
    older_than: OrphanAge | None = Field(
        None, description="The age of orphans, at least 24h, such as 3d. Default: 3 days."
    )
    newer_than: Moment | None = Field(
        None, description="Files written before this time stay, such as 2026-01-31. Default: none."
    )
    now: bool | None = Field(None, description="Whether orphans go that no earlier run has seen. Default: false.")


class PolicySettings(PolicySection):
    """Says what `maintain` may do. An unset key has the value of the next wider scope."""

    enabled: bool | None = Field(None, description="Whether `maintain` does anything. Default: true.")
    scans_per_month: int | None = Field(
        None, ge=0, description="How often the table is read as a whole, to estimate savings. Default: 30."
    )
    deletes: DeletesStepSettings = DeletesStepSettings()
    data: DataStepSettings = DataStepSettings()
    manifests: ManifestsStepSettings = ManifestsStepSettings()
    expire: ExpireStepSettings = ExpireStepSettings()
    orphans: OrphansStepSettings = OrphansStepSettings()

    def given(self) -> dict[str, PolicyScalar]:
        """Returns the values that were set, by key."""
        found: dict[str, PolicyScalar] = {}
        for key in policy_keys():
            value: Any = self
            for part in key.split("."):
                value = getattr(value, part)
            if value is not None:
                found[key] = value.value if isinstance(value, Enum) else value
        return found


class CatalogPolicy(PolicySettings):
    """The policy of one catalog."""

    policies_from: Literal["settings", "catalog"] | None = Field(
        None,
        description="catalog: policies that the catalog stores count too (Apache Polaris). Default: settings.",
    )
    namespaces: dict[str, PolicySettings] = Field(
        default_factory=dict, description="By namespace or pattern. A namespace inherits from those above it."
    )
    tables: dict[str, PolicySettings] = Field(
        default_factory=dict, description="By table or pattern. A name without a dot matches in any namespace."
    )


class MaintainSettings(CatalogPolicy):
    """The policy of `tidyberg maintain`."""

    catalogs: dict[str, CatalogPolicy] = Field(default_factory=dict, description="By catalog.")


NO_POLICIES = CatalogPolicyLayers()


def maintenance_policy(
    maintain: MaintainSettings,
    ref: TableRef,
    properties: Mapping[str, str],
    asked: Sequence[PolicyLayer] = (),
    of_catalog: CatalogPolicyLayers = NO_POLICIES,
) -> MaintenancePolicy:
    """Returns the policy of one table. `asked` has the values of a caller, which are the strongest.

    Raises BadInput that names the place of an unknown key or a bad value.
    """
    weak = [*of_catalog.switched_on, *_of_settings(maintain, ref)]
    merged = merge_policy([*weak, *of_catalog.required, *_of_properties(ref, properties), *asked])
    return replace(merged, notes=tuple(map(str, of_catalog.notes)))


def obeys_catalog(maintain: MaintainSettings, catalog: str) -> bool:
    """Returns True if the policies that this catalog stores count."""
    scope = maintain.catalogs.get(catalog)
    return ((scope and scope.policies_from) or maintain.policies_from) == "catalog"


def _of_settings(maintain: MaintainSettings, ref: TableRef) -> Iterator[PolicyLayer]:
    scopes: list[tuple[str, CatalogPolicy]] = [("maintain", maintain)]
    if (of_catalog := maintain.catalogs.get(ref.catalog)) is not None:
        scopes.append((f"maintain.catalogs.{ref.catalog}", of_catalog))
    for place, scope in scopes:
        yield PolicyLayer(place, scope.given())
    for place, scope in scopes:
        for name in _namespaces(scope.namespaces, ref):
            yield PolicyLayer(f"{place}.namespaces.{name}", scope.namespaces[name].given())
    for place, scope in scopes:
        for name in _tables(scope.tables, ref):
            yield PolicyLayer(f"{place}.tables.{name}", scope.tables[name].given())


def _namespaces(named: Mapping[str, PolicySettings], ref: TableRef) -> list[str]:
    """The wider namespaces first, and patterns before exact names."""
    above = [".".join(ref.namespace[: depth + 1]) for depth in range(len(ref.namespace))]
    found = [
        (depth, not _is_pattern(name), name)
        for name in named
        for depth, namespace in enumerate(above)
        if fnmatchcase(namespace, name)
    ]
    deepest = {name: (depth, exact) for depth, exact, name in found}  # a pattern may match several of them
    return sorted(deepest, key=lambda name: deepest[name])


def _tables(named: Mapping[str, PolicySettings], ref: TableRef) -> list[str]:
    """Patterns before exact names, and names without a namespace before others."""
    found = [name for name in named if fnmatchcase(str(ref) if "." in name else ref.name, name)]
    return sorted(found, key=lambda name: (not _is_pattern(name), "." in name))


def _of_properties(ref: TableRef, properties: Mapping[str, str]) -> Iterator[PolicyLayer]:
    for name, key in _OF_ICEBERG.items():
        if name in properties:
            yield PolicyLayer(f"table property {name}", {key: None})
    for name in sorted(properties):
        if name.startswith(PROPERTY_PREFIX):
            given = _parse(name.removeprefix(PROPERTY_PREFIX), properties[name], f"The property {name} of {ref}")
            yield PolicyLayer(f"table property {name}", given)


def flag_layers(flags: Mapping[str, str]) -> list[PolicyLayer]:
    """Reads the values of a command line or of the Python API."""
    return [PolicyLayer(FLAG, _parse(name, value, f"--set {name}")) for name, value in flags.items()]


def _parse(name: str, text: str, place: str) -> dict[str, PolicyScalar]:
    """Reads one value. `place` says in an error where it was given."""
    key = name.strip().replace("-", "_")
    if key not in policy_keys():
        allowed = ", ".join(each.replace("_", "-") for each in policy_keys())
        raise BadInput(f"{place} is not a key of the maintenance policy.", hint=f"The keys are {allowed}.")
    section, dot, inner = key.partition(".")
    try:
        read = PolicySettings.model_validate({section: {inner: text}} if dot else {key: text})
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ").rstrip(".")
        raise BadInput(f"{place} is {text!r}: {said[:1].lower()}{said[1:]}.", hint=_allowed(section, inner)) from None
    return read.given()


def _allowed(section: str, inner: str) -> str | None:
    """Returns the description of a key, which says what it may be."""
    model: type[BaseModel] = PolicySettings
    if inner:
        annotation = PolicySettings.model_fields[section].annotation
        assert isinstance(annotation, type)
        assert issubclass(annotation, BaseModel)
        model = annotation
    return model.model_fields[inner or section].description


def _is_pattern(name: str) -> bool:
    return bool(_WILDCARDS & set(name))
