"""Defines when a partition is hot, which of its files then wait, and which it gives up although it is hot.

Commits tolerate writers that append. A partition that is only appended to gives up its older files, and the files of
the hot window wait.

Commits do not tolerate writers that change rows. A MERGE, UPDATE or DELETE of Iceberg's Java library fails if a file
that it touched is gone when it commits, and nobody knows which files the next one will touch. So a partition keeps all
of its files if existing files were changed within the window: by position deletes, by deletion vectors or by rewriting
them. Equality deletes change no existing file, nor do deletes of rows that were added by the same commit. Streams of
upserts consist of both.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.table import SnapshotInfo
from tidyberg.model.words import plural
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.strategies.base import RewriteStrategy

_DAY_SECONDS = 86_400

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def heat(statistics: PartitionStatistics, *, now_ms: int, window_seconds: int, commits: int) -> str | None:
    """Returns why a partition is hot, or None. It is hot if it got at least `commits` commits within the window."""
    written = statistics.last_write_ms
    if written is None or written <= now_ms - window_seconds * 1000:
        return None
    if statistics.recent_commits < commits:
        return None
    count = statistics.recent_commits
    cools = datetime.fromtimestamp((written + window_seconds * 1000) / 1000, UTC)
    day = "" if window_seconds < _DAY_SECONDS else f"{cools:%Y-%m-%d} "
    return f"{plural(count, 'commit')} in the last {window_words(window_seconds)}, cools {day}{cools:%H:%M} UTC"


def window_words(seconds: int) -> str:
    for size, name in ((_DAY_SECONDS, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def why_hot(statistics: PartitionStatistics, strategy: RewriteStrategy, now_ms: int) -> str | None:
    """Returns the reason, or None if the partition is not hot or the strategy does not wait for hot partitions."""
    if strategy.hot_commits is None:
        return None
    return heat(
        statistics,
        now_ms=now_ms,
        window_seconds=strategy.options.hot_window_seconds,
        commits=strategy.hot_commits,
    )


def waiting_files(
    files: pa.Table,
    deletes: DeleteIndex,
    mergeable: Mask,
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    strategy: RewriteStrategy,
    now_ms: int,
) -> Mask:
    """Returns the files of hot partitions that wait. `mergeable` marks files that are wanted only for their size."""
    waiting = np.zeros(files.num_rows, dtype=np.bool_)
    is_hot = np.array([why_hot(each, strategy, now_ms) is not None for each in statistics], dtype=np.bool_)
    if not is_hot.any():
        return waiting
    options = strategy.options
    history = inventory.pinned.snapshots
    recent = [info for info in history.values() if info.timestamp_ms > now_ms - options.hot_window_seconds * 1000]
    partition = files.column("partition").to_numpy()
    # Outputs of a compaction wait too. Otherwise the next run would take them again [I10].
    waiting |= np.isin(files.column("snapshot_id").to_numpy(), _ids(recent))
    waiting |= _partitions_with_changed_rows(files, deletes, recent, inventory)[partition]
    if options.rewrite_to_current_spec:  # a partition moves as a whole or not at all
        waiting |= files.column("spec_id").to_numpy() != inventory.pinned.default_spec_id
    waiting &= is_hot[partition]
    candidates = np.flatnonzero(mergeable & ~waiting & is_hot[partition])
    sizes = files.column("size").to_numpy()[candidates]
    waiting[candidates[_larger_than_the_rest(partition[candidates], sizes)]] = True
    return waiting


def were_skipped_as_hot(
    files: pa.Table,
    outputs: Mask,
    last_compaction_ms: Ints,
    history: Mapping[int, SnapshotInfo],
    strategy: RewriteStrategy,
) -> Mask:
    """Returns the files that the last compaction of their partition left, because the partition was hot at the time.

    `last_compaction_ms` has the time of the last compaction of each partition. `outputs` marks outputs of compactions.
    """
    if strategy.hot_commits is None:
        return np.zeros(files.num_rows, dtype=np.bool_)
    ids, snapshot = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    never = np.iinfo(np.int64).min
    times = np.array([history[i].timestamp_ms if i in history else never for i in ids.tolist()], dtype=np.int64)
    written = times[snapshot]
    partition = files.column("partition").to_numpy().astype(np.int64)
    compacted_at = last_compaction_ms[partition]
    fresh_then = (
        ~outputs & (written <= compacted_at) & (written > compacted_at - strategy.options.hot_window_seconds * 1000)
    )
    pairs = np.unique(partition[fresh_then] * max(len(ids), 1) + snapshot[fresh_then])
    commits = np.bincount(pairs // max(len(ids), 1), minlength=len(last_compaction_ms))
    was_hot: Mask = commits >= strategy.hot_commits
    waited: Mask = fresh_then & was_hot[partition]
    return waited


def _partitions_with_changed_rows(
    files: pa.Table, deletes: DeleteIndex, recent: Sequence[SnapshotInfo], inventory: Inventory
) -> Mask:
    """Returns the partitions in which a recent commit changed rows of files that existed before it."""
    changed = np.zeros(len(inventory.partitions), dtype=np.bool_)
    rewriting = _ids([info for info in recent if _rewrites_files(info)])
    for table in (files, inventory.counted_files):
        changed[table.column("partition").to_numpy()[np.isin(table.column("snapshot_id").to_numpy(), rewriting)]] = True
    written_by = deletes.rows.column("snapshot_id").to_numpy()
    is_position = pc.not_equal(deletes.rows.column("kind").cast(pa.string()), "equality").to_numpy().astype(np.bool_)
    is_recent = is_position & np.isin(written_by, _ids([info for info in recent if not info.is_compaction]))
    if not is_recent.any():
        return changed
    partition, snapshot = (files.column(name).to_numpy() for name in ("partition", "snapshot_id"))
    named, naming = deletes.named_pairs()
    changed[partition[named[is_recent[naming] & (snapshot[named] != written_by[naming])]]] = True
    unnamed = is_recent.copy()
    unnamed[deletes.names_file] = False
    changed[partition[deletes.touched(unnamed)]] = True
    return changed


def _rewrites_files(info: SnapshotInfo) -> bool:
    """Returns True for a copy-on-write change, and for a change whose summary does not say how it was made."""
    if info.is_compaction or info.operation not in ("overwrite", "delete"):
        return False
    return info.summary.get("deleted-data-files", "0") != "0" or "added-delete-files" not in info.summary


def _larger_than_the_rest(partition: Ints, sizes: Ints) -> Mask:
    """Returns the files that are larger than all smaller files of their partition together, from the largest down.

    A stream adds a few small files between two runs. Merging them with everything that was merged before would write
    the same rows again and again. So a large file waits until as many bytes have gathered beside it.
    """
    waits = np.zeros(len(sizes), dtype=np.bool_)
    for number in np.unique(partition).tolist():
        here = np.flatnonzero(partition == number)
        here = here[np.argsort(sizes[here], kind="stable")]
        smaller = np.cumsum(sizes[here]) - sizes[here]
        kept = np.flatnonzero(sizes[here] <= smaller)
        waits[here[kept[-1] + 1 if len(kept) else 0 :]] = True
    return waits


def _ids(snapshots: Sequence[SnapshotInfo]) -> Ints:
    return np.array([info.snapshot_id for info in snapshots], dtype=np.int64)
