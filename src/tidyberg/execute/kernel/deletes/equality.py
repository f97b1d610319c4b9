"""Equality deletes as row positions: keys compared exactly, null equal to null, all columns together.

Keys are reduced to numbers column by column (which of the distinct values is it?) and the numbers combined, so no hash
can collide and no row is ever deleted by accident.
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
    """The equality deletes of one set of columns: each distinct key with the latest sequence number that deletes it."""

    def __init__(self, keys: Sequence[Sequence[pa.ChunkedArray]], sequence_numbers: Sequence[int]) -> None:
        """`keys[i]` are the columns of the i-th delete file, in one order and type for all files."""
        width = len(keys[0])
        columns = [_plain(_concatenate([file[number] for file in keys])) for number in range(width)]
        self._values = [pc.unique(column) for column in columns]
        self._combinations: list[Codes] = []
        codes = self._column_codes(columns[0], 0)
        for number in range(1, width):
            codes = codes * len(self._values[number]) + self._column_codes(columns[number], number)
            distinct, codes = np.unique(codes, return_inverse=True)
            self._combinations.append(distinct)
        per_row = np.repeat(np.asarray(sequence_numbers, np.int64), [len(file[0]) for file in keys])
        size = int(codes.max(initial=_ABSENT)) + 1
        self._latest = np.full(size + 1, np.iinfo(np.int64).min)  # the last place is for keys that are not deleted
        np.maximum.at(self._latest, codes, per_row)

    def positions(self, columns: Sequence[pa.ChunkedArray], sequence_number: int) -> Positions:
        """Rows of a data file of that sequence number that some delete applies to: data.seq < delete.seq [I3]."""
        columns = [_plain(column) for column in columns]
        codes = self._column_codes(columns[0], 0)
        for number, distinct in enumerate(self._combinations, start=1):
            more = self._column_codes(columns[number], number)
            found = (codes != _ABSENT) & (more != _ABSENT)
            combined = np.where(found, codes * len(self._values[number]) + more, _ABSENT)
            place = np.searchsorted(distinct, combined)
            place[place == len(distinct)] = 0
            codes = np.where(distinct[place] == combined, place, _ABSENT) if len(distinct) else combined
        return np.flatnonzero(self._latest[codes] > sequence_number).astype(np.int64)

    def _column_codes(self, column: pa.ChunkedArray, number: int) -> Codes:
        """The number of each value among the deleted ones. A look-up costs by the set it looks in: take the smaller."""
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
    """Where each value is in `among`; a null is where the null is."""
    return np.asarray(pc.fill_null(pc.index_in(values, value_set=among), _ABSENT).to_numpy(), np.int64)


def _concatenate(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without extension types, which Arrow's look-ups refuse, and with one NaN for all (the two zeros stay two)."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_floating(column.type):
        nan = pa.scalar(float("nan"), column.type)
        column = pc.if_else(pc.is_nan(column), nan, column)
    return column
