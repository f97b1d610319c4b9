"""The rows that a join has found for equality deletes. They are kept as one bit per row, because they may be many."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.delete_files import DeleteFileReader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete, TaskInput

_NONE: Positions = np.empty(0, np.int64)


class JoinedRows:
    """Unlike position deletes, these rows add to a deletion vector, and the join has compared sequence numbers."""

    def __init__(self, deletes: Sequence[TaskDelete], inputs: Iterable[TaskInput], reader: DeleteFileReader) -> None:
        self._latest = max((delete.sequence_number for delete in deletes), default=0)
        self._records = {file.path: file.records for file in inputs} if deletes else {}
        self._bits: dict[str, npt.NDArray[np.uint8]] = {}
        self._counts: dict[str, int] = {}
        for delete in deletes:
            for path, positions in reader.joined_positions(delete, self._records.keys()):
                self._add(delete, path, positions)

    def positions(self, path: str) -> Positions:
        bits = self._bits.get(path)
        return _NONE if bits is None else np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)

    def count(self, path: str) -> int:
        return self._counts.get(path, 0)

    def may_delete_from(self, file: TaskInput) -> bool:
        """Equality deletes may apply to every older file, also to one in which no row was found [I3]."""
        return file.sequence_number < self._latest

    def _add(self, delete: TaskDelete, path: str, positions: Positions) -> None:
        records = self._records[path]
        if positions[0] < 0 or positions[-1] >= records:
            raise KernelFailure(
                FailureKind.DAMAGED, f"{delete.path} deletes a row of {path} that is not among its {records} rows."
            )
        if path not in self._bits:
            self._bits[path] = np.zeros(-(-records // 8), np.uint8)
        places = positions >> 3
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        flags = np.left_shift(1, positions & 7).astype(np.uint8)
        self._bits[path][places[starts]] |= np.bitwise_or.reduceat(flags, starts)
        # A row may be found for two sets of columns, so this may count it twice. It only serves estimates.
        self._counts[path] = min(records, self.count(path) + len(positions))
