"""Sorts all rows of a task, and claims the order of the table for the outputs if the rows are in it.

Rows are sorted in memory. If they are too many, sorted runs of them wait on the worker's disk and are merged later.
If the task has boundaries, the rows of each segment between them get outputs of their own.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.encode import Encode, FirstFiles, TaskWriter
from tidyberg.execute.kernel.order.segments import Segments
from tidyberg.execute.kernel.order.sorting import sorted_positions
from tidyberg.execute.kernel.ordered_rows import OrderedRowWriter
from tidyberg.execute.kernel.read.open_files import MB, OpenFile
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.execute.kernel.write.rolling import RollingWriter
from tidyberg.execute.kernel.write.spill import SpillFile
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, TaskResult
from tidyberg.parquet.errors import CannotCopy

_MAX_RUNS = 32  # runs on disk; with more rows than that, a task would take too long alone
_PENDING_PART = 4  # rows that wait to be merged take up to a quarter of the memory of a row group


def sort_limit(task: Task) -> int:
    """Returns how many bytes of Arrow memory the rows of a task may take if they are sorted at once."""
    return task.memory_bytes


class SortingWriter(OrderedRowWriter):
    """Collects all rows, sorts them, and writes them."""

    def __init__(self, first: FirstFiles) -> None:
        super().__init__(first)
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows_seen = self._bytes_seen = 0
        self._spill: SpillFile | None = None
        self._runs: list[list[int]] = []  # the numbers of the batches of each run on disk
        self._segments = Segments(self._key, self._task.boundaries)
        self._rows_of_segments = np.zeros(self._segments.count, np.int64)
        self._segment = -1  # that of the rows that were written last

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        announced_rows = announced_bytes = 0
        with closing(surviving.pieces(files)) as pieces:
            for piece in pieces:
                if isinstance(piece, Announcement):
                    announced_rows += piece.rows
                    announced_bytes += piece.uncompressed_bytes
                else:
                    self._collect(piece)
        self.announce(Announcement(announced_rows, announced_bytes, self._rows_seen))
        if self._spill is None:
            for table in self._sorted():
                self.write_in_order(table)
        else:
            self._spill_run()
            self._merge()
        outputs = self.finish()
        self._close()
        return outputs

    def write_rows(self, batch: pa.RecordBatch) -> None:
        if not self._task.boundaries:
            super().write_rows(batch)
            return
        segments = self._segments.of(batch)
        starts = np.flatnonzero(np.diff(segments, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            if segments[start] != self._segment:
                self._segment = int(segments[start])
                assert isinstance(self._writer, RollingWriter), "rows with boundaries stay in their partition"
                self._writer.start_part(int(self._rows_of_segments[self._segment]))
            super().write_rows(batch.slice(start, end - start))

    def abandon(self) -> bool:
        self._close()
        return super().abandon()

    def _collect(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        if self._task.boundaries:
            self._rows_of_segments += np.bincount(self._segments.of(batch), minlength=self._segments.count)
        self._bytes += batch.nbytes
        self._rows_seen += batch.num_rows
        self._bytes_seen += batch.nbytes
        limit = sort_limit(self._task)
        if self._bytes <= limit:
            return
        most = 1 if self._key.curve is not None else _MAX_RUNS  # runs of a curve would differ in their coordinates
        if len(self._runs) + 1 >= most:
            raise CannotCopy(f"its rows take more than {most * limit // MB:,} MB of memory")
        self._spill_run()

    def _sorted(self) -> Iterator[pa.Table]:
        """Yields the collected rows in order, and forgets them."""
        columns = [[batch.column(number) for batch in self._batches] for number in range(len(self._schema))]
        key_table = pa.Table.from_batches(self._batches, schema=self._schema)
        positions = pa.array(sorted_positions(key_table, self._key))
        del key_table
        self._batches, self._bytes = [], 0
        joined = []
        for number, column in enumerate(self._schema):  # one by one, because both forms of a column are in memory
            joined.append(pa.concat_arrays(columns[number]) if columns[number] else pa.nulls(0, column.type))
            columns[number] = []
        table = pa.Table.from_arrays(joined, schema=self._schema)
        for start in range(0, len(positions), self._task.batch_rows):
            self.raise_if_stopped()
            yield table.take(positions.slice(start, self._task.batch_rows))

    def _spill_run(self) -> None:
        if self._spill is None:
            self._spill = SpillFile(self._schema)
        run: list[int] = []
        for table in self._sorted():
            run += self._spill.write(table)
        self._runs.append(run)

    def _merge(self) -> None:
        row_bytes = max(1, self._bytes_seen // max(1, self._rows_seen))
        rows = self._task.memory_bytes // _PENDING_PART // row_bytes // len(self._runs)
        self.write_merged([self._read(run, max(1, rows)) for run in self._runs], max(1, rows))

    def _read(self, run: list[int], rows: int) -> Iterator[pa.RecordBatch]:
        assert self._spill is not None
        for number in run:
            yield from pa.Table.from_batches([self._spill.read(number)]).to_batches(max_chunksize=rows)

    def _close(self) -> None:
        self._batches.clear()
        if self._spill is not None:
            self._spill.close()


class Sort(Encode):
    """Sorts rows. `required` says that no other way gives what the task wants."""

    def __init__(self, *, required: bool = False) -> None:
        super().__init__()
        self._required = required

    def rewrite(self, attempt: RewriteAttempt) -> TaskResult:
        try:
            return super().rewrite(attempt)
        except CannotCopy as refusal:
            if not self._required:
                raise
            raise KernelFailure(
                FailureKind.TOO_LARGE,
                f"Group {attempt.task.group_id} cannot be sorted by one task: {refusal}. Give workers more memory.",
            ) from None

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        return SortingWriter(first)
