"""How heavily deletes weigh on each partition: delete files per data file, and the share of rows they remove."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.planning.resting import counted

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Burden:
    """One entry a partition."""

    fragments: Floats  # the fragment ratio
    rows: Floats  # the share of rows deleted, at most 1
    exact: Mask  # the share is known, else it is an upper bound
    too_heavy: Mask  # one of the two is above what the options allow


def burden_of(
    files: pa.Table,
    index: DeleteIndex,
    statistics: Sequence[PartitionStatistics],
    max_delete_ratio: float,
    merged: Mask,
    resting: pa.Table,
) -> Burden:
    """`merged` files do not count as files when the limit is applied: the plan merges them anyhow.

    Judged by what is left without them, a partition that is not too heavy stays so when they are gone, and a second
    run finds nothing to do [I10]. `resting` files are not among `files`: no delete reaches them, and none is merged.
    """
    partition = files.column("partition").to_numpy()
    records = files.column("records").to_numpy()
    count = len(statistics)
    known = np.bincount(partition, weights=index.rows_known_deleted(), minlength=count)
    exact = np.bincount(partition[index.touched_by_unknown_rows()], minlength=count) == 0
    deleted = np.where(exact, known, [s.deleted_rows for s in statistics]) if count else known
    delete_files = np.array([s.delete_files for s in statistics], dtype=np.int64)
    files_left = np.bincount(partition[~merged], minlength=count) + counted(resting, "files", count)
    records_left = np.bincount(partition[~merged], weights=records[~merged], minlength=count)
    records_left = records_left + counted(resting, "records", count)
    return Burden(
        fragments=np.array([s.fragment_ratio for s in statistics], dtype=np.float64),
        rows=np.minimum(1.0, deleted / np.maximum(1, [s.records for s in statistics])),
        exact=exact,
        too_heavy=(delete_files / np.maximum(1, files_left) > max_delete_ratio)
        | (np.minimum(1.0, deleted / np.maximum(1, records_left)) > max_delete_ratio),
    )
