"""Reads delete files: position deletes, deletion vectors and equality deletes."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import FIELD_ID
from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.execute.kernel.deletes.bitmaps import read_deletion_vector
from tidyberg.execute.kernel.deletes.cache import SharedCache
from tidyberg.execute.kernel.deletes.equality import EqualityDeletes
from tidyberg.execute.kernel.deletes.vectors import read_vectors
from tidyberg.execute.kernel.read.open_files import MB, OpenFile, fetch_source
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.read.row_ranges import row_group_starts
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskDelete, TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched

Positions = npt.NDArray[np.int64]

# The spec reserves these field ids for position delete files. A file may also hold the deleted rows; they are not read.
_POSITION_COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.dictionary(pa.int32(), pa.string()), metadata={FIELD_ID: b"2147483546"}),
        pa.field("pos", pa.int64(), metadata={FIELD_ID: b"2147483545"}),
    ]
)
# Some writers omit the ids.
_POSITION_NAMES: dict[tuple[str, ...], int] = {("file_path",): 2147483546, ("pos",): 2147483545}
_MAX_CACHED_ROWS = 8_000_000  # larger files are not cached; each task keeps only the positions it needs
_ENTRY_BYTES = 200  # memory of a dictionary entry without its value

_cache = SharedCache(256 * MB)  # one per process: the tasks of a worker often share deletes


def forget_delete_files() -> None:
    """Empties the cache of this process."""
    _cache.clear()


class DeleteFileReader:
    """Decodes delete files of one storage. Files that several tasks may need are cached."""

    def __init__(self, storage: Storage, batch_rows: int, should_stop: Callable[[], bool]) -> None:
        self._storage = storage
        self._identity = storage.identity
        self._batch_rows = batch_rows
        self._should_stop = should_stop
        self._position_reader = self._reader(_POSITION_COLUMNS, _POSITION_NAMES)

    def positions(self, delete: TaskDelete, paths: Collection[str]) -> Mapping[str, Positions]:
        """Returns sorted positions by data file. The result may contain files that are not in `paths`."""
        if delete.referenced_data_file is not None:
            return self._read_positions(self._open(delete), paths)  # no other task reads that data file

        def make() -> tuple[Mapping[str, Positions] | None, int]:
            file = self._open(delete)
            if file.footer.num_rows > _MAX_CACHED_ROWS:
                return None, _ENTRY_BYTES
            found = self._read_positions(file, None)
            return found, sum(_ENTRY_BYTES + len(path) + places.nbytes for path, places in found.items())

        kept = _cache.get((self._identity, "position", delete.path), make)
        return kept if kept is not None else self._read_positions(self._open(delete), paths)

    def joined_positions(self, delete: TaskDelete, paths: Collection[str]) -> Iterator[tuple[str, Positions]]:
        """Yields sorted positions of these data files, in pieces. Reads only row groups that may hold some."""
        file = self._open(delete)
        with closing(file.source):
            wanted = sorted(paths)
            numbers = [number for number in file.row_groups if _may_name(file.footer.row_group(number), wanted)]
            if not numbers:
                return
            starts = [*row_group_starts(file.footer), file.footer.num_rows]
            file = replace(file, rows_taken=(starts[numbers[0]], starts[numbers[-1] + 1]))
            for batch in self._position_reader.scan(file, self._position_reader.selection(file)):
                for path, positions in _by_path(batch.column(0), batch.column(1)):
                    if path in paths:
                        yield path, positions

    def deletion_vectors(self, vectors: Sequence[TaskDelete]) -> list[Positions]:
        """Returns the positions of vectors that one request fetches."""
        return [
            _decoded(vector, blob) for vector, blob in zip(vectors, read_vectors(self._storage, vectors), strict=True)
        ]

    def keys(self, delete: TaskDelete, schema: pa.Schema) -> pa.Table:
        """Returns the rows of an equality delete file in `schema`: promoted, and null if the file lacks a column."""

        def make() -> tuple[pa.Table, int]:
            found = pa.Table.from_batches(self.key_batches(delete, schema), schema=schema)
            return found, _ENTRY_BYTES + found.nbytes

        return _cache.get((self._identity, "equality", delete.path, bytes(schema.serialize())), make)

    def key_batches(self, delete: TaskDelete, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the rows of an equality delete file in `schema`, without keeping them."""
        file = self._open(delete)
        reader = self._reader(schema, {})
        if reader.selection(file).ids is not None:
            raise KernelFailure(
                FailureKind.DAMAGED,
                f"The equality delete file {delete.path} has no field ids, so its columns are unknown.",
            )
        yield from reader.batches(file, reader.selection(file))

    def matcher(self, deletes: Sequence[TaskDelete], schema: pa.Schema) -> EqualityDeletes:
        """Returns one look-up for all deletes of a set of columns; tasks with the same deletes share it."""
        columns = leaves(schema)

        def make() -> tuple[EqualityDeletes, int]:
            with closing(prefetched(partial(self.keys, schema=schema), deletes)) as read:
                tables = list(read)
            keys = [[leaf.of(table) for leaf in columns] for table in tables]
            made = EqualityDeletes(keys, [delete.sequence_number for delete in deletes])
            return made, _ENTRY_BYTES + 2 * sum(table.nbytes for table in tables)

        files = tuple((delete.path, delete.sequence_number) for delete in deletes)
        return _cache.get((self._identity, "matcher", files, bytes(schema.serialize())), make)

    def _read_positions(self, file: OpenFile, paths: Collection[str] | None) -> Mapping[str, Positions]:
        reader = self._position_reader
        parts: dict[str, list[Positions]] = defaultdict(list)
        for batch in reader.batches(file, reader.selection(file)):
            if batch.column(0).null_count or batch.column(1).null_count:
                raise KernelFailure(
                    FailureKind.DAMAGED,
                    f"The position delete file {file.input.path} is damaged: a file path or position is null.",
                )
            for path, positions in _by_path(batch.column(0), batch.column(1)):
                if paths is None or path in paths:
                    parts[path].append(positions)
        return {path: sorted_unique(np.concatenate(some)) for path, some in parts.items()}

    def _reader(self, schema: pa.Schema, names: Mapping[tuple[str, ...], int]) -> Reader:
        return Reader(
            self._storage,
            schema,
            batch_rows=self._batch_rows,
            constants={},
            should_stop=self._should_stop,
            name_mapping=names,
        )

    def _open(self, delete: TaskDelete) -> OpenFile:
        if delete.content is not None:
            content = pa.py_buffer(delete.content)
            source = pa.BufferReader(content)
        else:
            source, content = fetch_source(self._storage, delete.path, delete.size)
        with self._storage.guard(delete.path):
            footer = pq.read_metadata(source)
        return OpenFile(TaskInput(delete.path, delete.size, footer.num_rows), source, footer, content)


