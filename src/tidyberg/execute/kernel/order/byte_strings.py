"""Strings and bytes as words: eight bytes at a time, for many values at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]

WORD_BYTES = 8
_SAMPLE = 65_536  # strings of a column that are looked at
_FEW_DISTINCT = 0.8
# By the number of bytes that are left of a string: the mask that clears bytes of the next string.
_MASKS = np.array([(2**64 - 1) ^ (2 ** (64 - 8 * left) - 1) for left in range(WORD_BYTES + 1)], np.uint64)


@dataclass(frozen=True)
class ByteStrings:
    """The values of a column of strings or bytes. A null is an arbitrary value."""

    values: pa.Array  # binary or large binary
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    windows: Words  # at every byte, the eight bytes from there on, with the first byte as the highest
    last_window: int

    @classmethod
    def of(cls, values: pa.Array) -> "ByteStrings":
        wide = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
        values = values.cast(pa.large_binary() if wide else pa.binary())
        _, places, content = values.buffers()
        if places is None or not len(values):
            offsets = np.zeros(len(values) + 1, np.int64)
        else:
            stored = np.frombuffer(places, np.int64 if wide else np.int32)
            offsets = stored[values.offset : values.offset + len(values) + 1].astype(np.int64)
        data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(0, np.uint8)
        if len(data) < WORD_BYTES:
            data = np.concatenate([data, np.zeros(WORD_BYTES, np.uint8)])
        last = len(data) - WORD_BYTES
        windows = np.ndarray((last + 1,), np.dtype(">u8"), data, 0, (1,))
        return cls(values, offsets[:-1], np.diff(offsets), windows, last)

    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    def repeat_often(self) -> bool:
        """Returns True if a sample of the strings has few distinct ones, so that ranking them is cheap."""
        step = max(1, len(self.values) // _SAMPLE)
        sample = self.values.take(pa.array(np.arange(0, len(self.values), step)))
        return bool(pc.count_distinct(sample).as_py() <= _FEW_DISTINCT * len(sample))

    def common_prefix(self) -> bytes:
        """Returns the bytes that all values begin with. Whatever the least and the greatest share, all others share."""
        bounds = pc.min_max(self.values).as_py()
        if bounds["min"] is None:
            return b""
        least: bytes = bounds["min"]
        pairs = zip(least, bounds["max"], strict=False)
        return least[: next((place for place, (one, other) in enumerate(pairs) if one != other), len(least))]

    def word(self, skip: int, rows: npt.NDArray[np.int64] | None = None) -> Words:
        """Returns the eight bytes after the first `skip` of each string, as a number; missing bytes are zero."""
        starts, lengths = (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        wanted = starts + skip
        found = np.minimum(wanted, self.last_window)
        words: Words = self.windows[found].astype(np.uint64)
        if wanted.max(initial=0) > self.last_window:
            # The window near the end of the data begins too early; rows that need more than 7 bytes have none left.
            words = words << (8 * np.minimum(wanted - found, WORD_BYTES - 1)).astype(np.uint64)
        words &= _MASKS[np.clip(lengths - skip, 0, WORD_BYTES)]
        return words

    def sizes(self, rows: npt.NDArray[np.int64] | None = None) -> Words:
        """Returns the lengths. They decide between strings that differ only in zero bytes at their ends."""
        return (self.lengths if rows is None else self.lengths[rows]).astype(np.uint64)

    def ranks(self, rows: npt.NDArray[np.int64] | None = None) -> Words:
        """Returns the rank of each string among the strings of these rows. Equal strings have equal ranks."""
        encoded = (self.values if rows is None else self.values.take(pa.array(rows))).dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
        ranks = np.zeros(max(1, len(order)), np.uint64)
        ranks[order] = np.arange(len(order), dtype=np.uint64)
        found: Words = ranks[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)]
        return found
