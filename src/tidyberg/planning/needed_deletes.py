"""Decides whether some data files can still need a delete file [I4]. Plans ask this, and so does every commit."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Sequences = npt.NDArray[np.int64]

NEED_COLUMNS = ("kind", "scope", "partition", "sequence_number", "file_sequence_number", "referenced_data_file")
_NONE_LEFT = np.iinfo(np.int64).max


class NeededDeletes:
    """The deletes that some data files can need. If in doubt, they need one."""

    def __init__(self, data_files: pa.Table, partitions: int, counted_files: pa.Table | None = None) -> None:
        """`counted_files` are data files that the inventory only counts. Their file sequence numbers are not known."""
        numbers = data_files["sequence_number"].to_pylist()
        self._sequence_numbers: dict[str, int] = dict(zip(data_files["path"].to_pylist(), numbers, strict=True))
        partition = data_files["partition"].to_numpy()
        self._oldest_data = _oldest(data_files["sequence_number"].to_numpy(), partition, partitions)
        self._oldest_file = _oldest(data_files["file_sequence_number"].to_numpy(), partition, partitions)
        if counted_files is not None:
            # A file has its data sequence number or a higher one as its file sequence number.
            counted = _oldest(counted_files["oldest"].to_numpy(), counted_files["partition"].to_numpy(), partitions)
            self._oldest_data = np.minimum(self._oldest_data, counted)
            self._oldest_file = np.minimum(self._oldest_file, counted)

    def among(self, deletes: pa.Table) -> npt.NDArray[np.bool_]:
        """Returns a mask of the delete files that can be needed."""
        rows = zip(*(deletes[name].to_pylist() for name in NEED_COLUMNS), strict=True)
        return np.array([self.of(*row) for row in rows], dtype=np.bool_)

    def of(
        self, kind: str, scope: str, partition: int, sequence_number: int, written: int, referenced: str | None
    ) -> bool:
        """`written` is the file sequence number: a delete file that was rewritten since keeps its old data one."""
        if kind == "equality":
            oldest = self._oldest_data.min(initial=_NONE_LEFT) if scope == "global" else self._oldest_data[partition]
            return bool(oldest < sequence_number)
        if scope == "file":
            # Files that are only counted have no such delete, unless they are newer than it.
            return referenced is not None and self._sequence_numbers.get(referenced, _NONE_LEFT) <= sequence_number
        # A position delete can only name files that were in the table when it was written.
        return bool(self._oldest_data[partition] <= sequence_number and self._oldest_file[partition] <= written)


def _oldest(numbers: Sequences, partition: npt.NDArray[np.int32], partitions: int) -> Sequences:
    """Returns the lowest sequence number of each partition."""
    lowest = np.full(partitions, _NONE_LEFT)
    np.minimum.at(lowest, partition, numbers)
    return lowest
