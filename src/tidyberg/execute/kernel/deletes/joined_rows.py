"""The rows that a join has found for equality deletes."""

from collections.abc import Iterable, Sequence

from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.delete_files import DeleteFileReader
from tidyberg.execute.kernel.deletes.row_bits import RowBits
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete, TaskInput


class JoinedRows:
    """Unlike position deletes, these rows add to a deletion vector, and the join has compared sequence numbers."""

    def __init__(self, deletes: Sequence[TaskDelete], inputs: Iterable[TaskInput], reader: DeleteFileReader) -> None:
        self._latest = max((delete.sequence_number for delete in deletes), default=0)
        self._records = {file.path: file.records for file in inputs} if deletes else {}
        self._bits = RowBits()
        self._counts: dict[str, int] = {}
        for delete in deletes:
            for path, positions in reader.joined_positions(delete, self._records.keys()):
                self._add(delete, path, positions)

    def positions(self, path: str) -> Positions:
        return self._bits.positions(path)

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
        self._bits.add(path, records, positions)
        # A row may be found for two sets of columns, so this may count it twice. It only serves estimates.
        self._counts[path] = min(records, self.count(path) + len(positions))
