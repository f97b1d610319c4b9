"""Space-filling curves: z-order and Hilbert. A coordinate is the rank of a value among sampled quantiles.

Ranks make every type a coordinate, use the whole range of numbers, and do not care how far apart values are or how long
the prefix is that strings share. Both curves first interleave the bits of the coordinates. The Hilbert curve then walks
through the interleaved number, a few bits at a time, with tables that say how the curve turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.order.bounds import KeyBounds
from tidyberg.execute.kernel.order.byte_strings import Words
from tidyberg.execute.kernel.order.keys import Positions, sort_levels
from tidyberg.execute.kernel.order.values import as_table, from_ipc, key_sources, to_ipc
from tidyberg.execute.kernel.order.word_sort import equal_runs, positions_by
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import Curve, SortField, SortKey

MAX_CURVE_COLUMNS = 8  # with more columns, every file would cover nearly all values of each
_MAX_COORDINATE_BITS = 12  # 4,096 quantiles; a finer grid would need a larger sample
_SAMPLE = 100_000  # rows that are enough for these quantiles
_STEP_BITS = 12  # the most interleaved bits that one step along the Hilbert curve takes


def coordinate_bits(columns: int) -> int:
    """Returns the number of bits of each coordinate. Together they fit a signed number."""
    return min(_MAX_COORDINATE_BITS, 63 // columns)


@dataclass(frozen=True)
class CurveSpace:
    """The quantiles of every column, which turn values into coordinates. It is small and can be pickled."""

    key: SortKey
    quantiles: tuple[bytes, ...]  # for each column: its distinct quantiles, as Arrow IPC
    ranks: tuple[bytes, ...]  # for each column: the coordinate of each quantile, as 32-bit numbers

    def indexes(self, rows: pa.Table | pa.RecordBatch) -> Words:
        """Returns the place of each row on the curve."""
        table = as_table(rows)
        sources = key_sources(table.schema, self.key)
        places = interleaved([axis.ranks(source.of(table)) for source, axis in zip(sources, self._axes, strict=True)])
        return hilbert_indexes(places, len(sources)) if self.key.curve is Curve.HILBERT else places

    @cached_property
    def _axes(self) -> "list[_Axis]":
        parts = zip(self.key.fields, self.quantiles, self.ranks, strict=True)
        return [
            _Axis.of(field, from_ipc(quantiles), np.frombuffer(ranks, np.int32)) for field, quantiles, ranks in parts
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_axes"}


@dataclass(frozen=True)
class _Axis:
    bounds: KeyBounds
    coordinates: npt.NDArray[np.int32]  # by twice the number of lesser quantiles, plus one if the value is a quantile

    @classmethod
    def of(cls, field: SortField, quantiles: list[pa.Array], ranks: npt.NDArray[np.int32]) -> "_Axis":
        # A value between two quantiles belongs to the lower one.
        coordinates = np.concatenate([ranks[:1], np.repeat(ranks, 2)]) if len(ranks) else np.zeros(1, np.int32)
        return cls(KeyBounds(quantiles, (field,)), coordinates)

    def ranks(self, values: pa.Array) -> npt.NDArray[np.int32]:
        less, not_greater = self.bounds.places([values])
        ranks: npt.NDArray[np.int32] = self.coordinates[less + not_greater]
        return ranks


def sampled_space(rows: pa.Table, key: SortKey) -> CurveSpace:
    """Takes the quantiles from the rows themselves, or from some of them if they are many."""
    step = max(1, rows.num_rows // _SAMPLE)
    return curve_space(rows if step == 1 else rows.take(pa.array(np.arange(0, rows.num_rows, step))), key)


def curve_space(sample: pa.Table | pa.RecordBatch, key: SortKey) -> CurveSpace:
    """Takes the quantiles of every column from a sample of rows."""
    if key.curve is None or not 2 <= len(key.fields) <= MAX_CURVE_COLUMNS:
        raise KernelFailure(
            FailureKind.SCHEMA,
            f"A curve needs 2 to {MAX_CURVE_COLUMNS} columns, but the key has {len(key.fields)}.",
        )
    table = as_table(sample)
    bits = coordinate_bits(len(key.fields))
    quantiles, ranks = [], []
    for source in key_sources(table.schema, key):
        values = source.of(table)
        places, coordinates = _quantiles(values, source.field, bits)
        quantiles.append(to_ipc([values.take(pa.array(places))]))
        ranks.append(coordinates.tobytes())
    return CurveSpace(key, tuple(quantiles), tuple(ranks))


def _quantiles(values: pa.Array, field: SortField, bits: int) -> tuple[Positions, npt.NDArray[np.int32]]:
    """Returns the positions of distinct values that are quantiles, and the coordinate of each.

    The coordinate of a value is its place in the sorted sample; that of a frequent value is the middle of its rows. A
    column with two values therefore has coordinates that are far apart, and divides the curve like any other column.
    """
    levels = sort_levels([values], (field,))
    order = positions_by(levels, len(values))
    starts = equal_runs(levels, order)
    ends = np.append(starts[1:], len(values))[: len(starts)]
    if len(starts) == 1:  # along an edge of the space, the curve follows the other columns
        return order[starts], np.zeros(1, np.int32)
    cells = ((starts + ends) << bits) // max(1, 2 * len(values))
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = cells[1:] != cells[:-1]
    return order[starts[is_first]], cells[is_first].astype(np.int32)


def interleaved(coordinates: Sequence[npt.NDArray[Any]]) -> Words:
    """Returns the bits of all coordinates in one number, in turn: the place of each point in z-order."""
    found = np.zeros(len(coordinates[0]), np.uint64)
    for number, coordinate in enumerate(coordinates):
        found |= _spread(len(coordinates), number)[coordinate]
    return found


@cache
def _spread(columns: int, number: int) -> Words:
    """Returns every coordinate with its bits spread out, so that coordinates interleave; the first has the top bit."""
    bits = coordinate_bits(columns)
    coordinates = np.arange(1 << bits, dtype=np.uint64)
    spread = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        place = bit * columns + columns - 1 - number
        spread |= ((coordinates >> np.uint64(bit)) & np.uint64(1)) << np.uint64(place)
    return spread


def hilbert_indexes(interleaved: Words, columns: int) -> Words:
    """Returns the places on the Hilbert curve of points that are given by their interleaved coordinates."""
    levels_left = coordinate_bits(columns)
    levels_at_once = max(1, _STEP_BITS // columns)
    state = np.zeros(len(interleaved), np.int64)
    indexes = np.zeros(len(interleaved), np.uint64)
    while levels_left:
        levels = min(levels_at_once, levels_left)
        levels_left -= levels
        digits, next_state = _hilbert_tables(columns, levels)
        width = columns * levels
        step = (interleaved >> np.uint64(columns * levels_left)).view(np.int64) & ((1 << width) - 1)
        step |= state << width
        indexes = (indexes << np.uint64(width)) | digits[step]
        state = next_state[step]
    return indexes


@cache
def _hilbert_tables(columns: int, levels: int) -> tuple[Words, Positions]:
    """Returns the digits of the curve and the next state, by state and interleaved bits of several levels.

    A state is the corner at which the curve enters a cube, and the direction in which it leaves it (C. Hamilton,
    "Compact Hilbert Indices", 2006).
    """
    size = 1 << columns
    if levels == 1:
        rows = [
            _turn(entry, direction, bits, columns)
            for direction in range(columns)
            for entry in range(size)
            for bits in range(size)
        ]
        digits = np.array([digit for digit, _ in rows], np.uint64)
        return digits, np.array([state for _, state in rows], np.int64)
    first_digits, first_states = _hilbert_tables(columns, 1)
    rest_digits, rest_states = _hilbert_tables(columns, levels - 1)
    width = columns * (levels - 1)
    state, bits = np.divmod(np.arange(columns * size << (columns * levels), dtype=np.int64), 1 << (columns * levels))
    first = (state << columns) | (bits >> width)
    rest = (first_states[first] << width) | (bits & ((1 << width) - 1))
    return (first_digits[first] << np.uint64(width)) | rest_digits[rest], rest_states[rest]


def _turn(entry: int, direction: int, bits: int, columns: int) -> tuple[int, int]:
    """Returns the digit of a sub-cube on the curve through a cube, and the state of the curve inside of it."""
    size = 1 << columns
    digit = _gray_inverse(_rotated(bits ^ entry, -(direction + 1), columns))
    start = 0 if digit == 0 else _gray(2 * ((digit - 1) // 2))
    turn = 0 if digit == 0 else _trailing_ones(digit - 1 if digit % 2 == 0 else digit) % columns
    next_entry = entry ^ _rotated(start, direction + 1, columns)
    return digit, (direction + turn + 1) % columns * size + next_entry


def _gray(number: int) -> int:
    return number ^ (number >> 1)


def _gray_inverse(number: int) -> int:
    found = 0
    while number:
        found ^= number
        number >>= 1
    return found


def _trailing_ones(number: int) -> int:
    return (~number & (number + 1)).bit_length() - 1


def _rotated(bits: int, places: int, columns: int) -> int:
    """Rotates the lowest `columns` bits to the left."""
    places %= columns
    return ((bits << places) | (bits >> (columns - places))) & ((1 << columns) - 1)
