"""A Bloom filter of deleted keys. It never denies a key that it holds, so no deleted row is missed.

Each key sets a few bits of one 64-bit word. One memory access per row is then enough, at the price of slightly more
false positives than with bits all over the filter. This is our own code because executors have no library for it.
"""

import numpy as np
import numpy.typing as npt

from tidyberg.execute.kernel.columns.checksum import Hashes

WORD_BITS = 64
_BITS_PER_KEY = 12  # of the filter, if it may be as large as it should
_MOST_WORDS = 8 * 1024 * 1024  # 64 MB
_LEAST_BITS_PER_KEY = 1.5  # below that, nearly every row would pass
_MOST_SET = 5
_STEP = np.uint64(6)  # bits that choose one of the bits of a word
_IN_WORD = np.uint64(WORD_BITS - 1)
_ONE = np.uint64(1)


def filter_shape(keys: int) -> tuple[int, int]:
    """Returns the number of words, a power of 2, and of bits that each key sets. Both are 0 if no filter helps."""
    wanted = max(1, keys) * _BITS_PER_KEY / WORD_BITS
    words = min(_MOST_WORDS, 1 << max(0, int(np.ceil(np.log2(wanted)))))
    bits_per_key = words * WORD_BITS / max(1, keys)
    if bits_per_key < _LEAST_BITS_PER_KEY:
        return 0, 0
    return words, int(min(_MOST_SET, max(1, round(0.7 * bits_per_key))))


class KeyFilter:
    def __init__(self, words: Hashes, bits_per_key: int) -> None:
        self._words = words
        self._bits = bits_per_key

    @classmethod
    def empty(cls, words: int, bits_per_key: int) -> "KeyFilter":
        return cls(np.zeros(words, np.uint64), bits_per_key)

    def add(self, hashes: Hashes) -> None:
        places, masks = self._places(hashes), self._masks(hashes)
        while len(places):
            # Of several keys for one word, an assignment keeps the last. The others are added in the next pass.
            self._words[places] |= masks
            missing = (self._words[places] & masks) != masks
            places, masks = places[missing], masks[missing]

    def may_hold(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        masks = self._masks(hashes)
        found: npt.NDArray[np.bool_] = (self._words[self._places(hashes)] & masks) == masks
        return found

    def unite(self, words: Hashes) -> None:
        self._words |= words

    @property
    def words(self) -> Hashes:
        return self._words

    def _places(self, hashes: Hashes) -> npt.NDArray[np.int64]:
        # The high bits choose the word and the low bits those in it, so that they are independent.
        places: npt.NDArray[np.int64] = ((hashes >> np.uint64(32)) & np.uint64(len(self._words) - 1)).astype(np.int64)
        return places

    def _masks(self, hashes: Hashes) -> Hashes:
        masks = np.zeros(len(hashes), np.uint64)
        for number in range(self._bits):
            masks |= _ONE << ((hashes >> (_STEP * np.uint64(number))) & _IN_WORD)
        return masks
