"""Writes the rows that a join has found, as position delete files for later tasks of the job."""

import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.deletes.bitmaps import Positions
from tidyberg.execute.kernel.deletes.join.scratch_files import ScratchPlace, write_scratch
from tidyberg.execute.kernel.deletes.position_files import POSITION_DELETE_SCHEMA
from tidyberg.model.shuffle import ShuffleAttempt

_MOST_ROWS = 2_000_000  # in memory, and in a file
_ROW_GROUP_ROWS = 128 * 1024  # a reader skips row groups without its data files


@dataclass(frozen=True, slots=True)
class FoundRows:
    """A file with positions of deleted rows."""

    path: str
    size: int
    records: int


class FoundRowsWriter:
    """Collects rows, and writes a file each time there are enough of them."""

    def __init__(self, place: ScratchPlace, part: int, attempt: ShuffleAttempt) -> None:
        self._place = place
        self._part = part
        self._attempt = attempt
        self._numbers: dict[str, int] = {}
        self._files: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = []
        self._positions: list[Positions] = []
        self._rows = 0
        self._written: list[FoundRows] = []

    def add(self, paths: pa.ChunkedArray, positions: Positions) -> None:
        begin = 0
        for chunk in paths.chunks:
            names = chunk.dictionary.to_pylist()
            for start in range(0, len(chunk), _MOST_ROWS):
                part = chunk.indices.slice(start, _MOST_ROWS)
                numbers = np.array([self._numbers.setdefault(name, len(self._numbers)) for name in names], np.int32)
                self._files.append(numbers[np.asarray(part)])
                self._positions.append(positions[begin : begin + len(part)])
                begin += len(part)
                self._rows += len(part)
                if self._rows >= _MOST_ROWS:
                    self._write()

    def finish(self) -> tuple[FoundRows, ...]:
        if self._rows:
            self._write()
        return tuple(self._written)

    def _write(self) -> None:
        paths = sorted(self._numbers)
        rank = np.empty(len(paths), np.int32)
        rank[[self._numbers[path] for path in paths]] = np.arange(len(paths), dtype=np.int32)
        files, positions = rank[np.concatenate(self._files)], np.concatenate(self._positions)
        self._numbers, self._files, self._positions, self._rows = {}, [], [], 0
        order = np.lexsort((positions, files))
        columns = [pa.DictionaryArray.from_arrays(pa.array(files[order]), pa.array(paths)), pa.array(positions[order])]
        table = pa.Table.from_arrays(columns, schema=POSITION_DELETE_SCHEMA)
        sink = io.BytesIO()
        with pq.ParquetWriter(
            sink,
            table.schema,
            compression="zstd",
            use_dictionary=["file_path"],
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
            store_schema=False,
        ) as writer:
            writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        path = self._place.path(self._part, self._attempt.number, len(self._written))
        size = write_scratch(self._attempt.storage, path, sink.getbuffer())
        self._written.append(FoundRows(path, size, len(order)))
