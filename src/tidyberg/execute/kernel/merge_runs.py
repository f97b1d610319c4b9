"""Merges files that claim to be in the order of the table, as streams. Their order is checked while they are read."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing

import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.encode import Encode, FirstFiles, TaskWriter
from tidyberg.execute.kernel.order.merging import NotInOrder, merged_runs
from tidyberg.execute.kernel.ordered_rows import OrderedRowWriter
from tidyberg.execute.kernel.read.open_files import MB, OpenFile, open_file, open_run
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.model.task import Task
from tidyberg.parquet.errors import CannotCopy

_PENDING_PART = 4  # rows that wait to be merged take up to a quarter of the memory of a row group
_MIN_ROWS_PER_RUN = 1024
_HELD_BYTES = 128 * MB  # inputs of up to this size stay in memory as they are stored
_MIN_BUFFER, _MAX_BUFFER = MB // 8, 4 * MB  # of a column chunk that is read as a stream
_PAGE_BYTES = MB  # the most that a page usually takes without compression
_DECODED_PER_STORED = 4  # a typical factor by which rows grow when they are decoded
_DECODER_PER_PAGE = 2.5  # a column that is being read holds a page, its dictionary and buffers; measured


class FalseClaim(CannotCopy):
    """A file claims a sort order, and its rows are not in it."""


class RunMerger(OrderedRowWriter):
    """Writes the rows of all files in order. Every file is a run."""

    joins = False

    def __init__(self, first: FirstFiles) -> None:
        super().__init__(first)
        self._task = first.attempt.task
        self._schema = first.schema

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        opened = list(files)
        _check_memory(opened, self._task)
        with ExitStack() as stack:
            runs = [self._rows(stack.enter_context(closing(surviving.run(file)))) for file in opened]
            rows_per_run = rows_of_each_run(self._task, opened)
            key = self._task.sort_key
            assert key is not None
            try:
                for table in merged_runs(runs, self._schema, key, rows_per_run=rows_per_run):
                    self.write_in_order(table)
            except NotInOrder as wrong:
                raise FalseClaim(
                    f"{opened[wrong.run].input.path} claims a sort order, but its live row {wrong.row:,} is less than "
                    "the row before it"
                ) from None
        return self.finish()

    def _rows(self, pieces: Generator[Announcement | pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            if isinstance(piece, Announcement):
                self.announce(piece)
            else:
                yield piece


class MergeRuns(Encode):
    """Merges sorted files. Raises CannotCopy if one of them is not sorted, or if they are too many for the memory."""

    def open_files(self, attempt: RewriteAttempt) -> Generator[OpenFile, None, None]:
        inputs, storage = attempt.task.inputs, attempt.storage
        is_held = sum(file.size for file in inputs) <= _HELD_BYTES
        for file in inputs:
            yield open_file(storage, file) if is_held else open_run(storage, file)

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        return RunMerger(first)

    def open_reader(self, first: FirstFiles, _: TaskWriter, /) -> Reader:
        task = first.attempt.task
        chunks = len(task.inputs) * len(leaves(first.schema))
        return first.attempt.reader(
            first.schema,
            batch_rows=rows_of_each_run(task, first.files),
            stream_buffer=min(_MAX_BUFFER, max(_MIN_BUFFER, task.memory_bytes // _PENDING_PART // chunks)),
        )


def is_small(task: Task) -> bool:
    """Returns True if all rows can probably be sorted in memory, judged by the sizes of the files alone."""
    return sum(file.bytes_taken for file in task.inputs) * _DECODED_PER_STORED <= task.memory_bytes


def rows_of_each_run(task: Task, files: Sequence[OpenFile]) -> int:
    """Returns how many rows of every run are in memory, by the uncompressed size of rows in these files."""
    rows = sum(file.footer.num_rows for file in files)
    row_bytes = max(1.0, sum(file.uncompressed_bytes for file in files) / max(1, rows))
    pending = task.memory_bytes // _PENDING_PART
    return max(_MIN_ROWS_PER_RUN, min(task.batch_rows, int(pending / row_bytes / len(task.inputs))))


def _check_memory(files: Sequence[OpenFile], task: Task) -> None:
    """Raises CannotCopy if the pages and decoders of files that are read side by side would take too much memory."""
    pages = 0.0
    for file in files:
        groups = map(file.footer.row_group, range(min(1, file.footer.num_row_groups)))
        sizes = (group.column(leaf).total_uncompressed_size for group in groups for leaf in range(group.num_columns))
        pages += _DECODER_PER_PAGE * sum(min(_PAGE_BYTES, size) for size in sizes)
    if pages > task.memory_bytes:
        raise CannotCopy(
            f"merging {len(files):,} files at once would take {round(pages / MB):,} MB, more than "
            f"{task.memory_bytes // MB:,} MB"
        )
