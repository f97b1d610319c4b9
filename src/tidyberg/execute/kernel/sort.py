"""Sorts all rows of a task in memory, and claims the order of the table for the outputs if the rows are in it."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.encode import Encode, FirstFiles, TaskWriter
from tidyberg.execute.kernel.order.sorting import sorted_positions
from tidyberg.execute.kernel.ordered_rows import OrderedRowWriter
from tidyberg.execute.kernel.read.open_files import MB, OpenFile
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task, TaskResult
from tidyberg.parquet.errors import CannotCopy

_SORTED_PER_MEMORY = 2  # the rows to sort may take so many times the memory of a row group
_DECODED_PER_STORED = 4  # a typical factor by which rows grow when they are decoded


def sort_limit(task: Task) -> int:
    """Returns how many bytes of Arrow memory the rows of a task may take if they are sorted in memory."""
    return _SORTED_PER_MEMORY * task.memory_bytes


def fits_in_memory(task: Task) -> bool:
    """Whether the rows can probably be sorted in memory, judged by the sizes of the files alone."""
    return sum(file.bytes_taken for file in task.inputs) * _DECODED_PER_STORED <= sort_limit(task)


class SortingWriter(OrderedRowWriter):
    """Collects all rows, sorts them, and writes them."""

    def __init__(self, first: FirstFiles) -> None:
        super().__init__(first)
        self._task = first.attempt.task
        self._schema = first.schema
        self._should_stop = first.attempt.should_stop

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        batches, announced_rows, announced_bytes = [], 0, 0
        size, limit = 0, sort_limit(self._task)
        with closing(surviving.pieces(files)) as pieces:
            for piece in pieces:
                if isinstance(piece, Announcement):
                    announced_rows += piece.rows
                    announced_bytes += piece.uncompressed_bytes
                    continue
                batches.append(piece)
                size += piece.nbytes
                if size > limit:
                    raise CannotCopy(f"its rows take more than the {limit // MB} MB that may be sorted in memory")
        table = pa.Table.from_batches(batches, schema=self._schema)
        batches.clear()
        self.announce(Announcement(announced_rows, announced_bytes, table.num_rows))
        positions = pa.array(sorted_positions(table, self._key))
        table = table.combine_chunks()
        for start in range(0, len(positions), self._task.batch_rows):
            if self._should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            self.write_in_order(table.take(positions.slice(start, self._task.batch_rows)))
        return self.finish()


class Sort(Encode):
    """Sorts in memory. `required` says that no other way gives what the task wants."""

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
                FailureKind.LIMIT,
                f"Group {attempt.task.group_id} cannot be sorted by one task: {refusal}. Plan smaller groups "
                "(max_group_size), or give workers more memory.",
            ) from None

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        return SortingWriter(first)
