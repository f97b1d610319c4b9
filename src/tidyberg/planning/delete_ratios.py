"""Measures the deletes of each partition: delete files per data file, and the share of rows that they remove."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.task import OUTPUT_NAME
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.unchanged_files import sum_by_partition

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DeleteRatios:
    """One entry per partition."""

    deleted_rows: npt.NDArray[np.float64]  # the share of rows that deletes remove, at most 1
    exact: Mask  # the share is known; otherwise it is an upper bound
    settled: npt.NDArray[np.int64]  # delete files that do not count, because a minor compaction has merged them
    above_limit: Mask  # the share, or the number of delete files per data file, is above `max_delete_ratio`


def delete_ratios_of(
    files: pa.Table,
    index: DeleteIndex,
    statistics: Sequence[PartitionStatistics],
    max_delete_ratio: float,
    merged: Mask,
    unchanged: pa.Table,
    compactions: Collection[int] | None = None,
) -> DeleteRatios:
    """Compares the deletes of each partition with the limit.

    `merged` marks files that the plan merges anyway. They do not count when the limit is applied. So a partition that
    is below the limit is still below it when they are gone, and a second run finds nothing to do [I10].

    `compactions` are snapshots whose delete files of single data files count by their rows only. None: all delete
    files count by their number too.

    `unchanged` counts files that are not among `files`. No delete applies to them, and none of them is merged.
    """
    partition = files.column("partition").to_numpy()
    records = files.column("records").to_numpy()
    count = len(statistics)
    known = np.bincount(partition, weights=index.rows_known_deleted(), minlength=count)
    exact = np.bincount(partition[index.touched_by_unknown_rows()], minlength=count) == 0
    deleted = np.where(exact, known, [s.deleted_rows for s in statistics]) if count else known
    settled = _settled(index, count, compactions)
    delete_files = np.array([s.delete_files for s in statistics], dtype=np.int64) - settled
    files_left = np.bincount(partition[~merged], minlength=count) + sum_by_partition(unchanged, "files", count)
    records_left = np.bincount(partition[~merged], weights=records[~merged], minlength=count)
    records_left = records_left + sum_by_partition(unchanged, "records", count)
    return DeleteRatios(
        deleted_rows=np.minimum(1.0, deleted / np.maximum(1, [s.records for s in statistics])),
        exact=exact,
        settled=settled,
        above_limit=(delete_files / np.maximum(1, files_left) > max_delete_ratio)
        | (np.minimum(1.0, deleted / np.maximum(1, records_left)) > max_delete_ratio),
    )


def _settled(index: DeleteIndex, partitions: int, compactions: Collection[int] | None) -> npt.NDArray[np.int64]:
    """Counts the delete files of each partition that a compaction wrote for one data file each.

    The name shows the same of our own files after their snapshot has expired. Otherwise an expiry would make work for
    the next run [I10].
    """
    if compactions is None:
        return np.zeros(partitions, dtype=np.int64)
    by_compaction = np.isin(index.rows.column("snapshot_id").to_numpy(), np.array(list(compactions), dtype=np.int64))
    others = np.flatnonzero(index.names_file & ~by_compaction)
    paths = index.rows.column("path").take(pa.array(others)).to_pylist()
    by_compaction[others] = [OUTPUT_NAME.fullmatch(path.rpartition("/")[2]) is not None for path in paths]
    found = index.rows.column("partition").to_numpy()[index.names_file & by_compaction]
    return np.bincount(found, minlength=partitions)
