"""Merges files that claim to be in the order of the table. Their order is checked while they are read.

Rows that fit into memory are decoded file after file, and then merged. More rows than that are merged as streams.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.encode import Encode, FirstFiles, TaskWriter, with_dictionary_strings
from tidyberg.execute.kernel.order.merging import NotInOrder
from tidyberg.execute.kernel.ordered_rows import OrderedRowWriter
from tidyberg.execute.kernel.read.open_files import MB, OpenFile, open_prefetched, open_run
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.write.dictionaries import small_dictionaries
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.model.task import Task
from tidyberg.parquet.errors import CannotCopy

_PENDING_PART = 4  # rows that wait to be merged take up to a quarter of the memory of a row group
_MIN_ROWS_PER_RUN = 1024
_STORED_BYTES = 128 * MB  # inputs of up to this size stay in memory as they are stored, if they are read as streams
_DECODED_SHARE = 1.5  # of the memory of a row group: what decoded rows may take, because the rows written are few then
_DECODED_PER_PLAIN = 1.3  # a typical factor from the size of pages without compression to Arrow's memory
_SMALL_DICTIONARY = 4 * 1024  # of a file
_FEW_ROWS = 512  # of a file: so many files are sorted faster than their runs are merged
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
        self._bytes = 0  # of decoded rows
        self._rows_per_run = rows_of_each_run(self._task, first.files)
        self._decodes_first = _fits(self._task, first.files)

    def write(self, files: Iterator[OpenFile], surviving: SurvivingRows) -> list[FinishedOutput]:
        with ExitStack() as stack:
            if self._decodes_first:
                self._merge([self._decoded(file, surviving) for file in files])
            else:
                opened = list(files)
                _check_memory(opened, self._task)
                self._merge([self._rows(stack.enter_context(closing(surviving.run(file)))) for file in opened])
        return self.finish()

    def _merge(self, runs: list[Iterator[pa.RecordBatch]]) -> None:
        """`runs` are in the order of the task's inputs."""
        try:
            self.write_merged(runs, self._rows_per_run)
        except NotInOrder as wrong:
            raise FalseClaim(
                f"{self._task.inputs[wrong.run].path} claims a sort order, but its live row {wrong.row:,} is less than "
                "the row before it"
            ) from None

    def _decoded(self, file: OpenFile, surviving: SurvivingRows) -> Iterator[pa.RecordBatch]:
        """Reads all rows of a file. They are returned in small slices, of which a merge takes a few at a time."""
        batches = []
        with closing(surviving.run(file)) as pieces:
            for batch in self._rows(pieces):
                self._bytes += batch.nbytes
                if self._bytes > _decoded_limit(self._task):
                    raise CannotCopy(f"its rows take more than {_decoded_limit(self._task) // MB:,} MB of memory")
                batches.append(batch)
        rows = max(1, self._rows_per_run // 2)
        return (batch.slice(start, rows) for batch in batches for start in range(0, batch.num_rows, rows))

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
        if sum(file.size for file in inputs) <= _STORED_BYTES:
            yield from open_prefetched(storage, inputs)
        else:
            yield from (open_run(storage, file) for file in inputs)

    def open_writer(self, first: FirstFiles) -> TaskWriter:
        return RunMerger(_with_dictionaries(first))

    def open_reader(self, first: FirstFiles, _: TaskWriter, /) -> Reader:
        task = first.attempt.task
        rows = rows_of_each_run(task, first.files)
        if _fits(task, first.files):
            return first.attempt.reader(_with_dictionaries(first).schema, batch_rows=max(1, rows // 2))
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
    pending = task.memory_bytes // _PENDING_PART
    return max(_MIN_ROWS_PER_RUN, min(task.batch_rows, int(pending / _row_bytes(files) / len(task.inputs))))


def _decoded_limit(task: Task) -> int:
    """Returns how much memory the rows of all files may take at once."""
    return int(task.memory_bytes * _DECODED_SHARE)


def _fits(task: Task, files: Sequence[OpenFile]) -> bool:
    """Returns True if the rows of all files probably fit into memory, as the first files show."""
    rows = sum(file.records for file in task.inputs)
    if rows < len(task.inputs) * _FEW_ROWS:
        return False
    return rows * _row_bytes(files) * _DECODED_PER_PLAIN <= _decoded_limit(task)


def _with_dictionaries(first: FirstFiles) -> FirstFiles:
    """Keeps the small dictionaries of strings that are not part of the key.

    Each step of a merge unites the dictionaries of all files. If they are large, that takes longer than it saves.
    """
    task, key = first.attempt.task, first.attempt.task.sort_key
    assert key is not None
    if task.partitioning is not None or not _fits(task, first.files):
        return first
    reader = first.attempt.reader(first.target)
    footers = [(file.footer, reader.selection(file)) for file in first.files]
    small = small_dictionaries(first.target, first.dictionaries, footers, _SMALL_DICTIONARY)
    kept = small - {field.source_id for field in key.fields}
    return replace(first, schema=with_dictionary_strings(first.target, dict.fromkeys(kept, True)))


def _row_bytes(files: Sequence[OpenFile]) -> float:
    """Returns the size of a row in pages without compression."""
    rows: int = sum(file.footer.num_rows for file in files)
    return max(1.0, sum(file.uncompressed_bytes for file in files) / max(1, rows))


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
