"""Estimates from snapshot summaries how many small files a table has. It reads no manifest and no file.

A summary says how many files a commit added, and how many bytes. If the average is below the threshold, all of them
count as small. The walk ends at the newest commit that was not an append, because it may have removed files. What the
table had then counts as small if its average size is below the threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Operation, Snapshot

from tidyberg.model.sizes import MB
from tidyberg.settings.operations import IcebergCompaction

_MOST_SNAPSHOTS = 10_000


@dataclass(frozen=True, slots=True)
class OpportunisticCheck:
    """`small_files` is None if this write did not check."""

    recommended: bool = False
    small_files: int | None = None


def check_after_write(metadata: TableMetadata, settings: IcebergCompaction) -> OpportunisticCheck:
    """Checks if the write was one in every `opportunistic_check_interval` commits."""
    if not settings.enabled or commit_number(metadata) % settings.opportunistic_check_interval:
        return OpportunisticCheck()
    small = estimated_small_files(metadata, int(settings.small_file_threshold_mb * MB))
    return OpportunisticCheck(small >= settings.min_files_to_compact, small)


def commit_number(metadata: TableMetadata) -> int:
    """Counts commits. The sequence number does not shrink when snapshots expire; format version 1 has none."""
    return len(metadata.snapshot_log) if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def estimated_small_files(metadata: TableMetadata, threshold: int) -> int:
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    current = by_id.get(metadata.current_snapshot_id) if metadata.current_snapshot_id is not None else None
    small = 0
    for _ in range(_MOST_SNAPSHOTS):
        if current is None:
            break
        parent = by_id.get(current.parent_snapshot_id) if current.parent_snapshot_id is not None else None
        is_expired = parent is None and current.parent_snapshot_id is not None
        if is_expired or current.summary is None or current.summary.operation is not Operation.APPEND:
            return small + _small(current, "total-data-files", "total-files-size", threshold)
        small += _small(current, "added-data-files", "added-files-size", threshold)
        current = parent
    return small


def _small(snapshot: Snapshot, files: str, size: str, threshold: int) -> int:
    summary: Mapping[str, str] = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    count, total = _number(summary, files), _number(summary, size)
    return count if count and total < threshold * count else 0


def _number(summary: Mapping[str, str], name: str) -> int:
    text = summary.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0
