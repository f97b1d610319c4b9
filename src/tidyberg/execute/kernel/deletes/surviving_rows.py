"""Reads the rows that survive a task's deletes, in the writer's schema, and collects facts from the files' footers."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.columns.lineage import LineageFacts, fill_joined_lineage, fill_lineage
from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import Leaf, Selection
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows, Positions, without_rows
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import FileSchema, Reader
from tidyberg.execute.kernel.read.row_ranges import row_group_starts
from tidyberg.execute.kernel.read.small_files import SmallFileReader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import ChecksumTask, ColumnFacts, Task


@dataclass(frozen=True)
class Announcement:
    """Comes before the rows of a file: its uncompressed size, and how many rows the task will write in total."""

    rows: int
    uncompressed_bytes: int
    rows_in_all: int


class FileSink(Protocol):
    """A writer that takes whole files instead of batches."""

    def add(self, file: OpenFile, deleted: Positions, rows_in_all: int, *, is_movable: bool) -> None: ...


class SurvivingRows:
    """Reads files and applies the task's deletes. Counts and facts are complete when all pieces have been read."""

    def __init__(
        self,
        task: Task,
        deleted_rows: DeletedRows,
        reader: Reader,
        leaves: list[Leaf],
        should_stop: Callable[[], bool],
    ) -> None:
        self.rows_read = self.rows_deleted = 0
        self.files_joined = 0  # small files that were read together
        self.rows_taken: dict[str, tuple[int, int]] = {}  # of files that other tasks read too
        self._task = task
        self._deleted_rows = deleted_rows
        self._reader = reader
        self._should_stop = should_stop
        self._facts = FactCollector(leaves, task.constants, own=False)
        self._lineage_facts = LineageFacts()

    def pieces(self, files: Iterable[OpenFile]) -> Generator[Announcement | pa.RecordBatch, None, None]:
        small_files = SmallFileReader(self._task, self._reader, self._should_stop)
        for file_schema, bunch in small_files.bunches(files):
            together = small_files.read(bunch, file_schema)
            if together is not None:
                self.files_joined += len(bunch)
                yield from self._together(bunch, together)
            else:
                for file in bunch:
                    yield from self._one(file, file_schema)
            # After the rows: damaged bounds would crash the process here, but reading or joining refuses them first.
            for file in bunch:
                self._add_facts(file, file_schema)

    def run(self, file: OpenFile) -> Generator[Announcement | pa.RecordBatch, None, None]:
        """Reads one file. The runs of several files may be read side by side."""
        file_schema = self._reader.file_schema(file)
        yield from self._one(file, file_schema)
        self._add_facts(file, file_schema)

    def _one(self, file: OpenFile, file_schema: FileSchema) -> Generator[Announcement | pa.RecordBatch, None, None]:
        deleted = self._deleted_rows.positions(file)
        self.rows_deleted += len(deleted)
        yield Announcement(file.footer.num_rows, file.uncompressed_bytes, self._deleted_rows.surviving_rows)
        for first, whole in batches_with_positions(self._task, self._reader, file, file_schema.selection):
            self.rows_read += whole.num_rows
            yield without_rows(whole, first, deleted)
        if file.rows_taken is not None:
            self.rows_taken[file.input.path] = file.rows_taken

    def _together(
        self, files: Sequence[OpenFile], batches: Iterable[pa.RecordBatch]
    ) -> Generator[Announcement | pa.RecordBatch, None, None]:
        """Handles files that were read together. Positions continue from file to file."""
        parts, size, first = [], 0, 0
        for file in files:
            parts.append(self._deleted_rows.positions(file) + first)
            first += file.footer.num_rows
            size += file.uncompressed_bytes
        deleted = np.concatenate(parts)
        self.rows_deleted += len(deleted)
        yield Announcement(first, size, self._deleted_rows.surviving_rows)
        first = 0
        whole = fill_joined_lineage(batches, [file.input for file in files]) if self._task.lineage else batches
        for batch in whole:
            self.rows_read += batch.num_rows
            yield without_rows(batch, first, deleted)
            first += batch.num_rows

    def splice(self, files: Iterable[OpenFile], writer: FileSink) -> None:
        """Passes files to the writer, with their deleted rows and how many rows the task will write in total."""
        for file in files:
            if self._should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            file_schema = self._reader.file_schema(file)
            deleted = self._deleted_rows.positions(file)
            is_movable = not self._deleted_rows.may_delete_from(file.input)
            writer.add(file, deleted, self._deleted_rows.surviving_rows, is_movable=is_movable)
            self.rows_deleted += len(deleted)
            self.rows_read += file.end_row - file.first_row
            if file.rows_taken is not None:
                self.rows_taken[file.input.path] = file.rows_taken
            self._add_facts(file, file_schema)

    def _add_facts(self, file: OpenFile, file_schema: FileSchema) -> None:
        counted = _reported_row_groups(file)
        self._facts.add(file.footer, file_schema.selection, file_schema.leaves, counted)
        if self._task.lineage:
            self._lineage_facts.add(file.footer, file_schema.selection, file_schema.leaves, file.input, counted)

    def facts(self) -> dict[int, ColumnFacts]:
        return self._facts.facts() | (self._lineage_facts.facts() if self._task.lineage else {})


def _reported_row_groups(file: OpenFile) -> list[int] | None:
    """Returns the row groups whose facts this task reports: those whose first row it reads."""
    if file.rows_taken is None:
        return None
    starts = row_group_starts(file.footer)
    return [number for number in file.row_groups if starts[number] >= file.first_row]


def batches_with_positions(
    task: Task | ChecksumTask, reader: Reader, file: OpenFile, selection: Selection
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields every batch of a file with the position of its first row."""
    first = file.first_row
    for batch in reader.batches(file, selection):
        yield first, fill_lineage(batch, file.input, first) if task.lineage else batch
        first += batch.num_rows
