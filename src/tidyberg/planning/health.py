"""Scores the health of a table from 0 to 100, with a reason for every point lost.

A rewrite of data files can win back these points:
- 35 for small files,
- 35 for more files than the bytes need,
- 10 for partitions with too many files,
- 20 for delete files.

It cannot win back these:
- 10 for snapshots: none are lost up to 100 snapshots, all at 1,000,
- 5 for manifests, by the same numbers,
- 5 for the size of metadata.json: none are lost up to 1 MB, all at 10 MB,
- 5 for dead bytes in excess of the live ones, from 100 MB on,
- 2 if a table with 100 snapshots keeps every metadata.json that it ever had.

The first three grow with the share of files concerned and, up to 1,000 files, with the logarithm of their number. Ten
small files are a blemish, ten thousand are a problem. A partition that needs all of its files loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.options import PlanOptions
from tidyberg.model.report import Health
from tidyberg.model.sizes import MB, format_size
from tidyberg.model.words import are, plural, plural_was
from tidyberg.planning.file_sizes import MIN_FILE_RATIO
from tidyberg.planning.hot_partitions import window_words
from tidyberg.planning.overhead import TableOverhead
from tidyberg.planning.rules import fragment_ratio

SMALL_POINTS, SURPLUS_POINTS, CROWDED_POINTS, DELETE_POINTS = 35, 35, 10, 20
FILES_FOR_FULL_WEIGHT = 1_000
SNAPSHOT_POINTS, MANIFEST_POINTS, DEAD_POINTS, METADATA_POINTS, OLD_METADATA_POINTS = 10, 5, 5, 5, 2
MANY = 100  # snapshots or manifests
LARGE_METADATA = MB
DEAD_BYTES = 100 * MB  # a table with fewer loses no points for them

KEEP_METADATA = "`tidyberg metadata-files TABLE --keep 100` changes that"


@dataclass(frozen=True, slots=True)
class _Loss:
    points: float
    reason: str


def assess(
    statistics: Sequence[PartitionStatistics],
    options: PlanOptions,
    target_file_size: int,
    now_ms: int,
    overhead: TableOverhead | None = None,
) -> Health:
    """Scores a table. The reasons mention untidy partitions that were written shortly before `now_ms`."""
    files = sum(s.files for s in statistics)
    if files == 0:
        return Health(100, ())
    minimum = options.min_file_size or max(1, int(target_file_size * MIN_FILE_RATIO))
    untidy = [(s, s.files - max(1, ceil(s.bytes / minimum))) for s in statistics]
    untidy = [(s, surplus) for s, surplus in untidy if surplus > 0]
    surplus = sum(extra for _, extra in untidy)
    small = sum(s.small_files for s, _ in untidy)
    crowded = [s for s, _ in untidy if s.files > options.max_file_count_per_partition]
    losses = [
        _Loss(
            SMALL_POINTS * _weight(small, files),
            f"{small:,} of {plural(files, 'file')} {are(small)} below {format_size(options.small_file_threshold)}",
        ),
        _Loss(
            SURPLUS_POINTS * _weight(surplus, files),
            f"{plural(surplus, 'file')} more than {format_size(sum(s.bytes for s in statistics))} need "
            f"at a target of {format_size(target_file_size)}",
        ),
        _Loss(
            CROWDED_POINTS * _weight(sum(s.files for s in crowded), files),
            f"{len(crowded):,} of {plural(len(statistics), 'partition')} {'holds' if len(crowded) == 1 else 'hold'} "
            f"more than {plural(options.max_file_count_per_partition, 'file')}, the fullest "
            f"{max((s.files for s in crowded), default=0):,}",
        ),
        _delete_loss(statistics, files),
        *(_overhead_losses(overhead, sum(s.bytes for s in statistics)) if overhead is not None else ()),
    ]
    lost = [loss for loss in losses if loss.points > 0]
    # A table with any loss is not perfect, however small the loss is.
    score = max(0, min(100 - sum(loss.points for loss in lost), 99 if lost else 100))
    reasons = [f"-{max(1, round(loss.points))}: {loss.reason}" for loss in lost]
    window = options.hot_window_seconds
    hot_since = now_ms - window * 1000
    hot = sum(1 for s, _ in untidy if s.last_write_ms is not None and s.last_write_ms > hot_since)
    if hot:
        reasons.append(f"{plural_was(hot, 'untidy partition')} written in the last {window_words(window)}")
    return Health(round(score), tuple(reasons))


def _delete_loss(statistics: Sequence[PartitionStatistics], files: int) -> _Loss:
    delete_files = sum(s.delete_files for s in statistics)
    rows = sum(s.deleted_rows for s in statistics)
    share = max(fragment_ratio(files, delete_files), rows / max(1, sum(s.records for s in statistics)))
    return _Loss(
        DELETE_POINTS * min(1.0, share),
        f"{plural(delete_files, 'delete file')} with up to {plural(rows, 'deleted row')} {are(delete_files)} applied "
        "on every read",
    )


def _overhead_losses(overhead: TableOverhead, live_bytes: int) -> list[_Loss]:
    dead, metadata = overhead.dead_bytes, overhead.metadata_bytes or 0
    beyond = (dead - live_bytes) / max(1, live_bytes) if dead >= DEAD_BYTES else 0.0
    keeps_metadata = not overhead.deletes_old_metadata and overhead.snapshots >= MANY
    return [
        _Loss(
            SNAPSHOT_POINTS * _many(overhead.snapshots), f"{overhead.snapshots:,} snapshots are kept: expire old ones"
        ),
        _Loss(MANIFEST_POINTS * _many(overhead.manifests), f"{overhead.manifests:,} manifests are read for every plan"),
        _Loss(
            DEAD_POINTS * min(1.0, max(0.0, beyond)),
            f"{format_size(dead)} are kept for older snapshots beside {format_size(live_bytes)} that are live",
        ),
        _Loss(
            METADATA_POINTS * _many(metadata, LARGE_METADATA),
            f"metadata.json has {format_size(metadata)}, which every commit writes and every reader reads: "
            "expire old snapshots",
        ),
        _Loss(OLD_METADATA_POINTS * keeps_metadata, f"old metadata files are never removed: {KEEP_METADATA}"),
    ]


def _many(count: int, many: int = MANY) -> float:
    """Returns 0 up to `many`, 1 from ten times as many on, and the logarithm in between."""
    return min(1.0, max(0.0, log10(max(1, count) / many)))


def _weight(count: int, files: int) -> float:
    return count / files * min(1.0, log10(1 + count) / log10(FILES_FOR_FULL_WEIGHT))
