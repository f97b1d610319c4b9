"""Decides which snapshots and refs expire. The rules are those of Iceberg's Java library (RemoveSnapshots).

- The branch main never expires. Another ref expires when its snapshot is older than the ref's `max-ref-age-ms`, or else
  the table's. A ref to a missing snapshot goes, with a warning.
- A branch keeps its head. It keeps ancestors while they are among its newest `min-snapshots-to-keep`, or newer than its
  cutoff, and stops at the first that is neither. A branch's own settings are stronger than properties and arguments.
- A tag keeps its snapshot, and none of that snapshot's ancestors.
- A snapshot that no ref leads to stays while it is newer than the cutoff.
- A snapshot that the caller names goes, whatever its age. It is an error if a ref that stays points to it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidyberg.errors import BadInput
from tidyberg.model.expiry import ExpireOptions, ExpiryBounds, ExpiryDecision, RefInfo
from tidyberg.model.table import SnapshotInfo
from tidyberg.model.words import plural

MAIN = "main"
GC_ENABLED = "gc.enabled"
MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
_FIVE_DAYS_MS = 5 * 24 * 60 * 60 * 1000
_FOREVER = 2**63 - 1  # Java's largest number
_CORRECT_IT = "Correct it, or remove it."
UNREFERENCED = "not in any branch, but newer than the cutoff"
NOT_PLANNED = "not in the plan"


@dataclass(frozen=True, slots=True)
class ExpiryDefaults:
    """The values of a table for what a caller leaves open."""

    max_snapshot_age_ms: int
    min_snapshots: int


def expiry_defaults(properties: Mapping[str, str]) -> ExpiryDefaults:
    return ExpiryDefaults(
        long_property(properties, MAX_SNAPSHOT_AGE, _FIVE_DAYS_MS), long_property(properties, MIN_SNAPSHOTS, 1)
    )


def decide_expiry(
    snapshots: Mapping[int, SnapshotInfo],
    refs: Sequence[RefInfo],
    properties: Mapping[str, str],
    options: ExpireOptions,
    now_ms: int,
) -> ExpiryDecision:
    """Raises BadInput if the table forbids it, or if a snapshot that the caller named is still needed."""
    check_allowed(properties)
    defaults = expiry_defaults(properties)
    cutoff_ms = now_ms - (defaults.max_snapshot_age_ms if options.older_than_ms is None else options.older_than_ms)
    fewest = defaults.min_snapshots if options.retain_last is None else options.retain_last
    max_ref_age = long_property(properties, MAX_REF_AGE, _FOREVER)
    staying, going, warnings = _divide(snapshots, refs, max_ref_age, now_ms)
    _check_named(options.snapshot_ids, staying)
    retained: dict[int, list[str]] = defaultdict(list)
    referenced: set[int] = set()
    for ref in staying:
        if ref.snapshot_id in snapshots:
            retained[ref.snapshot_id].append(str(ref))
        if not ref.is_branch:
            referenced.add(ref.snapshot_id)
            continue
        lineage = list(_ancestors(snapshots, ref.snapshot_id))
        referenced.update(snapshot.snapshot_id for snapshot in lineage)
        for snapshot in _kept_by(ref, lineage, cutoff_ms, fewest, now_ms):
            if snapshot.snapshot_id != ref.snapshot_id:
                retained[snapshot.snapshot_id].append(str(ref))
    for snapshot in snapshots.values():
        if snapshot.snapshot_id not in referenced and snapshot.timestamp_ms >= cutoff_ms:
            retained[snapshot.snapshot_id].append(UNREFERENCED)
    named = set(options.snapshot_ids)
    expired = [one for one in snapshots.values() if one.snapshot_id not in retained or one.snapshot_id in named]
    expired.sort(key=lambda one: (one.timestamp_ms, one.snapshot_id))
    gone = {one.snapshot_id for one in expired}
    return ExpiryDecision(
        snapshot_ids=tuple(one.snapshot_id for one in expired),
        refs=tuple(going),
        retained={number: tuple(reasons) for number, reasons in retained.items() if number not in gone},
        cutoff_ms=cutoff_ms,
        warnings=tuple(warnings),
    )


def check_allowed(properties: Mapping[str, str]) -> None:
    given = properties.get(GC_ENABLED, "true")
    if given.lower() != "true":
        raise BadInput(
            f"The table has {GC_ENABLED}={given}: deleting its files may break other tables that share them.",
            hint=f"Set {GC_ENABLED}=true if no other table uses its files.",
        )


def _check_named(named: Sequence[int], staying: Sequence[RefInfo]) -> None:
    for number in named:
        if holders := [str(ref) for ref in staying if ref.snapshot_id == number]:
            raise BadInput(
                f"Snapshot {number} cannot be expired: {', '.join(holders)} points to it.",
                hint="Move or drop the branch or tag first.",
            )


def _divide(
    snapshots: Mapping[int, SnapshotInfo], refs: Sequence[RefInfo], max_ref_age_ms: int, now_ms: int
) -> tuple[list[RefInfo], list[RefInfo], list[str]]:
    """Returns the refs that stay, the refs that go, and warnings."""
    staying, going, warnings = [], [], []
    for ref in refs:
        target = snapshots.get(ref.snapshot_id)
        longest = max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if ref.name == MAIN or (target is not None and now_ms - target.timestamp_ms <= longest):
            staying.append(ref)
            continue
        going.append(ref)
        if target is None:
            warnings.append(f"{ref} points to snapshot {ref.snapshot_id}, which does not exist")
    return staying, going, warnings


def _kept_by(
    branch: RefInfo, lineage: Sequence[SnapshotInfo], cutoff_ms: int, fewest: int, now_ms: int
) -> Iterator[SnapshotInfo]:
    cutoff = cutoff_ms if branch.max_snapshot_age_ms is None else now_ms - branch.max_snapshot_age_ms
    fewest = fewest if branch.min_snapshots_to_keep is None else branch.min_snapshots_to_keep
    for number, snapshot in enumerate(lineage):
        if number >= fewest and snapshot.timestamp_ms < cutoff:
            return
        yield snapshot


def _ancestors(snapshots: Mapping[int, SnapshotInfo], head: int) -> Iterator[SnapshotInfo]:
    """The head and its ancestors, newest first. Ends where an ancestor is gone, or where damaged metadata loops."""
    seen: set[int] = set()
    number: int | None = head
    while number is not None and number not in seen and (snapshot := snapshots.get(number)) is not None:
        seen.add(number)
        yield snapshot
        number = snapshot.parent_id


def long_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """As in Java, a negative number is a number: snapshots of the future are older than a negative age."""
    given = properties.get(name)
    if given is None:
        return default
    try:
        number = int(given)
    except ValueError:
        number = _FOREVER + 1
    if not -_FOREVER <= number <= _FOREVER:
        raise BadInput(f"The table's property {name} is {given!r}, which is not a number.", hint=_CORRECT_IT)
    return number


def unused_ids(known: Sequence[int], used: set[int], current: int) -> tuple[int, ...]:
    """Ids of schemas or partition specs that neither a retained snapshot nor the next writer needs."""
    return tuple(sorted(number for number in known if number != current and number not in used))


def missing_ids(snapshots: Mapping[int, SnapshotInfo], named: Sequence[int]) -> str | None:
    """Says which of the named snapshots do not exist, or returns None."""
    missing = [str(number) for number in named if number not in snapshots]
    return f"There is no snapshot {', '.join(missing)} among {plural(len(snapshots), 'snapshot')}." if missing else None


def within_bounds(decision: ExpiryDecision, bounds: ExpiryBounds) -> ExpiryDecision:
    """Leaves out what a plan does not name: since then, time has passed and others have committed."""
    refs = tuple(ref for ref in decision.refs if ref.name in bounds.refs)
    held = {ref.snapshot_id for ref in decision.refs if ref.name not in bounds.refs}  # a ref that stays needs its head
    planned = set(bounds.snapshot_ids) - held
    staying = {number: (NOT_PLANNED,) for number in decision.snapshot_ids if number not in planned}
    return replace(
        decision,
        snapshot_ids=tuple(number for number in decision.snapshot_ids if number in planned),
        refs=refs,
        retained={**decision.retained, **staying},
    )
