"""Decides how many rows the next row group gets and when an output is full, so that outputs have equal sizes."""

import math
from dataclasses import dataclass

from tidyberg.model.task import Task, WriteSettings

# An output counts as full if only this fraction is missing: a tiny row group would cost more than it gives.
_CLOSE_ENOUGH = 0.03


def max_outputs_of_attempt(outputs: int) -> int:
    """Returns how many files one attempt may write at most, however wrong the plan's estimate was."""
    return 2 * outputs + 8


@dataclass
class OutputSizing:
    """Divides the remaining rows among the remaining outputs, by the bytes per row on disk so far."""

    rows_left: int
    bytes_per_row: float  # from the inputs, until the first row group is on disk
    outputs: int
    target_bytes: int
    max_bytes: int
    files_closed: int = 0
    file_rows: int = 0
    file_bytes: int = 0
    _closed_rows: int = 0
    _closed_bytes: int = 0

    @classmethod
    def of(cls, task: Task) -> "OutputSizing":
        rows = sum(file.rows_expected for file in task.inputs)
        size = sum(file.bytes_taken for file in task.inputs)
        return cls(rows, size / max(1, rows), task.outputs, task.target_bytes, task.max_bytes)

    def for_part(self, rows: int) -> "OutputSizing":
        """Returns the sizing of rows that get outputs of their own; keeps the measured bytes per row."""
        outputs = max(1, round(rows * self.bytes_per_row / self.target_bytes))
        return OutputSizing(rows, self.bytes_per_row, outputs, self.target_bytes, self.max_bytes)

    def expect(self, rows_left: int) -> bool:
        """Sets the number of rows to come, which shrinks as deletes are found. Returns False if it did not change."""
        is_new = rows_left != self.rows_left
        self.rows_left = rows_left
        return is_new

    def rows_for_next_group(self, group_rows: int) -> int:
        """Returns the rows of the next row group, at most `group_rows`. All row groups of an output are equal."""
        rows = self._rows_still_wanted()
        if self._is_unmeasured and self._files_to_come() > 1:
            rows = math.ceil(rows / 2)  # half an output shows how many bytes a row takes on disk
        groups = math.ceil(rows / group_rows)
        return max(1, math.ceil(rows / max(1, groups)))

    def wrote(self, rows: int, file_bytes: int) -> None:
        """Records that a row group is on disk, and that the current output has `file_bytes` now."""
        self.rows_left = max(0, self.rows_left - rows)
        self.file_rows += rows
        self.file_bytes = file_bytes
        self.bytes_per_row = (self._closed_bytes + file_bytes) / (self._closed_rows + self.file_rows)

    def is_full(self) -> bool:
        if self.rows_left == 0 or self.files_closed + 1 >= max_outputs_of_attempt(self.outputs):
            return False
        return self._files_to_come() > 1 and self.file_bytes >= self._share() * (1 - _CLOSE_ENOUGH)

    def closed(self) -> None:
        self._closed_rows += self.file_rows
        self._closed_bytes += self.file_bytes
        self.files_closed += 1
        self.file_rows = self.file_bytes = 0

    @property
    def _is_unmeasured(self) -> bool:
        return self._closed_rows + self.file_rows == 0

    def _bytes_to_come(self) -> float:
        """Returns the expected bytes of the current output and all later ones."""
        return self.file_bytes + self.rows_left * self.bytes_per_row

    def _files_to_come(self) -> int:
        remaining = self._bytes_to_come()
        wanted = max(1, round(remaining / self.target_bytes))
        promised = max(1, self.outputs - self.files_closed)
        needed = math.ceil(remaining / self.max_bytes)
        return max(min(wanted, promised), needed)

    def _share(self) -> float:
        return self._bytes_to_come() / self._files_to_come()

    def _rows_still_wanted(self) -> int:
        if self._files_to_come() <= 1:
            return max(1, self.rows_left)
        rows = (self._share() - self.file_bytes) / max(self.bytes_per_row, 1e-9)
        return max(1, min(self.rows_left or 1, round(rows)))


def max_row_group_rows(settings: WriteSettings, seen_rows: int, seen_bytes: int) -> int:
    """Returns how many rows a row group may have, by the uncompressed size of rows so far."""
    bytes_per_row = max(1.0, seen_bytes / max(1, seen_rows))
    return max(1, min(settings.row_group_rows, int(settings.row_group_bytes / bytes_per_row)))
