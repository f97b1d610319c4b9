"""The map tasks of a sort: read rows, apply deletes, and send each row to the range of its key."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.attempt import RewriteAttempt, table_schema
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.deleted_rows import DeletedRows
from tidyberg.execute.kernel.deletes.surviving_rows import Announcement, SurvivingRows
from tidyberg.execute.kernel.encode import with_dictionary_strings
from tidyberg.execute.kernel.memory import peak_rss_bytes
from tidyberg.execute.kernel.order.gathering import combined, gathered
from tidyberg.execute.kernel.order.ranges import RangeBounds, Ranges
from tidyberg.execute.kernel.order.segments import SegmentedRanges
from tidyberg.execute.kernel.range_sort.ipc_chunks import plain_if_large, slices, to_chunks
from tidyberg.execute.kernel.read.open_files import OpenFile, open_prefetched
from tidyberg.model.shuffle import Chunk, ShuffleAttempt
from tidyberg.model.task import ColumnFacts, Task, TaskInput

Numbers = npt.NDArray[np.int64]

_MIN_PIECE_ROWS = 512  # on average; each piece is a record batch of its own, which takes space and time
_PIECE_BYTES = 128 * 1024  # of a range, on average
_LITTLE = 4  # times less memory than there is
_MANY_ROWS = 1 << 40  # more than any map task reads


@dataclass(frozen=True, slots=True)
class CutReport:
    """The rows that a map task of a sort has read and sent."""

    rows_read: int
    rows_deleted: int
    rows_sent: tuple[int, ...]  # to each partition
    bytes_read: int
    bytes_sent: int
    seconds: float
    peak_rss_bytes: int
    input_facts: dict[int, ColumnFacts] = field(default_factory=dict)
    checksum: str | None = None  # of the rows that were sent
    started_ns: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    rows_taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    files_joined: int = 0


@dataclass(frozen=True)
class Cut:
    """Sends the rows of some inputs to their ranges. `each` consecutive ranges belong to one partition."""

    number: int
    task: Task  # with the inputs of this map task
    bounds: RangeBounds | SegmentedRanges
    partitions: int
    each: int
    kept: dict[int, bool]  # by field id: whether chunks hold dictionaries of the column

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return self.task.inputs

    def chunks(self, attempt: ShuffleAttempt) -> Generator[Chunk, None, CutReport]:
        started, started_ns = time.perf_counter(), time.time_ns()
        task, storage = self.task, attempt.storage
        rewriting = RewriteAttempt(task, attempt.number, storage, attempt.should_stop)
        target = table_schema(task)
        reader = rewriting.reader(with_dictionary_strings(target, self.kept), joins=True)
        deleted = DeletedRows(task, storage, attempt.should_stop)
        surviving = SurvivingRows(task, deleted, reader, leaves(target), attempt.should_stop)
        memory = self._collected_bytes(min(task.memory_bytes, attempt.memory_bytes or task.memory_bytes))
        checksum = RowChecksum() if task.checksum else None
        sent = np.zeros(self.partitions, np.int64)
        bytes_sent = 0
        with closing(open_prefetched(storage, task.inputs)) as files:
            for rows in _collected(surviving, files, memory):
                if checksum is not None:
                    checksum.update(rows)
                for chunk in self._cut(rows, int(sent.sum()), sent):
                    bytes_sent += len(chunk.data)
                    yield chunk
                del rows
        return CutReport(
            rows_read=surviving.rows_read,
            rows_deleted=surviving.rows_deleted,
            rows_sent=tuple(sent.tolist()),
            bytes_read=sum(file.bytes_taken for file in task.inputs),
            bytes_sent=bytes_sent,
            seconds=time.perf_counter() - started,
            peak_rss_bytes=peak_rss_bytes(),
            input_facts=surviving.facts(),
            checksum=checksum.hexdigest() if checksum is not None else None,
            started_ns=started_ns,
            requests=storage.requests,
            rows_taken=surviving.rows_taken,
            files_joined=surviving.files_joined,
        )

    def _collected_bytes(self, memory: int) -> int:
        """Returns the memory of the rows that are cut at once. Little is faster, if the pieces do not get too small."""
        most = memory // 2  # the other half is for copies
        return min(most, max(most // _LITTLE, self.partitions * self.each * _PIECE_BYTES))

    def _cut(self, rows: pa.Table, first: int, sent: npt.NDArray[np.int64]) -> Iterator[Chunk]:
        """Cuts rows, of which `first` were sent before, and adds them to those that were sent to each partition."""
        ranges = self.bounds.assign(rows, self.number * _MANY_ROWS + first)
        counts = np.bincount(ranges, minlength=self.partitions * self.each)
        starts = _ascending_from(ranges, rows)
        parts = _gathered_parts(rows, ranges, counts) if starts is None else _sliced_parts(rows, ranges, counts, starts)
        for number, part in parts:
            partition = number // self.each
            sent[partition] += part.num_rows
            for data in to_chunks(part):
                yield Chunk(partition, data, tag=number)


def _ascending_from(ranges: Ranges, rows: pa.Table) -> Numbers | None:
    """Returns where batches begin, if the rows of each batch are in the order of their ranges, as in a sorted file.

    Returns None if they are not, or if there would be many small pieces.
    """
    starts = np.cumsum([0, *(len(chunk) for chunk in rows.column(0).chunks[:-1])])
    rises = ranges[1:] >= ranges[:-1]
    rises[starts[1:] - 1] = True
    if not rises.all():
        return None
    pieces = int(np.count_nonzero(ranges[1:] != ranges[:-1])) + 1
    return starts if len(ranges) >= pieces * _MIN_PIECE_ROWS else None


def _sliced_parts(rows: pa.Table, ranges: Ranges, counts: Numbers, starts: Numbers) -> Iterator[tuple[int, pa.Table]]:
    """Yields the rows of each range. They are slices of the batches, so nothing is copied."""
    used = int(np.count_nonzero(counts))
    columns = [
        plain_if_large(combined(column), used) if pa.types.is_dictionary(column.type) else column
        for column in rows.columns
    ]
    plain = pa.Table.from_arrays(columns, schema=_schema_of(columns, rows.schema))
    ends = [*starts[1:], len(ranges)]
    numbers = np.flatnonzero(counts)
    edges = np.append(numbers, len(counts)).astype(ranges.dtype)  # of another type, every look-up would copy the ranges
    cuts = [start + np.searchsorted(ranges[start:end], edges) for start, end in zip(starts, ends, strict=True)]
    for place, number in enumerate(numbers.tolist()):
        pieces = [
            plain.slice(low, high - low)
            for low, high in (cut[place : place + 2].tolist() for cut in cuts)
            if low < high
        ]
        yield number, pa.concat_tables(pieces)


def _gathered_parts(rows: pa.Table, ranges: Ranges, counts: Numbers) -> Iterator[tuple[int, pa.Table]]:
    """Yields the rows of each range, in their order."""
    # A stable sort of 16-bit numbers is a radix sort.
    order = np.argsort(ranges.astype(np.uint16) if len(counts) <= 1 << 16 else ranges, kind="stable")
    used = int(np.count_nonzero(counts))
    columns = [plain_if_large(combined(column), used) for column in rows.columns]
    ordered = pa.Table.from_batches([gathered(columns, order, _schema_of(columns, rows.schema))])
    del columns
    for number, begin, size in slices(np.cumsum(counts)):
        yield number, ordered.slice(begin, size)


def _schema_of(columns: Sequence[pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_type(c.type) for f, c in zip(schema, columns, strict=True)])


def _collected(surviving: SurvivingRows, files: Iterator[OpenFile], memory: int) -> Iterator[pa.Table]:
    """Yields tables of about `memory` bytes, with one dictionary per column."""
    batches: list[pa.RecordBatch] = []
    size = 0
    with closing(surviving.pieces(files)) as pieces:
        for piece in pieces:
            if isinstance(piece, Announcement) or not piece.num_rows:
                continue
            batches.append(piece)
            size += sum(map(_bytes_of_rows, piece.columns))
            if size >= memory:
                yield pa.Table.from_batches(batches).unify_dictionaries()
                batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches).unify_dictionaries()


def _bytes_of_rows(column: pa.Array) -> int:
    """Counts no dictionaries, which many batches may share."""
    indices = column.indices if pa.types.is_dictionary(column.type) else column
    return int(indices.nbytes)
