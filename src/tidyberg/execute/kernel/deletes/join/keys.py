"""Reads the key columns of delete files and data files: values that compare and hash alike on both sides."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.checksum import Hashes, row_hashes
from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.execute.kernel.deletes.equality import plain
from tidyberg.execute.kernel.deletes.join.key_ranges import KeyRange, file_ranges
from tidyberg.execute.kernel.read.open_files import OpenFile, fetch_source, open_file
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.execute.kernel.read.row_ranges import row_range
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Storage


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that one set of equality ids names, and how data files are read in them."""

    schema: bytes  # Arrow IPC, of equality_schemas
    constants: dict[int, Any] = field(default_factory=dict)
    name_mapping: dict[tuple[str, ...], int] | None = None
    batch_rows: int = 131_072


@dataclass(frozen=True)
class KeyBatch:
    """Keys of adjacent rows, one plain array per key column."""

    columns: list[pa.Array]
    first_row: int  # its position in the file

    def __len__(self) -> int:
        return len(self.columns[0])

    def hashes(self) -> tuple[Hashes, Hashes]:
        """Returns two independent hashes of each key: one divides keys among parts, the other is for filters."""
        return key_hashes(self.columns)


class KeyReader:
    """Reads keys of one set of columns."""

    def __init__(self, columns: KeyColumns, storage: Storage, should_stop: Callable[[], bool]) -> None:
        schema = pa.ipc.read_schema(pa.BufferReader(columns.schema))
        self.leaves: list[Leaf] = leaves(schema)
        self._columns = columns
        self._storage = storage

        def reader(constants: Mapping[int, Any], names: Mapping[tuple[str, ...], int] | None) -> Reader:
            return Reader(
                storage,
                schema,
                batch_rows=columns.batch_rows,
                constants=constants,
                should_stop=should_stop,
                name_mapping=names,
            )

        self._of_deletes = reader({}, {})
        self._of_rows = reader(columns.constants, columns.name_mapping)

    def open_deletes(self, delete: TaskInput) -> OpenFile:
        source, content = fetch_source(self._storage, delete.path, delete.size)
        with self._storage.guard(delete.path):
            footer = pq.read_metadata(source)
            rows_taken = None if delete.share is None else row_range(footer, delete)
        file = OpenFile(
            TaskInput(delete.path, delete.size, footer.num_rows, delete.sequence_number),
            source,
            footer,
            content,
            rows_taken=rows_taken,
        )
        if self._of_deletes.selection(file).ids is not None:
            raise KernelFailure(
                FailureKind.DAMAGED,
                f"The equality delete file {delete.path} has no field ids, so its columns are unknown.",
            )
        return file

    def open_rows(self, file: TaskInput) -> OpenFile:
        return open_file(self._storage, file)

    def deleted_keys(self, file: OpenFile) -> Iterator[KeyBatch]:
        return self._batches(self._of_deletes, file)

    def row_keys(self, file: OpenFile) -> Iterator[KeyBatch]:
        return self._batches(self._of_rows, file)

    def deleted_ranges(self, file: OpenFile) -> list[KeyRange]:
        return file_ranges(file, self._of_deletes, self.leaves, {})

    def row_ranges(self, file: OpenFile) -> list[KeyRange]:
        return file_ranges(file, self._of_rows, self.leaves, self._columns.constants)

    def _batches(self, reader: Reader, file: OpenFile) -> Iterator[KeyBatch]:
        first = file.first_row
        for batch in reader.batches(file, reader.selection(file)):
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                yield KeyBatch([_one_array(plain(leaf.of(table))) for leaf in self.leaves], first)
            first += batch.num_rows


def key_hashes(columns: Sequence[pa.Array]) -> tuple[Hashes, Hashes]:
    """Equal keys have equal hashes: null is a value, all NaNs are one, and the two zeros differ."""
    names = [str(number) for number in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=names)
    lanes = list(row_hashes(batch))
    if not lanes:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    return np.concatenate([first for first, _ in lanes]), np.concatenate([second for _, second in lanes])


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
