"""Maps the maintenance policies of Apache Polaris to the keys of our own policy. It does no I/O.

Polaris has four types, each with a JSON content: `version`, `enable` and `config`. Its schemas leave the keys of
`config` open, and name some in examples. We do some of these, and report every other key. A content that cannot be
understood is an error, because nobody knows then what its author wants.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidyberg.errors import BadInput
from tidyberg.model.catalog_policies import ApplicablePolicy, CatalogPolicyLayers, PolicyNote
from tidyberg.model.maintenance_policy import PolicyLayer, PolicyScalar
from tidyberg.model.orphans import LEAST_AGE_MS

SCHEMA_VERSION = "2025-02-03"
_DAY_MS = 86_400_000
_LARGEST = 2**53  # JSON numbers above are not exact


class _BadValueError(ValueError):
    """A value that the policy may not have. Its message completes `KEY is VALUE: …`."""


@dataclass(frozen=True)
class _Unsupported:
    """A value that is understood, but that we do not do."""

    reason: str


# Returns the value of our key. None: what the policy asks for is done anyway.
_Reader = Callable[[Any], PolicyScalar | _Unsupported]


@dataclass(frozen=True)
class _Target:
    """One of our keys, and how a value of Polaris becomes its value."""

    key: str
    read: _Reader


@dataclass(frozen=True)
class _PolicyKind:
    """Says what one type of policy means."""

    switched_on: Mapping[str, PolicyScalar]
    switched_off: Mapping[str, PolicyScalar]
    config: Mapping[str, _Target]
    not_done: Mapping[str, str]  # known keys of `config` that we do not do, and why
    beside_config: Mapping[str, _Target] = field(default_factory=dict)
    has_locations: bool = False  # the policy may name the directories to search


def _number(value: Any) -> float:
    """Reads a number. Polaris stores the values of `config` as texts or as numbers."""
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
        if math.isnan(number):
            raise ValueError
    except (TypeError, ValueError):
        raise _BadValueError("it is not a number") from None
    except OverflowError:
        raise _BadValueError("it is too large") from None
    if number <= 0:
        raise _BadValueError("it must be more than 0")
    if number > _LARGEST:
        raise _BadValueError("it is too large")
    return number


def _count(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise _BadValueError("it must be a whole number")
    return int(number)


def _days(value: Any) -> str:
    milliseconds = _number(value) * _DAY_MS
    if milliseconds > _LARGEST:
        raise _BadValueError("it is too large")
    if milliseconds < 1000:
        raise _BadValueError("it is less than a second")
    days, rest = divmod(int(milliseconds), _DAY_MS)
    return f"{days}d" if not rest else f"{int(milliseconds) // 1000}s"


def _orphan_days(value: Any) -> str:
    if _number(value) * _DAY_MS < LEAST_AGE_MS:
        raise _BadValueError("it is below 1 day, and a writer may not have committed its files yet")
    return _days(value)


def _strategy(value: Any) -> PolicyScalar | _Unsupported:
    """All of our strategies pack files and keep the order of rows, which is Iceberg's `bin-pack`."""
    if not isinstance(value, str):
        raise _BadValueError("it is not a text")
    name = value.strip().lower().replace("-", "").replace("_", "")
    return None if name == "binpack" else _Unsupported("only bin-pack is done")


_KINDS: Mapping[str, _PolicyKind] = {
    "system.data-compaction": _PolicyKind(
        switched_on={"data.enabled": True},
        # Merging deletes rewrites files of the table too, which the policy forbids.
        switched_off={"data.enabled": False, "deletes.enabled": False},
        config={
            "target_file_size_bytes": _Target("data.target_file_size", _count),
            "compaction_strategy": _Target("data.strategy", _strategy),
        },
        not_done={"max_concurrent_file_group_rewrites": "the settings of the engine say how much runs at once"},
    ),
    "system.metadata-compaction": _PolicyKind(
        switched_on={"manifests.enabled": True},
        switched_off={"manifests.enabled": False},
        config={},
        not_done={"spec_id": "manifests of all partition specs are rewritten where that pays"},
    ),
    "system.snapshot-expiry": _PolicyKind(
        switched_on={"expire.enabled": True},
        switched_off={"expire.enabled": False},
        config={
            "min_snapshot_to_keep": _Target("expire.retain_last", _count),
            "max_snapshot_age_days": _Target("expire.older_than", _days),
        },
        not_done={"max_ref_age_days": "set the table property history.expire.max-ref-age-ms"},
    ),
    "system.orphan-file-removal": _PolicyKind(
        switched_on={"orphans.enabled": True, "orphans.action": "delete"},
        switched_off={"orphans.enabled": False},
        config={},
        not_done={"prefix_mismatch_mode": "a path with another scheme or authority refuses the search"},
        beside_config={"max_orphan_file_age_in_days": _Target("orphans.older_than", _orphan_days)},
        has_locations=True,
    ),
}
POLICY_TYPES = tuple(_KINDS)
_LOCATIONS = "locations"


