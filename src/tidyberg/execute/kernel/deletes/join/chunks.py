"""The chunks of a join: keys of deletes with sequence numbers, and keys of rows with their places, as Arrow IPC."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.columns.checksum import Hashes
from tidyberg.execute.kernel.deletes.join.keys import key_hashes
from tidyberg.execute.kernel.shuffle.fitting import fitting_chunks
from tidyberg.model.shuffle import Chunk

DELETES, ROWS = 0, 1  # tags

# Columns after the keys.
_SEQUENCE = "sequence"
_FILE, _POSITION = "file", "position"

_BUFFERED_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 8 * 1024 * 1024
_WRITING = pa.ipc.IpcWriteOptions(compression="lz4")

Numbers = npt.NDArray[np.int64]


def deletes_batch(columns: Sequence[pa.Array], sequence_number: int) -> pa.RecordBatch:
    rows = len(columns[0])
    return _batch(columns, {_SEQUENCE: pa.array(np.full(rows, sequence_number, np.int64))})


def rows_batch(columns: Sequence[pa.Array], sequence_number: int, path: str, positions: Numbers) -> pa.RecordBatch:
    rows = len(columns[0])
    file = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([path]))
    sequence = pa.array(np.full(rows, sequence_number, np.int64))
    return _batch(columns, {_SEQUENCE: sequence, _FILE: file, _POSITION: pa.array(positions)})


def key_columns(table: pa.Table) -> list[pa.ChunkedArray]:
    return [table.column(name) for name in table.column_names if name.startswith("key-")]


def sequence_numbers(table: pa.Table) -> Numbers:
    return np.asarray(table.column(_SEQUENCE), np.int64)


def places(table: pa.Table) -> tuple[pa.ChunkedArray, Numbers]:
    """Returns the data file and the position of each row."""
    return table.column(_FILE), np.asarray(table.column(_POSITION), np.int64)


def newest_only(table: pa.Table) -> pa.Table:
    """Returns each deleted key once, with its highest sequence number. Many deletes of one key then take no memory."""
    names = [name for name in table.column_names if name.startswith("key-")]
    newest = table.group_by(names, use_threads=False).aggregate([(_SEQUENCE, "max")])
    return newest.select([*names, f"{_SEQUENCE}_max"]).rename_columns([*names, _SEQUENCE])


def decoded(data: pa.Buffer | bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def encoded(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITING) as stream:
        stream.write_table(table)
    return sink.getvalue()


class Divider:
    """Collects batches of one tag, and divides them among parts by the hash of the keys."""

    def __init__(self, parts: int, tag: int) -> None:
        self._parts = parts
        self._tag = tag
        self._batches: list[pa.RecordBatch] = []
        self._numbers: list[npt.NDArray[np.uint16]] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch, hashes: Hashes) -> Iterator[Chunk]:
        self._batches.append(batch)
        self._numbers.append(part_of(hashes, self._parts))
        self._bytes += batch.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[Chunk]:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
        numbers = np.concatenate(self._numbers)
        self._batches, self._numbers, self._bytes = [], [], 0
        order = np.argsort(numbers, kind="stable")  # of 16-bit numbers: a radix sort
        table = table.take(pa.array(order))
        bounds = np.searchsorted(numbers[order], np.arange(self._parts + 1))
        for part, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            for piece in _pieces(table.slice(begin, end - begin)):
                for data in fitting_chunks(piece, _encoded_with_own_paths):
                    yield Chunk(part, data, self._tag)


def part_of(hashes: Hashes, parts: int, level: int = 0) -> npt.NDArray[np.uint16]:
    """Returns the part of each key. Each level takes other bits, so that a part can be divided again."""
    rotated = hashes if level == 0 else hashes * np.uint64(2 * 0x9E3779B97F4A7C15 * level + 1 & 0xFFFFFFFFFFFFFFFF)
    return ((rotated >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.uint16)


def hashes_of(table: pa.Table) -> Hashes:
    columns = [column.combine_chunks() for column in key_columns(table)]
    return key_hashes(
        [column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks) for column in columns]
    )[0]


def gathered_tables(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Joins small tables, because each look-up has to prepare all deleted keys."""
    waiting: list[pa.Table] = []
    together = 0
    for table in tables:
        waiting.append(table)
        together += table.nbytes
        if together >= size:
            yield pa.concat_tables(waiting)
            waiting, together = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Cuts what is too large for a chunk. A heavy key may fill a whole part."""
    if not table.num_rows:
        return
    rows = max(1, table.num_rows * _CHUNK_BYTES // max(1, table.nbytes))
    for begin in range(0, table.num_rows, rows):
        yield table.slice(begin, rows)


def _encoded_with_own_paths(table: pa.Table) -> pa.Buffer:
    """Encodes rows without the paths of others. A task may read thousands of files, and send to thousands of parts."""
    place = table.schema.get_field_index(_FILE)
    if place < 0:
        return encoded(table)
    (files,) = table.column(place).chunks
    numbers = np.asarray(files.indices)
    used = np.zeros(len(files.dictionary), np.bool_)
    used[numbers] = True
    own = (np.cumsum(used, dtype=np.int32) - 1)[numbers]
    paths = files.dictionary.filter(pa.array(used))
    return encoded(table.set_column(place, _FILE, pa.DictionaryArray.from_arrays(pa.array(own, pa.int32()), paths)))


def _batch(columns: Sequence[pa.Array], others: dict[str, pa.Array]) -> pa.RecordBatch:
    names = [f"key-{number}" for number in range(len(columns))]
    return pa.RecordBatch.from_arrays([*columns, *others.values()], names=[*names, *others])
