"""Samples the columns of a sort key, so that the driver can choose the bounds of ranges."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import field_id
from tidyberg.execute.kernel.columns.project import Selection, leaves
from tidyberg.execute.kernel.order.values import key_schema
from tidyberg.execute.kernel.read.open_files import SMALL_FILE, OpenFile, open_file, open_run
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.write.dictionaries import dictionaries_from_footers, small_dictionaries
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import SampleResult, SampleTask, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched

_MEASURED_ROWS = 16_384  # the size of rows in memory is measured on so many of a file
_MEASURED_FILES = 2  # of each task
_SMALL_DICTIONARY = 64 * 1024  # every chunk of a shuffle has its dictionaries, so larger ones are not kept
_INDEX_BYTES = 4

Numbers = npt.NDArray[np.int64]


def sample_keys(task: SampleTask, storage: Storage, should_stop: Callable[[], bool]) -> SampleResult:
    """Reads the key columns of some row groups. A file contributes rows in proportion to all its rows."""
    schema = pa.ipc.read_schema(pa.BufferReader(task.arrow_schema))
    keys = key_schema(schema, task.key)
    key_reader, row_reader = (_reader(task, storage, columns, should_stop) for columns in (keys, schema))
    rows: list[pa.RecordBatch] = []
    footers: list[tuple[pq.FileMetaData, Selection]] = []
    measured: list[pa.RecordBatch] = []
    in_all = sum(file.records for file in task.inputs)
    with closing(prefetched(partial(_open, storage), task.inputs)) as files:
        for file in files:
            if should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            with file.source, storage.guard(file.input.path):
                wanted = -(-task.rows * file.input.records // max(1, in_all))
                rows += _sampled(key_reader, file, wanted, task.row_groups)
                footers.append((file.footer, row_reader.selection(file)))
                if len(measured) < _MEASURED_FILES and file.footer.num_rows:
                    measured.append(_first_rows(row_reader, file))
    dictionaries = dictionaries_from_footers(leaves(schema), footers)
    small = small_dictionaries(schema, dictionaries, footers, _SMALL_DICTIONARY)
    return SampleResult(
        task.job_id,
        task.group_id,
        _to_ipc(pa.Table.from_batches(rows, schema=keys)),
        _bytes_per_row(measured, small),
        dictionaries,
        small,
        _bytes_per_row(measured, frozenset()),
    )


def _reader(task: SampleTask, storage: Storage, columns: pa.Schema, should_stop: Callable[[], bool]) -> Reader:
    return Reader(
        storage,
        columns,
        batch_rows=_MEASURED_ROWS,
        constants=task.constants,
        should_stop=should_stop,
        name_mapping=task.name_mapping,
    )


def _open(storage: Storage, file: TaskInput) -> OpenFile:
    """Only the columns of the key are fetched, unless one request for the whole file is as cheap."""
    return open_file(storage, file) if file.size <= SMALL_FILE else open_run(storage, file)


def _sampled(reader: Reader, file: OpenFile, wanted: int, most: int) -> Iterator[pa.RecordBatch]:
    """Yields `wanted` rows, evenly spaced in at most so many row groups, which are evenly spaced in the file."""
    groups = _spread(file.footer.num_row_groups, most).tolist()
    rows = sum(file.footer.row_group(number).num_rows for number in groups)
    positions = _spread(rows, wanted)
    selection = reader.selection(file)
    first = 0
    for batch in reader.decoded(file.source, file.footer, selection, groups):
        begin, end = np.searchsorted(positions, [first, first + batch.num_rows])
        if begin < end:
            chosen = batch.take(pa.array(positions[begin:end] - first))
            yield reader.projected(chosen, selection)
        first += batch.num_rows


def _spread(count: int, most: int) -> Numbers:
    """Returns at most so many numbers below `count`, evenly spaced."""
    if count <= most:
        return np.arange(count)
    return (np.arange(most) * 2 + 1) * count // (2 * most)


def _first_rows(reader: Reader, file: OpenFile) -> pa.RecordBatch:
    selection = reader.selection(file)
    with closing(iter(reader.decoded(file.source, file.footer, selection, [0]))) as batches:  # type: ignore[type-var]
        return reader.projected(next(batches), selection)


def _bytes_per_row(measured: Sequence[pa.RecordBatch], dictionaries: frozenset[int]) -> float:
    size = rows = 0
    for batch in measured:
        rows += batch.num_rows
        for column, described in zip(batch.columns, batch.schema, strict=True):
            is_small = field_id(described) in dictionaries
            size += _INDEX_BYTES * batch.num_rows if is_small else column.nbytes
    return size / max(1, rows)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
