"""Finds the files of a snapshot that a strategy wants to rewrite, for all partitions at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.planning.compacted_files import already_compacted
from tidyberg.planning.delete_ratios import DeleteRatios, delete_ratios_of
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.hot_partitions import waiting_files as waiting_files
from tidyberg.planning.safety import Hazard, columns_for_keys, columns_of_optional_structs, hazards_of
from tidyberg.planning.strategies.base import RewriteStrategy

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """The data files in the order of partition, sequence number and path [I11], and what the strategy wants of them.

    Arrays and masks have one entry per file.
    """

    files: pa.Table
    unchanged: pa.Table  # `Inventory.counted_files`: counts of further files, none of which any plan can take
    sizes: npt.NDArray[np.int64]
    row_groups: npt.NDArray[np.int64]  # 1 if the manifest does not say
    starts: npt.NDArray[np.int64]  # the files of partition p are [starts[p], starts[p + 1])
    hazards: npt.NDArray[np.int8]
    deletes: DeleteIndex
    delete_ratios: DeleteRatios
    rows_deleted: npt.NDArray[np.int64]  # as far as the inventory knows
    expected_sizes: npt.NDArray[np.float64]  # without the rows that are known to be deleted
    for_size: Mask  # merge it with others
    oversized: Mask  # split it
    for_deletes: Mask  # rewrite it to apply its deletes, whatever its size and even alone
    moved: Mask  # move it from an older partition spec to the current one, whatever its size
    compacted: Mask  # an output of the last compaction, and nothing new came beside it
    waiting: Mask  # its partition is hot and keeps the file for now
    key_bounds: pa.Table | None = None  # of the columns of a sort key, if the inventory has them

    @property
    def wanted(self) -> Mask:
        return self.for_size | self.oversized | self.for_deletes | self.moved

    def per_partition(self, mask: Mask) -> npt.NDArray[np.int64]:
        """Counts the files of each partition that are in the mask."""
        before = np.concatenate(([0], np.cumsum(mask)))
        counts: npt.NDArray[np.int64] = before[self.starts[1:]] - before[self.starts[:-1]]
        return counts


def find_candidates(
    inventory: Inventory, statistics: Sequence[PartitionStatistics], strategy: RewriteStrategy, now_ms: int
) -> Candidates:
    options = strategy.options
    data_files = inventory.data_files
    order = pc.sort_indices(
        data_files.select(["partition", "sequence_number", "path"]),
        sort_keys=[("partition", "ascending"), ("sequence_number", "ascending"), ("path", "ascending")],
    )
    files = data_files.take(order)
    sizes, records, partition = (files.column(name).to_numpy() for name in ("size", "records", "partition"))
    starts = np.searchsorted(partition, np.arange(len(inventory.partitions) + 1))
    for_size = sizes < strategy.merge_below
    deletes = DeleteIndex(files, inventory.delete_files)
    hazards = hazards_of(
        files,
        deletes.touched(deletes.unreadable()),
        deletes.touched(deletes.keyed_by(columns_of_optional_structs(inventory.pinned))),
        deletes.touched(deletes.keyed_by_others_than(columns_for_keys(inventory.pinned))),
    )
    safe = hazards == Hazard.NONE
    mergeable = for_size & safe & ~deletes.touched()
    waiting = waiting_files(files, deletes, mergeable, inventory, statistics, strategy, now_ms)
    merged = _merged(for_size & ~waiting, starts, strategy.min_files_to_merge)
    compactions = [info.snapshot_id for info in inventory.pinned.snapshots.values() if info.is_compaction]
    ratios = delete_ratios_of(
        files,
        deletes,
        statistics,
        options.max_delete_ratio,
        merged,
        inventory.counted_files,
        compactions if strategy.may_keep_data else None,
    )
    for_deletes = strategy.select_for_deletes(deletes.touched(), ratios.above_limit[partition])
    rows_deleted = deletes.rows_known_deleted()
    moved = (files.column("spec_id").to_numpy() != inventory.pinned.default_spec_id) & options.rewrite_to_current_spec
    compacted = np.zeros_like(safe)
    if not options.force:
        compacted = already_compacted(files, (for_size | for_deletes) & ~waiting, safe, inventory, strategy)
    return Candidates(
        files=files,
        unchanged=inventory.counted_files,
        sizes=sizes,
        row_groups=files.column("row_groups").fill_null(1).to_numpy(),
        starts=starts,
        hazards=hazards,
        deletes=deletes,
        delete_ratios=ratios,
        rows_deleted=rows_deleted,
        expected_sizes=sizes * (1 - rows_deleted / np.maximum(1, records)),
        for_size=for_size,
        oversized=sizes > (np.inf if strategy.split_above is None else strategy.split_above),
        for_deletes=for_deletes,
        moved=moved,
        # The deletes of an output's inputs have been applied to it. Deletes that it has now came later.
        compacted=compacted & ~for_deletes & ~moved,
        waiting=waiting,
        key_bounds=None if inventory.key_bounds is None else inventory.key_bounds.take(order),
    )


def _merged(for_size: Mask, starts: npt.NDArray[np.int64], enough_files: int) -> Mask:
    """Returns the files that the plan may merge: their partition has enough of them."""
    before = np.concatenate(([0], np.cumsum(for_size)))
    enough = before[starts[1:]] - before[starts[:-1]] >= enough_files
    merged: Mask = for_size & np.repeat(enough, np.diff(starts))
    return merged
