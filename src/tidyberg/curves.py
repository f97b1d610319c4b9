"""Places of points on the space-filling curves: z-order and Hilbert.

Workers order rows by these places, and planning simulates that order on sampled rows, so both share this module. A
coordinate is a whole number that is less than 2 ** coordinate_bits(columns). Both curves first interleave the bits of
the coordinates. The Hilbert curve then walks through the interleaved number, a few bits at a time, with tables that say
how the curve turns.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MAX_CURVE_COLUMNS = 8  # with more columns, every file would cover nearly all values of each
_MAX_COORDINATE_BITS = 12  # 4,096 quantiles; a finer grid would need a larger sample
_STEP_BITS = 12  # the most interleaved bits that one step along the Hilbert curve takes


def coordinate_bits(columns: int) -> int:
    """Returns the number of bits of each coordinate. Together they fit a signed number."""
    return min(_MAX_COORDINATE_BITS, 63 // columns)


def hilbert_places(coordinates: Sequence[npt.NDArray[Any]]) -> Words:
    """Returns the place of each point on the Hilbert curve."""
    return _hilbert_walk(zorder_places(coordinates), len(coordinates))


def zorder_places(coordinates: Sequence[npt.NDArray[Any]]) -> Words:
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


def _hilbert_walk(interleaved: Words, columns: int) -> Words:
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
