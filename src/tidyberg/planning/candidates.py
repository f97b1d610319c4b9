"""Which files of a snapshot a strategy wants to rewrite, decided for all files at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.bounds import FileSizes
from tidyberg.planning.safety import files_with_deletes, hazards_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """The data files by partition, sequence number and path [I11], with what the strategy makes of each."""

    files: pa.Table
    sizes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]  # of partition p the files [starts[p], starts[p + 1])
    hazards: npt.NDArray[np.int8]
    deleted: Mask  # has deletes that apply
    wanted: Mask  # what the strategy looks for
    settled: Mask  # wanted, but an output of the last compaction and nothing was written since
    oversized: Mask  # to be split on its own

    def per_partition(self, mask: Mask) -> list[int]:
        """How many files of each partition the mask holds."""
        before = np.concatenate(([0], np.cumsum(mask)))
        counts: list[int] = (before[self.starts[1:]] - before[self.starts[:-1]]).tolist()
        return counts


def find_candidates(
    inventory: Inventory, statistics: Sequence[PartitionStatistics], options: PlanOptions, sizes: FileSizes
) -> Candidates:
    data_files = inventory.data_files
    files = data_files.take(
        pc.sort_indices(
            data_files.select(["partition", "sequence_number", "path"]),
            sort_keys=[("partition", "ascending"), ("sequence_number", "ascending"), ("path", "ascending")],
        )
    )
    partition = files.column("partition").to_numpy()
    file_sizes = files.column("size").to_numpy()
    deleted = files_with_deletes(files, inventory.delete_files)
    starts = np.searchsorted(partition, np.arange(len(inventory.partitions) + 1))
    oversized = np.zeros(len(file_sizes), dtype=np.bool_)
    fragmented = np.array([s.fragment_ratio > options.max_delete_ratio for s in statistics], dtype=np.bool_)
    too_many_deletes = deleted & fragmented[partition]
    if options.strategy is Strategy.SMALL_FILES:
        wanted = file_sizes < sizes.small
    elif options.strategy is Strategy.DELETE_FILES:
        wanted = too_many_deletes
    elif options.strategy is Strategy.AUTO:
        wanted = (file_sizes < sizes.minimum) | too_many_deletes
    else:
        wanted = file_sizes < sizes.minimum
    if options.strategy is Strategy.FULL:
        oversized = file_sizes > sizes.maximum
    return Candidates(
        files=files,
        sizes=file_sizes,
        starts=starts,
        hazards=hazards_of(files, deleted),
        deleted=deleted,
        wanted=wanted,
        settled=_settled(files, wanted, starts, inventory.pinned.snapshots) & (not options.force),
        oversized=oversized,
    )


def _settled(
    files: pa.Table, wanted: Mask, starts: npt.NDArray[np.int64], snapshots: Mapping[int, SnapshotInfo]
) -> Mask:
    """Outputs of compactions in partitions that got no wanted file since their last compaction.

    Compression may leave outputs smaller than planned; packing them again at once, without anything new beside
    them, would make every second run find work [I10].
    """
    snapshot_ids, snapshot = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    history = sorted(snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms, s.snapshot_id))
    age = {info.snapshot_id: number for number, info in enumerate(history)}
    ids = snapshot_ids.tolist()
    order = np.array([age.get(snapshot_id, -1) for snapshot_id in ids], dtype=np.int64)[snapshot]
    replaced = {info.snapshot_id for info in history if info.operation == "replace"}
    packed = np.array([snapshot_id in replaced for snapshot_id in ids], dtype=np.bool_)[snapshot]
    if not packed.any():
        return packed
    partition = files.column("partition").to_numpy()
    last_packed = np.full(len(starts) - 1, -1, dtype=np.int64)
    np.maximum.at(last_packed, partition[packed], order[packed])
    news = wanted & ~packed & (order > last_packed[partition])
    quiet = np.ones(len(starts) - 1, dtype=np.bool_)
    quiet[partition[news]] = False
    settled: Mask = packed & quiet[partition]
    return settled
