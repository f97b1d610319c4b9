"""Finds the delete files that no data file can need once a commit's inputs are gone [I4].

Every attempt checks each delete file against the snapshot that the commit builds on. Comparing only with the oldest
remaining sequence number would drop deletes that the files of other writers still need.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.commit.conflicts import Replaceable, identities
from tidyberg.commit.entries import Identity
from tidyberg.model.inventory import Inventory

Sequences = npt.NDArray[np.int64]
_NONE_LEFT = np.iinfo(np.int64).max


def dangling_deletes(parent: Inventory, groups: Sequence[Replaceable], applied: Collection[Identity]) -> pa.Table:
    """Returns the rows of applied delete files, in the parent's table, that no remaining data file can need.

    The DV of a replaced file is always removed with it, even if the DV was rewritten meanwhile.
    """
    deletes = parent.delete_files
    replaced = pa.array([file.path for group in groups for file in group.group.files], pa.string())
    is_vector = pc.equal(deletes["kind"].cast(pa.string()), "dv")
    of_replaced = pc.and_(is_vector, pc.is_in(deletes["referenced_data_file"], value_set=replaced))
    was_applied = pa.array([identity in applied for identity in identities(deletes)], pa.bool_())
    chosen = deletes.filter(pc.or_(of_replaced, was_applied))
    if chosen.num_rows == 0:
        return chosen
    remaining = parent.data_files.filter(pc.invert(pc.is_in(parent.data_files["path"], value_set=replaced)))
    need = _Need(remaining, len(parent.partitions))
    names = ("kind", "scope", "partition", "sequence_number", "file_sequence_number", "referenced_data_file")
    rows = zip(*(chosen[name].to_pylist() for name in names), strict=True)
    return chosen.filter(pa.array([not need.of(*row) for row in rows], pa.bool_()))


class _Need:
    """The deletes that the remaining data files can need. Outputs need no delete that was applied to their inputs."""

    def __init__(self, remaining: pa.Table, partitions: int) -> None:
        self._paths = set(remaining["path"].to_pylist())
        partition = remaining["partition"].to_numpy()
        self._oldest_data = _oldest(remaining["sequence_number"].to_numpy(), partition, partitions)
        self._oldest_file = _oldest(remaining["file_sequence_number"].to_numpy(), partition, partitions)

    def of(
        self, kind: str, scope: str, partition: int, sequence_number: int, written: int, referenced: str | None
    ) -> bool:
        """`written` is the file sequence number: a delete file that was rewritten since keeps its old data one."""
        if kind == "equality":
            oldest = self._oldest_data.min(initial=_NONE_LEFT) if scope == "global" else self._oldest_data[partition]
            return bool(oldest < sequence_number)
        if scope == "file":
            return referenced in self._paths
        # A position delete can only name files that were in the table when it was written.
        return bool(self._oldest_data[partition] <= sequence_number and self._oldest_file[partition] <= written)


def _oldest(numbers: Sequences, partition: npt.NDArray[np.int32], partitions: int) -> Sequences:
    """Returns the lowest sequence number of each partition."""
    lowest = np.full(partitions, _NONE_LEFT)
    np.minimum.at(lowest, partition, numbers)
    return lowest