def catalog_policy_layers(policies: Sequence[ApplicablePolicy]) -> CatalogPolicyLayers:
    """Maps all policies of one table."""
    mapped = [_Mapping(policy).result() for policy in policies]
    return CatalogPolicyLayers(
        switched_on=tuple(layer for each in mapped for layer in each.switched_on),
        required=tuple(layer for each in mapped for layer in each.required),
        notes=(*(note for each in mapped for note in each.notes), *_repeated(policies)),
    )


def refuse_malformed(layers: CatalogPolicyLayers) -> None:
    """Raises BadInput for the first policy that cannot be understood."""
    for note in layers.notes:
        if note.is_error:
            raise BadInput(
                f"{str(note)[:1].upper()}{str(note)[1:]}.",
                hint="Change the policy in the catalog, or set maintain.policies_from to settings.",
            )


def _repeated(policies: Sequence[ApplicablePolicy]) -> Iterator[PolicyNote]:
    """Of an inheritable type, a table has one policy. If a server returns two, nobody knows which one counts."""
    first: dict[str, ApplicablePolicy] = {}
    for policy in policies:
        if policy.policy_type in _KINDS and policy.policy_type in first:
            other = first[policy.policy_type].full_name
            yield PolicyNote(policy, f"{other} has the same type, and only one of them can apply", is_error=True)
        first.setdefault(policy.policy_type, policy)


class _Mapping:
    """Maps one policy, and collects what it cannot map."""

    def __init__(self, policy: ApplicablePolicy) -> None:
        self._policy = policy
        self._notes: list[PolicyNote] = []
        self._values: dict[str, PolicyScalar] = {}

    def result(self) -> CatalogPolicyLayers:
        kind = _KINDS.get(self._policy.policy_type)
        if kind is None:
            self._note("tidyberg does not do this type of policy")
            return CatalogPolicyLayers(notes=tuple(self._notes))
        try:
            content = _parse(self._policy.content)
            is_enabled = _enable(content)
            config = _config(content)
        except _BadValueError as error:
            self._note(str(error), is_error=True)
            return CatalogPolicyLayers(notes=tuple(self._notes))
        self._read(config, kind.config, kind.not_done, "config.")
        beside = {key: value for key, value in content.items() if key not in ("version", "enable", "config")}
        has_locations = kind.has_locations and beside.pop(_LOCATIONS, None) not in (None, [])
        self._read(beside, kind.beside_config, {}, "")
        if has_locations:
            self._note(
                "locations is not done: only the table's own locations are searched, and the policy deletes nothing"
            )
        origin = self._policy.origin
        if not is_enabled:
            return CatalogPolicyLayers((), (PolicyLayer(origin, kind.switched_off),), tuple(self._notes))
        switched_on = {key: value for key, value in kind.switched_on.items() if not (has_locations and "action" in key)}
        return CatalogPolicyLayers(
            (PolicyLayer(origin, switched_on),), (PolicyLayer(origin, dict(self._values)),), tuple(self._notes)
        )

    def _read(
        self, given: Mapping[str, Any], targets: Mapping[str, _Target], not_done: Mapping[str, str], place: str
    ) -> None:
        spelled: dict[str, str] = {}
        for name, value in given.items():
            key = name.replace("-", "_")
            if key in spelled:
                self._note(f"{place}{name} is also given as {spelled[key]}", is_error=True)
            elif key in targets:
                self._take(f"{place}{name}", value, targets[key])
            else:
                why = not_done.get(key)
                self._note(f"{place}{name} is not done: {why}" if why else f"{place}{name} is not a key that we know")
            spelled[key] = name

    def _take(self, place: str, value: Any, target: _Target) -> None:
        try:
            read = target.read(value)
        except _BadValueError as error:
            self._note(f"{place} is {json.dumps(value)[:100]}: {error}", is_error=True)
            return
        if isinstance(read, _Unsupported):
            self._note(f"{place} is {json.dumps(value)[:100]}: {read.reason}")
        elif read is not None:
            self._values[target.key] = read

    def _note(self, reason: str, *, is_error: bool = False) -> None:
        self._notes.append(PolicyNote(self._policy, reason, is_error))


def _parse(content: str | None) -> Mapping[str, Any]:
    if content is None or not content.strip():
        raise _BadValueError("it has no content")
    try:
        parsed = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise _BadValueError("its content is not valid JSON") from None
    if not isinstance(parsed, dict):
        raise _BadValueError("its content is not a JSON object")
    version = parsed.get("version")
    if version not in (None, "", SCHEMA_VERSION):  # Polaris, too, takes no version for the present one
        raise _BadValueError(f"its content has version {json.dumps(version)[:40]}, and we know only {SCHEMA_VERSION}")
    return parsed


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _enable(content: Mapping[str, Any]) -> bool:
    value = content.get("enable")
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):  # the validator of Polaris accepts these texts too
        return bool(value == "true")
    said = f"is {json.dumps(value)[:40]}" if "enable" in content else "is missing"
    raise _BadValueError(f"enable {said}: it must be true or false")


def _config(content: Mapping[str, Any]) -> Mapping[str, Any]:
    config = content.get("config")
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise _BadValueError("config is not a JSON object")
    return config
