"""Reads variable-length integers at many positions of a buffer at once, in a few numpy operations.

Avro and Thrift both encode numbers and lengths as varints, so the Avro and the Parquet package share this module. Every
method takes an array of positions, one per lane. Methods that skip return the position after each value. Reads beyond
the end of the buffer return zeros, so damaged bytes can lead a lane to a wrong position but never out of the buffer.
Callers must compare the position where a lane ended with the position where it should have ended.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
_PADDING = bytes(16)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE, _SEVEN, _TOP_BYTE = np.uint64(1), np.uint64(7), np.uint64(56)
_ZERO = np.uint64(0)
# A mask for two bytes read as one number. If no bit is set, both are whole varints and the second is not negative.
_SHORT_PAIR = 0x8180
_LONGEST_VARINT = 10
_CHECK_EVERY = 256


class VarintError(ValueError):
    """The bytes are not varints, or a length points beyond the end of the buffer."""


class Buffer:
    """Joins blocks of bytes. No block begins at position 0, so 0 can mean null."""

    def __init__(self, contents: Sequence[bytes]) -> None:
        joined = b"".join([b"\0", *contents, _PADDING])
        self.bytes = np.frombuffer(joined, np.uint8)
        self.last = len(joined) - 8
        # The 8-byte word and the 2-byte pair that begin at each byte.
        self.words: Words = np.ndarray((self.last + 1,), "<u8", joined, 0, (1,))
        self.pairs = np.ndarray((self.last + 1,), "<u2", joined, 0, (1,))
        lengths = np.array([len(content) for content in contents], np.int64)
        self.ends: Positions = 1 + np.cumsum(lengths)
        self.starts: Positions = self.ends - lengths
        self.longest = int(lengths.max(initial=0))

    def byte_at(self, at: Positions) -> npt.NDArray[np.uint8]:
        return self.bytes.take(at, mode="clip")

    def word_at(self, at: Positions) -> Words:
        return self.words[np.minimum(at, self.last)]

    def skip_varints(self, at: Positions, count: int | Positions = 1) -> Positions:
        """Skips `count` varints. It counts the bytes that end a varint, eight bytes at a time."""
        if isinstance(count, int) and count == 1:
            first = self.byte_at(at)
            if not np.bitwise_or.reduce(first, initial=0) & 0x80:
                return at + 1
        left = np.broadcast_to(np.asarray(count, np.uint64), at.shape).copy()
        at = at.copy()
        for _ in range(2 + (_LONGEST_VARINT * (self.longest + 1)) // 8):
            # Byte n holds the number of varints that end at or before it.
            ended = ((~self.word_at(at) & _HIGH_BITS) >> _SEVEN) * _ONES
            total = ended >> _TOP_BYTE
            short = total < left
            if not short.any():
                unfinished = (((ended | _HIGH_BITS) - left * _ONES) & _HIGH_BITS) >> _SEVEN
                before_last = np.uint64(8) - ((unfinished * _ONES) >> _TOP_BYTE)
                return at + np.where(left == _ZERO, 0, (before_last + _ONE).astype(np.int64))
            at[short] += 8
            left[short] -= total[short]
        raise VarintError("a list does not end")

    def read_varints(self, at: Positions) -> npt.NDArray[np.int64]:
        """Returns the zigzag-decoded numbers at these positions."""
        word = self.word_at(at)
        ends = ~word & _HIGH_BITS
        value = _joined(word & ((ends & (~ends + _ONE)) - _ONE))
        long = np.flatnonzero(ends == _ZERO)  # nine or ten bytes
        if len(long):
            ninth, tenth = self.byte_at(at[long] + 8), self.byte_at(at[long] + 9)
            high = (ninth & 0x7F).astype(np.uint64) << _TOP_BYTE
            has_tenth = ninth >= 0x80
            if (has_tenth & (tenth > 1)).any():
                raise VarintError("a number has more than 64 bits")
            value[long] |= high | np.where(has_tenth, tenth.astype(np.uint64) << np.uint64(63), _ZERO)
        return ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)

    def read_length(self, at: Positions) -> tuple[Positions, Positions]:
        """Reads the lengths of bytes, strings or lists. Returns them and the positions after them."""
        first = self.byte_at(at)
        if not np.bitwise_or.reduce(first, initial=0) & 0x81:
            return (first >> 1).astype(np.int64), at + 1
        lengths = self.read_varints(at)
        if ((lengths < 0) | (lengths > self.longest)).any():
            raise VarintError("a length is beyond the end")
        return lengths, self.skip_varints(at)

    def skip_bytes(self, at: Positions) -> Positions:
        lengths, at = self.read_length(at)
        return at + lengths

    def skip_keyed_bytes(self, at: Positions, counts: Positions) -> Positions:
        """Skips `counts` pairs of a number and bytes, as in Iceberg's maps of column bounds."""
        at = at.copy()
        most, fewest = int(counts.max(initial=0)), int(counts.min()) if len(counts) else 0
        for number in range(most):
            if number < fewest:
                at = self._skip_pair(at)
            else:
                lanes = np.flatnonzero(counts > number)
                at[lanes] = self._skip_pair(at[lanes])
            if number % _CHECK_EVERY == 0 and at.max(initial=0) > self.ends[-1]:
                raise VarintError("a list goes on beyond the end")
        return at

    def _skip_pair(self, at: Positions) -> Positions:
        pair = self.pairs[np.minimum(at, self.last)]
        if not np.bitwise_or.reduce(pair, initial=0) & _SHORT_PAIR:
            return at + 2 + (pair >> 9)
        return self.skip_bytes(self.skip_varints(at))


def _joined(word: Words) -> Words:
    """Joins the low seven bits of each byte without the gaps."""
    word = word & _LOW_BITS
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> _ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (word & np.uint64(0x000000000FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
