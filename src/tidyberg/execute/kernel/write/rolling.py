"""The rolling Parquet writer: collects rows into row groups, and begins a new output when one is full."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.write.compression_levels import with_compression_levels
from tidyberg.execute.kernel.write.dictionaries import dictionaries_from_rows
from tidyberg.execute.kernel.write.encoders import MIN_PARALLEL_BYTES, ColumnEncoders
from tidyberg.execute.kernel.write.output import (
    ArrowOutput,
    FinishedOutput,
    output_path,
    remove_written,
    writer_options,
)
from tidyberg.execute.kernel.write.parallel_output import ParallelOutput
from tidyberg.execute.kernel.write.sizing import OutputSizing, max_row_group_rows
from tidyberg.model.task import Task
from tidyberg.storage.file_io import Storage


class RollingWriter:
    """Takes batches in the writer's schema and writes outputs of equal size."""

    def __init__(
        self, task: Task, attempt: int, storage: Storage, schema: pa.Schema, dictionaries: Mapping[int, bool]
    ) -> None:
        self.outputs: list[FinishedOutput] = []
        self.rows_written = 0
        self._task = task
        self._attempt = attempt
        self._storage = storage
        self._schema = schema
        self._leaves = leaves(schema)
        self._float_leaves = [leaf for leaf in self._leaves if pa.types.is_floating(leaf.type) and not leaf.repeated]
        self._has_dictionaries = any(pa.types.is_dictionary(column.type) for column in schema)
        self._dictionaries = dict(dictionaries)
        self._options: dict[str, Any] | None = None
        self._sizing = OutputSizing.of(task)
        self._first_number = 0  # number of the first output that `_sizing` counts
        self._seen_rows = self._seen_bytes = 0
        self._batches: deque[pa.RecordBatch] = deque()
        self._collected_rows = self._collected_bytes = 0
        self._group_rows = self._wanted_rows = 0
        self._encoders = ColumnEncoders(task.cores)
        self._current: ArrowOutput | ParallelOutput | None = None
        self._rows_begun = self._begun_bytes = (
            0  # the row group that is being encoded while rows of the next one are collected
        )

    def announce(self, rows: int, uncompressed_bytes: int, rows_in_all: int) -> None:
        """Reports the uncompressed size of the next input file, and how many rows the task will write in total."""
        self._seen_rows += rows
        self._seen_bytes += uncompressed_bytes
        if self._sizing.expect(rows_in_all - self.rows_written) or not self._wanted_rows:
            self._group_rows = self._rows_per_group()
            self._decide()

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self._collected_rows += batch.num_rows
        self._collected_bytes += batch.nbytes
        # While a row group is being encoded, memory may be half as large again as for one row group.
        while (
            self._collected_rows >= self._wanted_rows
            or self._collected_bytes + self._begun_bytes // 2 >= self._task.memory_bytes
        ):
            self._advance()

    def start_part(self, rows: int) -> None:
        """Puts the next `rows` rows into outputs of their own."""
        self.finish()
        self._first_number += self._sizing.files_closed
        self._sizing = self._sizing.for_part(rows)
        self._group_rows = self._rows_per_group()
        self._decide()

    def finish(self) -> list[FinishedOutput]:
        while self._collected_rows or self._rows_begun:
            self._advance()
        if self._current is not None:
            self._close_output()
        self._encoders.close()
        return self.outputs

    def abandon(self) -> bool:
        """Removes the files of this attempt. Returns True if none is left."""
        self._encoders.close()
        return remove_written(self.outputs, self._current, self._storage)

    def _rows_per_group(self) -> int:
        return max_row_group_rows(self._task.write, self._seen_rows, self._seen_bytes)

    def _decide(self) -> None:
        """Decides how many rows to collect. While a row group is being encoded, uses the size of earlier ones."""
        self._wanted_rows = self._sizing.rows_for_next_group(self._group_rows)

    def _advance(self) -> None:
        """Ends a row group by sizes on storage only, so that it is the same with any number of cores."""
        if self._rows_begun:
            assert isinstance(self._current, ParallelOutput)
            self._wrote(self._current.finish_row_group())
        else:
            self._flush(min(self._wanted_rows, self._collected_rows))

    def _flush(self, rows: int) -> None:
        table = self._take(rows)
        if self._current is None:
            self._current = self._open_output(table)
        size = self._current.write(table)
        self._count_nans(table, self._current.nan_counts)
        self._rows_begun, self._begun_bytes = rows, table.nbytes
        self._group_rows = self._rows_per_group()
        if size is None:
            self._decide()
        else:
            self._wrote(size)

    def _wrote(self, size: int) -> None:
        """Records that the row group is on storage, and that the output has `size` bytes now."""
        rows, self._rows_begun, self._begun_bytes = self._rows_begun, 0, 0
        self.rows_written += rows
        self._sizing.wrote(rows, size)
        if self._sizing.is_full():
            self._close_output()
        self._decide()

    def _take(self, rows: int) -> pa.Table:
        taken = []
        missing = rows
        while missing:
            batch = self._batches.popleft()
            if batch.num_rows > missing:
                self._batches.appendleft(batch.slice(missing))
                batch = batch.slice(0, missing)
            taken.append(batch)
            missing -= batch.num_rows
        self._collected_rows -= rows
        self._collected_bytes = sum(batch.nbytes for batch in self._batches)
        table = pa.Table.from_batches(taken, schema=self._schema)
        # Arrow's writer falls back to plain pages at the second dictionary, so all chunks get one.
        return table.unify_dictionaries() if self._has_dictionaries else table

    def _open_output(self, table: pa.Table) -> ArrowOutput | ParallelOutput:
        if self._options is None:
            undecided = [leaf for leaf in self._leaves if leaf.field_id not in self._dictionaries]
            if undecided and self._task.write.dictionary:
                self._dictionaries.update(dictionaries_from_rows(table, undecided))
            options = writer_options(self._task.write, self._leaves, self._dictionaries, table)
            self._options = with_compression_levels(options, self._task, table, self._leaves)
        number = self._first_number + self._sizing.files_closed
        place = self._storage.place(output_path(self._task, self._attempt, number))
        if self._task.cores > 1 and table.nbytes >= MIN_PARALLEL_BYTES:
            return ParallelOutput(self._storage, place, self._schema, self._options, self._encoders)
        return ArrowOutput(self._storage, place, self._schema, self._options)

    def _close_output(self) -> None:
        assert self._current is not None
        self.outputs.append(self._current.finish(self._task.iceberg_schema))
        self._current = None
        self._sizing.closed()

    def _count_nans(self, table: pa.Table, counts: dict[int, int]) -> None:
        for leaf in self._float_leaves:
            if leaf.field_id is not None:
                nans = pc.sum(pc.is_nan(leaf.of(table))).as_py() or 0
                counts[leaf.field_id] = counts.get(leaf.field_id, 0) + nans