def _decoded(vector: TaskDelete, blob: bytes) -> Positions:
    where = f"{vector.path} for {vector.referenced_data_file}"
    positions = sorted_unique(read_deletion_vector(blob, where))
    if vector.records is not None and len(positions) != vector.records:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"The deletion vector in {where} deletes {len(positions)} rows, but the table's manifest says "
            f"{vector.records}.",
        )
    return positions


def _may_name(group: pq.RowGroupMetaData, sorted_paths: Sequence[str]) -> bool:
    """Returns True if a row group of positions may name one of the data files. Files are sorted by path."""
    statistics = group.column(0).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    place = bisect_left(sorted_paths, statistics.min)
    return place < len(sorted_paths) and sorted_paths[place] <= statistics.max


def delete_bytes(storage: Storage, delete: TaskDelete) -> bytes:
    """Returns the bytes of a delete file."""
    place = storage.place(delete.path)
    if place.object is not None:
        return storage.read_whole(place, delete.size).to_pybytes()  # type: ignore[no-any-return]
    source = storage.open_input(place)
    with storage.guard(delete.path), source:
        content, size = bytes(source.read()), int(source.size())
    if len(content) != size:
        raise KernelFailure(FailureKind.STORAGE, f"Reading {delete.path} returned {len(content)} of its {size} bytes.")
    return content


def sorted_unique(positions: Positions) -> Positions:
    """Sorts and removes duplicates. Most writers do that already, and then a check is enough."""
    return positions if bool(np.all(positions[1:] > positions[:-1])) else np.unique(positions)


def _by_path(paths: pa.DictionaryArray, positions: pa.Array) -> Iterator[tuple[str, Positions]]:
    codes = paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    places = positions.to_numpy()[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for code, part in zip(codes[starts].tolist(), np.split(places, starts[1:]), strict=True):
        yield paths.dictionary[code].as_py(), part
