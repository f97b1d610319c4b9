"""Sorts rows by the words of their keys.

The rows are sorted by the first bits of their keys. The number of the row fills the rest of each 64-bit number, so that
NumPy sorts plain numbers, which takes a third of the time of sorting indirectly. Only rows whose first bits are equal
are sorted again by the next bits. Rows with equal keys keep their order.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidyberg.execute.kernel.order.byte_strings import Words
from tidyberg.execute.kernel.order.keys import Level, Positions

_WORD_BITS = 64
_MIN_FREE_BITS = 10  # for fewer bits of the next level, its words need not be computed for all rows


def positions_by(levels: Sequence[Level], count: int) -> Positions:
    """Returns the positions of `count` rows in the order of their words."""
    order = np.arange(count, dtype=np.int64)
    places, groups, number_of_groups = order.copy(), np.zeros(0, np.uint64), 1
    bits = _Bits(levels)
    is_first = True
    while len(places) > 1:
        rows = order[places]
        row_bits = _bits_for(len(rows) - 1)
        words, taken = bits.take(None if is_first else rows, _room(number_of_groups, row_bits))
        is_first = False
        if words is None:
            break
        packed = words << np.uint64(row_bits)
        packed |= np.arange(len(rows), dtype=np.uint64)
        if number_of_groups > 1:
            packed |= groups << np.uint64(taken + row_bits)
        packed.sort()
        order[places] = rows[(packed & np.uint64((1 << row_bits) - 1)).view(np.int64)]
        if bits.are_taken:
            break
        packed >>= np.uint64(row_bits)
        tied, starts = _ties(packed)
        places = places[tied]
        groups = np.cumsum(starts[tied], dtype=np.uint64) - np.uint64(1) if len(places) else groups[:0]
        number_of_groups = int(groups[-1]) + 1 if len(places) else 1
    return order


def first_unsorted(levels: Sequence[Level], count: int) -> int | None:
    """Returns the position of the first row that must come before the row above it; None if there is none."""
    upper = np.arange(max(0, count - 1), dtype=np.int64)
    found: int | None = None
    for level in levels:
        if not len(upper):
            break
        if len(upper) == count - 1:
            words = level()
            above, below = words[:-1], words[1:]
        else:  # one call, because ranks compare only within a call
            above, below = np.split(level(np.concatenate([upper, upper + 1])), 2)
        wrong = np.flatnonzero(above > below)
        if len(wrong):
            first = int(upper[wrong[0]]) + 1
            found = first if found is None else min(found, first)
        upper = upper[above == below]
    return found


def equal_runs(levels: Sequence[Level], order: Positions) -> Positions:
    """Returns where each run of rows with equal keys begins, if the rows are taken in this order."""
    upper = np.arange(max(0, len(order) - 1), dtype=np.int64)
    is_start = np.zeros(len(order), np.bool_)
    is_start[:1] = True
    for level in levels:
        if not len(upper):
            break
        above, below = np.split(level(order[np.concatenate([upper, upper + 1])]), 2)
        is_start[upper[above != below] + 1] = True
        upper = upper[above == below]
    return np.flatnonzero(is_start)


class _Bits:
    """Takes the bits of keys from the highest to the lowest. Bits that all rows share are left out."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = list(levels)
        self._level = 0
        self._least = np.uint64(0)  # the least word of the level
        self._rest = 0  # the bits of the level that are left, if it did not fit; 0: the level is new

    @property
    def are_taken(self) -> bool:
        return self._level == len(self._levels)

    def take(self, rows: Positions | None, room: int) -> tuple[Words | None, int]:
        """Returns up to `room` bits of the rows' keys, and how many bits these are; None if there are no more bits."""
        taken: Words | None = None
        used = 0
        while not self.are_taken and used < room:
            if used and room - used < _MIN_FREE_BITS:
                break
            words, bits = self._reduced(self._levels[self._level](rows))
            free = room - used
            if bits > free:
                words = words >> np.uint64(bits - free)
                self._rest = bits - free
            else:
                self._level += 1
                self._rest = 0
            bits = min(bits, free)
            if bits:
                taken = words if taken is None else (taken << np.uint64(bits)) | words
            used += bits
        return taken, used

    def _reduced(self, words: Words) -> tuple[Words, int]:
        """Returns the words without the bits that were taken before, and how many bits they have."""
        if self._rest:
            words = (words - self._least) & np.uint64((1 << self._rest) - 1)
        else:
            self._least = words.min()
            words = words - self._least
        return words, int(words.max()).bit_length()


def _ties(words: Words) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Returns which of the sorted words equal a neighbour, and which of them are the first of their kind."""
    same = words[1:] == words[:-1]
    tied = np.zeros(len(words), np.bool_)
    if not same.any():
        return tied, tied
    tied[1:] = same
    tied[:-1] |= same
    starts = np.ones(len(words), np.bool_)
    starts[1:] = ~same
    return tied, starts


def _room(groups: int, row_bits: int) -> int:
    room = _WORD_BITS - row_bits - _bits_for(groups - 1)
    assert room > 0, "too many rows for one sort"
    return room


def _bits_for(number: int) -> int:
    return number.bit_length()
