"""Finds the rows that equality deletes apply to. Keys are compared exactly, and null equals null.

Each column's value becomes a number, its place among the distinct values, and the numbers of a key are combined. There
are no hashes, so no collision can delete a row by accident.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]
_ABSENT = -1


class EqualityDeletes:
    """The equality deletes of one set of columns: each key, with the highest sequence number that deletes it."""

    def __init__(self, keys: Sequence[Sequence[pa.ChunkedArray]], sequence_numbers: Sequence[int | Codes]) -> None:
        """`keys[i]` holds the columns of the i-th delete file. Order and types are the same for all files.

        A file has one sequence number, or an array of them with one per row.
        """
        width = len(keys[0])
        columns = [plain(_concatenate([file[number] for file in keys])) for number in range(width)]
        self._values = [pc.unique(column) for column in columns]
        self._combinations: list[Codes] = []
        codes = self._column_codes(columns[0], 0)
        for number in range(1, width):
            codes = codes * len(self._values[number]) + self._column_codes(columns[number], number)
            distinct, codes = np.unique(codes, return_inverse=True)
            self._combinations.append(distinct)
        per_row = np.concatenate(
            [
                np.broadcast_to(np.asarray(number, np.int64), len(file[0]))
                for file, number in zip(keys, sequence_numbers, strict=True)
            ]
        )
        size = int(codes.max(initial=_ABSENT)) + 1
        self._latest = np.full(size + 1, np.iinfo(np.int64).min)  # the last entry is for keys that are not deleted
        np.maximum.at(self._latest, codes, per_row)

    def positions(self, columns: Sequence[pa.ChunkedArray], sequence_number: int | Codes) -> Positions:
        """Returns the rows that a delete applies to: data.seq < delete.seq [I3]. Rows may have a number each."""
        columns = [plain(column) for column in columns]
        codes = self._column_codes(columns[0], 0)
        for number, distinct in enumerate(self._combinations, start=1):
            more = self._column_codes(columns[number], number)
            found = (codes != _ABSENT) & (more != _ABSENT)
            combined = np.where(found, codes * len(self._values[number]) + more, _ABSENT)
            place = np.searchsorted(distinct, combined)
            place[place == len(distinct)] = 0
            codes = np.where(distinct[place] == combined, place, _ABSENT) if len(distinct) else combined
        return np.flatnonzero(self._latest[codes] > sequence_number).astype(np.int64)

    def values(self, number: int) -> pa.Array:
        """Returns the distinct deleted values of a column."""
        return self._values[number]

    def _column_codes(self, column: pa.ChunkedArray, number: int) -> Codes:
        """Returns the number of each value among the deleted ones. Searches in the smaller set, which is cheaper."""
        values = self._values[number]
        if len(column) >= len(values):
            return _places(column, values)
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        numbers = np.full(len(encoded.dictionary), _ABSENT)
        places = _places(values, encoded.dictionary)
        numbers[places[places != _ABSENT]] = np.flatnonzero(places != _ABSENT)
        found: Codes = numbers[encoded.indices.to_numpy()]
        return found


def _places(values: pa.Array | pa.ChunkedArray, among: pa.Array) -> Codes:
    """Returns the place of each value in `among`; null matches null."""
    return np.asarray(pc.fill_null(pc.index_in(values, value_set=among), _ABSENT).to_numpy(), np.int64)


def _concatenate(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Removes extension types, which Arrow's look-ups refuse, and makes all NaNs equal. The two zeros stay distinct."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_floating(column.type):
        nan = pa.scalar(float("nan"), column.type)
        column = pc.if_else(pc.is_nan(column), nan, column)
    return column
