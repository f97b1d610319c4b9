"""Finds the outputs of the last compaction that stay as they are, because nothing new came beside them.

Compression may leave outputs smaller than planned. If the next run packed them again without a new file beside them,
every second run would find work [I10].
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.inventory import Inventory
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.hot_partitions import were_skipped_as_hot
from tidyberg.planning.strategies.base import RewriteStrategy

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def already_compacted(
    files: pa.Table, wanted: Mask, safe: Mask, inventory: Inventory, strategy: RewriteStrategy
) -> Mask:
    """Returns the outputs in partitions that got no wanted file since their last compaction.

    A file that was too fresh for the last compaction counts as new. If the strategy does not accept the last
    compaction of a partition, its outputs are files like all others.
    """
    history = inventory.pinned.snapshots
    order, is_output = _origins(files, history)
    if not is_output.any():
        return is_output
    partition = files.column("partition").to_numpy()
    partitions = len(inventory.partitions)
    last = np.full(partitions, -1, dtype=np.int64)  # the last compaction of each partition, by its place in history
    np.maximum.at(last, partition[is_output], order[is_output])
    unchanged_order, unchanged_is_output = _origins(inventory.counted_files, history)
    unchanged_partition = inventory.counted_files.column("partition").to_numpy()
    np.maximum.at(last, unchanged_partition[unchanged_is_output], unchanged_order[unchanged_is_output])
    by_age = sorted(history.values(), key=_age)
    times = np.array([info.timestamp_ms for info in by_age], dtype=np.int64)
    last_ms = np.where(last < 0, 0, times[last])
    is_new = (order > last[partition]) | (safe & were_skipped_as_hot(files, is_output, last_ms, history, strategy))
    if strategy.is_exhaustive:
        is_new |= _committed_meanwhile(files, is_output & (order == last[partition]), partitions)
    accepted = np.array([strategy.accepts_compaction(info) for info in by_age], dtype=np.bool_)
    stays = (last >= 0) & accepted[last]
    stays[partition[wanted & ~is_output & is_new]] = False
    compacted: Mask = is_output & stays[partition]
    return compacted


def _committed_meanwhile(files: pa.Table, outputs: Mask, partitions: int) -> Mask:
    """Returns the files that were committed while the compaction that wrote `outputs` was running.

    Outputs carry the sequence number of the snapshot that their compaction started from [I3].
    """
    partition, sequence = files.column("partition").to_numpy(), files.column("sequence_number").to_numpy()
    started = np.full(partitions, -1, dtype=np.int64)
    np.maximum.at(started, partition[outputs], sequence[outputs])
    later: Mask = (started[partition] >= 0) & (sequence > started[partition])
    return later


def _origins(files: pa.Table, snapshots: Mapping[int, SnapshotInfo]) -> tuple[Ints, Mask]:
    """Returns the place in history of the snapshot that added each file, and whether it was a compaction.

    The oldest snapshot has place 0, an expired one -1.
    """
    snapshot_ids, snapshot = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    history = sorted(snapshots.values(), key=_age)
    place = {info.snapshot_id: number for number, info in enumerate(history)}
    ids = snapshot_ids.tolist()
    order = np.array([place.get(snapshot_id, -1) for snapshot_id in ids], dtype=np.int64)[snapshot]
    replaced = {info.snapshot_id for info in history if info.is_compaction}
    is_output: Mask = np.array([snapshot_id in replaced for snapshot_id in ids], dtype=np.bool_)[snapshot]
    return order, is_output


def _age(info: SnapshotInfo) -> tuple[int, int, int]:
    return info.sequence_number, info.timestamp_ms, info.snapshot_id
