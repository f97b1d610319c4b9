"""Attributes every file of a table to who holds it. Pure: it gets the files and which snapshots need them.

A snapshot has a level: the position of the smallest age, in a list of rising ages, at which `tidyberg expire` would
keep it. Level 0 stays whatever the age. A file has the smallest level of the snapshots that need it, so expiring by an
age frees exactly the files with a larger level. This works because a larger age never retains fewer snapshots.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.model.expiry import ExpireOptions, RefInfo
from tidyberg.model.storage_report import AgeStorage, Holder, Holding, RefStorage, StoredBytes, StoredKind
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.expiry import GC_ENABLED, MAIN, decide_expiry

_DAY_MS = 24 * 60 * 60 * 1000
USUAL_AGES_MS = (0, _DAY_MS, 5 * _DAY_MS, 30 * _DAY_MS)
UNREFERENCED = 127  # the level of a file that no snapshot and no metadata needs
OF_THE_TABLE = -1  # the level of metadata.json files
Numbers = npt.NDArray[np.int64]
_KINDS = tuple(StoredKind)


@dataclass(frozen=True)
class ExpiryLevels:
    """The ages that a report looks at, and the level of each snapshot."""

    ages_ms: tuple[int, ...]  # rising
    own_age_ms: int  # what `tidyberg expire` takes by default
    levels: Mapping[int, int]  # by snapshot id

    def expired(self, number: int) -> int:
        """Returns how many snapshots expire at the age of this number."""
        return sum(level > number for level in self.levels.values())


def expiry_levels(
    snapshots: Mapping[int, SnapshotInfo], refs: Sequence[RefInfo], properties: Mapping[str, str], now_ms: int
) -> ExpiryLevels:
    """Decides as `tidyberg expire` does. A table with gc.enabled=false is looked at as if it were true."""
    allowed = {name: value for name, value in properties.items() if name != GC_ENABLED}
    own_ms = now_ms - decide_expiry(snapshots, refs, allowed, ExpireOptions(), now_ms).cutoff_ms
    ages = tuple(sorted({*USUAL_AGES_MS, own_ms}))
    levels = dict.fromkeys(snapshots, len(ages))
    for level in reversed(range(len(ages))):
        decision = decide_expiry(snapshots, refs, allowed, ExpireOptions(older_than_ms=ages[level]), now_ms)
        levels |= dict.fromkeys(decision.retained, level)
    return ExpiryLevels(ages, own_ms, levels)


@dataclass(frozen=True)
class FilesOnDisk:
    """One position for each file that was listed."""

    sizes: Numbers
    kinds: npt.NDArray[np.int8]  # StoredKind.number
    levels: npt.NDArray[np.int8]
    needed_by: Sequence[Numbers]  # for each ref, the positions of the files that its snapshot references

    def total(self, chosen: npt.NDArray[np.bool_] | None = None) -> StoredBytes:
        sizes = self.sizes if chosen is None else self.sizes[chosen]
        return StoredBytes(len(sizes), int(sizes.sum()))


@dataclass(frozen=True)
class Attribution:
    holdings: tuple[Holding, ...]
    refs: tuple[RefStorage, ...]
    ages: tuple[AgeStorage, ...]


def attribute(
    files: FilesOnDisk, refs: Sequence[RefInfo], levels: ExpiryLevels, *, is_complete: bool = True
) -> Attribution:
    """`is_complete` is False if something could not be read, so that files may only look like orphans."""
    count = np.zeros(len(files.sizes), np.int32)  # of the refs that need each file, without main
    last = np.full(len(files.sizes), -1, np.int32)
    is_current = np.zeros(len(files.sizes), np.bool_)
    for number, (ref, needed) in enumerate(zip(refs, files.needed_by, strict=True)):
        if ref.name == MAIN:
            is_current[needed] = True
        else:
            count[needed] += 1
            last[needed] = number
    return Attribution(
        tuple(_holdings(files, refs, levels, is_current, count, last, is_complete)),
        _by_ref(files, refs, is_current, count),
        tuple(
            AgeStorage(age, age == levels.own_age_ms, levels.expired(number), files.total(_freed(files, number)))
            for number, age in enumerate(levels.ages_ms)
        ),
    )


def _freed(files: FilesOnDisk, number: int) -> npt.NDArray[np.bool_]:
    chosen: npt.NDArray[np.bool_] = (files.levels > number) & (files.levels != UNREFERENCED)
    return chosen


def _holdings(
    files: FilesOnDisk,
    refs: Sequence[RefInfo],
    levels: ExpiryLevels,
    is_current: npt.NDArray[np.bool_],
    count: npt.NDArray[np.int32],
    last: npt.NDArray[np.int32],
    is_complete: bool,
) -> list[Holding]:
    """Numbers every holder, and adds the sizes up by holder and kind."""
    history = len(refs) + 2  # then one number for each level
    table, nobody = history + len(levels.ages_ms) + 1, history + len(levels.ages_ms) + 2
    holder = history + np.maximum(files.levels, 0).astype(np.int64)
    holder[files.levels == OF_THE_TABLE] = table
    holder[files.levels == UNREFERENCED] = nobody
    holder[count > 1] = 1
    one = count == 1
    holder[one] = 2 + last[one]
    holder[is_current] = 0
    combined = holder * len(_KINDS) + files.kinds
    numbers = np.bincount(combined, minlength=(nobody + 1) * len(_KINDS))
    sums: Counter[int] = Counter()
    for position in np.flatnonzero(numbers).tolist():
        sums[position] = int(files.sizes[combined == position].sum())  # bincount's weights are floats
    found = []
    for position in np.flatnonzero(numbers).tolist():
        who, kind = divmod(position, len(_KINDS))
        stored = StoredBytes(int(numbers[position]), sums[position])
        if who == 0:
            found.append(Holding(Holder.CURRENT, _KINDS[kind], stored, f"branch {MAIN}"))
        elif who == 1:
            found.append(Holding(Holder.SEVERAL_REFS, _KINDS[kind], stored))
        elif who < history:
            found.append(Holding(Holder.REF, _KINDS[kind], stored, str(refs[who - 2])))
        elif who < table:
            # Level 0 stays at every age. Level n is freed by the age before its own.
            level = who - history
            freed_at = levels.ages_ms[level - 1] if level else None
            found.append(Holding(Holder.HISTORY, _KINDS[kind], stored, expires_at_ms=freed_at))
        elif who == table:
            found.append(Holding(Holder.TABLE, _KINDS[kind], stored))
        else:
            found.append(Holding(Holder.ORPHAN if is_complete else Holder.UNKNOWN, _KINDS[kind], stored))
    return found


def _by_ref(
    files: FilesOnDisk,
    refs: Sequence[RefInfo],
    is_current: npt.NDArray[np.bool_],
    count: npt.NDArray[np.int32],
) -> tuple[RefStorage, ...]:
    holders = count + is_current
    found = []
    for ref, needed in zip(refs, files.needed_by, strict=True):
        sizes = files.sizes[needed]
        only = sizes[holders[needed] == 1]
        total = StoredBytes(len(sizes), int(sizes.sum()))
        found.append((ref, RefStorage(str(ref), ref.snapshot_id, total, StoredBytes(len(only), int(only.sum())))))
    found.sort(key=lambda pair: (pair[0].name != MAIN, -pair[1].only.bytes, pair[0].name))
    return tuple(storage for _, storage in found)
