"""Which files a hot partition gives up: those that no commit within the window wrote or may change.

A commit tolerates writers that append, so a stream need not wait for its last file: older ones are merged, and the
fresh ones stay. Writers that change rows are another matter. A MERGE, UPDATE or DELETE of Iceberg's Java library fails
when a file that it touched is gone at its commit, and which files the next one touches cannot be told from the last. So
a partition whose existing files were changed within the window, by position deletes, deletion vectors or by rewriting
them, keeps all of its files. Equality deletes, and deletes of rows that came in the same commit, change no existing
file: streams of upserts consist of them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.rules import heat
from tidyberg.planning.strategies.base import RewriteStrategy

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def why_hot(statistics: PartitionStatistics, strategy: RewriteStrategy, now_ms: int) -> str | None:
    """None: the partition is not hot, or the strategy does not wait for hot partitions."""
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
    """Files of hot partitions that wait; `mergeable` ones are looked at for their size alone."""
    waiting = np.zeros(files.num_rows, dtype=np.bool_)
    is_hot = np.array([why_hot(each, strategy, now_ms) is not None for each in statistics], dtype=np.bool_)
    if not is_hot.any():
        return waiting
    options = strategy.options
    history = inventory.pinned.snapshots
    recent = [info for info in history.values() if info.timestamp_ms > now_ms - options.hot_window_seconds * 1000]
    partition = files.column("partition").to_numpy()
    # Outputs of a compaction wait as well, so that the next run does not take them up again [I10].
    waiting |= np.isin(files.column("snapshot_id").to_numpy(), _ids(recent))
    waiting |= _changed(files, deletes, recent, inventory)[partition]
    if options.rewrite_to_current_spec:  # a partition moves as a whole
        waiting |= files.column("spec_id").to_numpy() != inventory.pinned.default_spec_id
    waiting &= is_hot[partition]
    candidates = np.flatnonzero(mergeable & ~waiting & is_hot[partition])
    waiting[candidates[_dwarfing(partition[candidates], files.column("size").to_numpy()[candidates])]] = True
    return waiting


def were_skipped_as_hot(
    files: pa.Table, packed: Mask, last_pack_ms: Ints, history: Mapping[int, SnapshotInfo], strategy: RewriteStrategy
) -> Mask:
    """Files that were fresh in a hot partition when it was last compacted, at `last_pack_ms`: that run left them."""
    if strategy.hot_commits is None:
        return np.zeros(files.num_rows, dtype=np.bool_)
    ids, snapshot = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    never = np.iinfo(np.int64).min
    times = np.array([history[i].timestamp_ms if i in history else never for i in ids.tolist()], dtype=np.int64)
    written = times[snapshot]
    partition = files.column("partition").to_numpy().astype(np.int64)
    packed_at = last_pack_ms[partition]
    fresh_then = ~packed & (written <= packed_at) & (written > packed_at - strategy.options.hot_window_seconds * 1000)
    pairs = np.unique(partition[fresh_then] * max(len(ids), 1) + snapshot[fresh_then])
    commits = np.bincount(pairs // max(len(ids), 1), minlength=len(last_pack_ms))
    was_hot: Mask = commits >= strategy.hot_commits
    waited: Mask = fresh_then & was_hot[partition]
    return waited


def _changed(files: pa.Table, deletes: DeleteIndex, recent: Sequence[SnapshotInfo], inventory: Inventory) -> Mask:
    """Partitions of which some recent commit changed rows in files that were there before."""
    changed = np.zeros(len(inventory.partitions), dtype=np.bool_)
    rewriting = _ids([info for info in recent if _rewrites_files(info)])
    for table in (files, inventory.resting):
        changed[table.column("partition").to_numpy()[np.isin(table.column("snapshot_id").to_numpy(), rewriting)]] = True
    written_by = deletes.rows.column("snapshot_id").to_numpy()
    is_position = pc.not_equal(deletes.rows.column("kind").cast(pa.string()), "equality").to_numpy().astype(np.bool_)
    is_recent = is_position & np.isin(written_by, _ids([info for info in recent if info.operation != "replace"]))
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
    """A copy-on-write change; one whose summary does not tell how it changed rows is taken for one."""
    if info.operation not in ("overwrite", "delete"):
        return False
    return info.summary.get("deleted-data-files", "0") != "0" or "added-delete-files" not in info.summary


def _dwarfing(partition: Ints, sizes: Ints) -> Mask:
    """Files larger than all smaller ones of their partition together, largest first.

    A stream comes back with a few small files at every look. To merge them with all that was merged before would write
    the same rows again and again; so a file waits until as many bytes have gathered beside it.
    """
    dwarfs = np.zeros(len(sizes), dtype=np.bool_)
    for number in np.unique(partition).tolist():
        here = np.flatnonzero(partition == number)
        here = here[np.argsort(sizes[here], kind="stable")]
        smaller = np.cumsum(sizes[here]) - sizes[here]
        kept = np.flatnonzero(sizes[here] <= smaller)
        dwarfs[here[kept[-1] + 1 if len(kept) else 0 :]] = True
    return dwarfs


def _ids(snapshots: Sequence[SnapshotInfo]) -> Ints:
    return np.array([info.snapshot_id for info in snapshots], dtype=np.int64)
