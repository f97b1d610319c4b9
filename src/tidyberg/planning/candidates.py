"""Which files of a snapshot a strategy wants to rewrite, decided for all files at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.burden import Burden, burden_of
from tidyberg.planning.cold import held_files as held_files
from tidyberg.planning.cold import may_have_waited
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.safety import Hazard, columns_of_optional_structs, hazards_of
from tidyberg.planning.strategies.base import RewriteStrategy

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """The data files by partition, sequence number and path [I11], with what the strategy makes of each."""

    files: pa.Table
    resting: pa.Table  # as in the inventory: further files, none of which is wanted
    sizes: npt.NDArray[np.int64]
    row_groups: npt.NDArray[np.int64]  # one where nothing tells
    starts: npt.NDArray[np.int64]  # of partition p the files [starts[p], starts[p + 1])
    hazards: npt.NDArray[np.int8]
    deletes: DeleteIndex
    burden: Burden
    rows_deleted: npt.NDArray[np.int64]  # as far as the inventory tells
    expected_sizes: npt.NDArray[np.float64]  # without the rows known to be deleted
    for_size: Mask  # to be merged with others
    oversized: Mask  # to be split on its own
    for_deletes: Mask  # to be rid of its deletes, of any size and alone too
    moved: Mask  # of an older partition spec, to be sorted into the current one whatever its size
    settled: Mask  # of the wrong size, but an output of the last compaction and nothing was written since
    held: Mask  # of a hot partition, which keeps it until it cools

    @property
    def wanted(self) -> Mask:
        """What the strategy looks for."""
        return self.for_size | self.oversized | self.for_deletes | self.moved

    def per_partition(self, mask: Mask) -> npt.NDArray[np.int64]:
        """How many files of each partition the mask holds."""
        before = np.concatenate(([0], np.cumsum(mask)))
        counts: npt.NDArray[np.int64] = before[self.starts[1:]] - before[self.starts[:-1]]
        return counts


def find_candidates(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    strategy: RewriteStrategy,
    now_ms: int,
) -> Candidates:
    options = strategy.options
    data_files = inventory.data_files
    files = data_files.take(
        pc.sort_indices(
            data_files.select(["partition", "sequence_number", "path"]),
            sort_keys=[("partition", "ascending"), ("sequence_number", "ascending"), ("path", "ascending")],
        )
    )
    file_sizes = files.column("size").to_numpy()
    records = files.column("records").to_numpy()
    starts = np.searchsorted(files.column("partition").to_numpy(), np.arange(len(inventory.partitions) + 1))
    for_size = file_sizes < strategy.merge_below
    deletes = DeleteIndex(files, inventory.delete_files)
    hazards = hazards_of(
        files,
        deletes.touched(deletes.unreadable()),
        deletes.touched(deletes.keyed_by(columns_of_optional_structs(inventory.pinned))),
    )
    safe = hazards == Hazard.NONE
    mergeable = for_size & safe & ~deletes.touched()
    held = held_files(files, deletes, mergeable, inventory, statistics, strategy, now_ms)
    merged = _merged(for_size & ~held, starts, strategy.min_files_to_merge)
    burden = burden_of(files, deletes, statistics, options.max_delete_ratio, merged, inventory.resting)
    for_deletes = strategy.select_for_deletes(deletes.touched(), burden.too_heavy[files.column("partition").to_numpy()])
    rows_deleted = deletes.rows_known_deleted()
    moved = (files.column("spec_id").to_numpy() != inventory.pinned.default_spec_id) & options.rewrite_to_current_spec
    settled = _settled(files, (for_size | for_deletes) & ~held, safe, inventory, strategy) & (not options.force)
    return Candidates(
        files=files,
        resting=inventory.resting,
        sizes=file_sizes,
        row_groups=files.column("row_groups").fill_null(1).to_numpy(),
        starts=starts,
        hazards=hazards,
        deletes=deletes,
        burden=burden,
        rows_deleted=rows_deleted,
        expected_sizes=file_sizes * (1 - rows_deleted / np.maximum(1, records)),
        for_size=for_size,
        oversized=file_sizes > (np.inf if strategy.split_above is None else strategy.split_above),
        for_deletes=for_deletes,
        moved=moved,
        # An output is free of the deletes that were applied to its inputs: those it has now came later.
        settled=settled & ~for_deletes & ~moved,
        held=held,
    )


def _merged(for_size: Mask, starts: npt.NDArray[np.int64], enough_files: int) -> Mask:
    """Files that the plan may merge for their size: there are enough of them in their partition."""
    before = np.concatenate(([0], np.cumsum(for_size)))
    enough = before[starts[1:]] - before[starts[:-1]] >= enough_files
    merged: Mask = for_size & np.repeat(enough, np.diff(starts))
    return merged


def _settled(files: pa.Table, wanted: Mask, safe: Mask, inventory: Inventory, strategy: RewriteStrategy) -> Mask:
    """Outputs of compactions in partitions that got no wanted file since their last compaction.

    Compression may leave outputs smaller than planned. If the next run packed them again without a new file beside
    them, every second run would find work [I10]. Files that were too fresh for the last compaction are new too.

    A strategy may not accept the last compaction. Then its outputs are files like all others.
    """
    history = inventory.pinned.snapshots
    order, packed = _origins(files, history)
    if not packed.any():
        return packed
    partition = files.column("partition").to_numpy()
    partitions = len(inventory.partitions)
    last_packed = np.full(partitions, -1, dtype=np.int64)
    np.maximum.at(last_packed, partition[packed], order[packed])
    resting_order, resting_packed = _origins(inventory.resting, history)
    resting_partition = inventory.resting.column("partition").to_numpy()
    np.maximum.at(last_packed, resting_partition[resting_packed], resting_order[resting_packed])
    by_age = sorted(history.values(), key=_age)
    times = np.array([info.timestamp_ms for info in by_age], dtype=np.int64)
    last_pack_ms = np.where(last_packed < 0, 0, times[last_packed])
    waited = safe & may_have_waited(files, packed, last_pack_ms, history, strategy)
    news = wanted & ~packed & ((order > last_packed[partition]) | waited)
    if strategy.is_exhaustive:
        news |= wanted & ~packed & _came_meanwhile(files, packed & (order == last_packed[partition]), partitions)
    accepted = np.array([strategy.accepts_compaction(info) for info in by_age], dtype=np.bool_)
    quiet = (last_packed >= 0) & accepted[last_packed]
    quiet[partition[news]] = False
    settled: Mask = packed & quiet[partition]
    return settled


def _came_meanwhile(files: pa.Table, outputs: Mask, partitions: int) -> Mask:
    """Files that were committed while the compaction that wrote `outputs` was running.

    Outputs carry the sequence number of the snapshot that their compaction started from [I3].
    """
    partition, sequence = files.column("partition").to_numpy(), files.column("sequence_number").to_numpy()
    unknown = np.iinfo(np.int64).max
    started = np.full(partitions, -1, dtype=np.int64)
    np.maximum.at(started, partition[outputs], sequence[outputs])
    later: Mask = sequence > np.where(started < 0, unknown, started)[partition]
    return later


def _origins(files: pa.Table, snapshots: Mapping[int, SnapshotInfo]) -> tuple[npt.NDArray[np.int64], Mask]:
    """Of each file which snapshot added it, counted from the oldest (-1: expired), and whether it was a compaction."""
    snapshot_ids, snapshot = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    history = sorted(snapshots.values(), key=_age)
    age = {info.snapshot_id: number for number, info in enumerate(history)}
    ids = snapshot_ids.tolist()
    order = np.array([age.get(snapshot_id, -1) for snapshot_id in ids], dtype=np.int64)[snapshot]
    replaced = {info.snapshot_id for info in history if info.operation == "replace"}
    packed: Mask = np.array([snapshot_id in replaced for snapshot_id in ids], dtype=np.bool_)[snapshot]
    return order, packed


def _age(info: SnapshotInfo) -> tuple[int, int, int]:
    return info.sequence_number, info.timestamp_ms, info.snapshot_id
