"""The policy of `maintain`: what each step may do with a table, and where every value comes from."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DEFAULT = "default"  # the origin of values that nobody gave

# None is a value too, so "not given" needs a word of its own.
PolicyScalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class DeletesPolicy:
    """Deletes are merged, where the compaction of data files does not apply them anyway."""

    enabled: bool = True


@dataclass(frozen=True, slots=True)
class DataPolicy:
    """Compaction. Its other options come from `compaction:` and `tables:`."""

    enabled: bool = True
    strategy: str | None = None  # None: that of the settings
    max_cost: float | None = None
    target_file_size: int | None = None  # bytes; None: that of the settings, or the table's property


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    enabled: bool = True
    older_than: str | None = None  # an age; None: the table's property history.expire.*, or 5 days
    retain_last: int | None = None  # None: the table's property history.expire.*, or 1
    clean_metadata: bool = False


@dataclass(frozen=True, slots=True)
class ManifestsPolicy:
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class OrphansPolicy:
    enabled: bool = True
    action: str = "report"  # "delete" and "quarantine" remove what two runs have seen
    older_than: str = "3d"  # an age
    newer_than: str | None = None  # a moment: files written before it stay
    now: bool = False  # remove what this run sees for the first time too


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    enabled: bool = True
    scans_per_month: int = 30  # full scans of the table, for the savings of steps that make reading cheaper
    deletes: DeletesPolicy = field(default_factory=DeletesPolicy)
    data: DataPolicy = field(default_factory=DataPolicy)
    manifests: ManifestsPolicy = field(default_factory=ManifestsPolicy)
    expire: ExpirePolicy = field(default_factory=ExpirePolicy)
    orphans: OrphansPolicy = field(default_factory=OrphansPolicy)
    origins: Mapping[str, str] = field(default_factory=dict)  # by key, such as expire.older_than
    notes: tuple[str, ...] = ()  # what policies of the catalog say and tidyberg does not do

    def origin(self, key: str) -> str:
        return self.origins.get(key, DEFAULT)

    def values(self) -> dict[str, PolicyScalar]:
        """Returns every value by its key."""
        return {key: _value_at(self, key) for key in policy_keys()}


@dataclass(frozen=True, slots=True)
class PolicyLayer:
    """The values that one place gives, by key."""

    origin: str
    given: Mapping[str, PolicyScalar]


def policy_keys() -> tuple[str, ...]:
    keys: list[str] = []
    for own in dataclasses.fields(MaintenancePolicy):
        if own.name in ("origins", "notes"):
            continue
        default = getattr(MaintenancePolicy(), own.name)
        inner = dataclasses.fields(default) if dataclasses.is_dataclass(default) else ()
        keys += [f"{own.name}.{each.name}" for each in inner] or [own.name]
    return tuple(keys)


def merge_policy(layers: Sequence[PolicyLayer]) -> MaintenancePolicy:
    """Merges layers, the weakest first. Each value comes from the last layer that gives it."""
    values: dict[str, PolicyScalar] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.given.items():
            values[key] = value
            origins[key] = layer.origin
    sections: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            sections.setdefault(section, {})[name] = value
        else:
            own[key] = value
    base = MaintenancePolicy()
    built = {name: dataclasses.replace(getattr(base, name), **given) for name, given in sections.items()}
    return dataclasses.replace(base, **own, **built, origins=origins)


def _value_at(policy: MaintenancePolicy, key: str) -> PolicyScalar:
    value: Any = policy
    for part in key.split("."):
        value = getattr(value, part)
    found: PolicyScalar = value
    return found
