"""Divides a table's bytes into the slices that the terminal and the SVG picture show. Each byte is in one slice."""

from dataclasses import dataclass

from tidyberg.model.durations import NEVER_MS
from tidyberg.model.storage_report import Holder, StorageReport, StoredBytes, StoredKind

_DELETES = (StoredKind.POSITION_DELETES, StoredKind.EQUALITY_DELETES)
_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_NOBODY = (Holder.ORPHAN, Holder.UNKNOWN)
METADATA_KINDS = tuple(kind for kind in StoredKind if kind.is_metadata)
MOST_REFS = 10


@dataclass(frozen=True)
class StorageSlice:
    label: str
    stored: StoredBytes
    style: str  # of Rich
    colour: str  # of SVG


def slices_of(report: StorageReport) -> list[StorageSlice]:
    current = (Holder.CURRENT,)
    refs = report.held(Holder.REF, Holder.SEVERAL_REFS, metadata=False)
    nobody = report.of_kind(*StoredKind, holders=(Holder.ORPHAN, Holder.UNKNOWN))
    metadata = report.of_kind(*METADATA_KINDS, holders=tuple(one for one in Holder if one not in _NOBODY))
    other = report.of_kind(StoredKind.OTHER, holders=(Holder.TABLE,))
    is_known = not report.unreadable
    return [
        StorageSlice("live data", report.of_kind(StoredKind.DATA, holders=current), "green", "#2da44e"),
        StorageSlice("live delete files", report.of_kind(*_DELETES, holders=current), "yellow", "#e0a100"),
        StorageSlice("other branches and tags", refs, "magenta", "#a371f7"),
        StorageSlice("old snapshots", report.held(Holder.HISTORY, metadata=False), "blue", "#1f6feb"),
        StorageSlice("metadata", metadata + other, "cyan", "#1b9aaa"),
        StorageSlice("orphans" if is_known else "orphans or unknown", nobody, "red", "#d1495b"),
    ]


def age(milliseconds: int) -> str:
    """Formats an age as flags take it, such as 5d."""
    size, unit = next((one for one in _UNITS if milliseconds and milliseconds % one[0] == 0), _UNITS[-1])
    return f"{milliseconds / size:g} {unit}" if milliseconds else "0 d"


def age_label(milliseconds: int, *, is_own: bool) -> str:
    words = f"older than {age(milliseconds)}" if milliseconds > 0 else "all but what branches and tags keep"
    if milliseconds >= NEVER_MS:
        words = "never"
    return f"{words} (the table's setting)" if is_own else words
