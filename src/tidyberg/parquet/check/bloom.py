"""Checks Parquet's split-block Bloom filters: a filter must contain every value of its column chunk.

We wrote this because PyArrow cannot query a filter. The hash is xxHash with 64 bits and no seed. It is computed for all
values of one length at a time.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import number, substruct
from tidyberg.parquet.thrift import Bytes, read_struct

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(0x9E3779B185EBCA87),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
    np.uint64(0x85EBCA77C2B2AE63),
    np.uint64(0x27D4EB2F165667C5),
)
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_BLOCK_BYTES = 32
HEADER_BYTES = 64  # more than a header takes

Hashes = npt.NDArray[np.uint64]


class BloomFilter:
    def __init__(self, bits: Bytes) -> None:
        self._blocks = np.frombuffer(bits, "<u4").reshape(-1, 8)

    def missing(self, values: pa.Array) -> int:
        """Returns the number of distinct values that the filter does not contain."""
        hashes = hash_values(values)
        block = ((hashes >> np.uint64(32)) * np.uint64(len(self._blocks))) >> np.uint64(32)
        keys = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        masks = np.uint32(1) << ((keys[:, None] * _SALTS) >> np.uint32(27))
        found = (self._blocks[block.astype(np.int64)] & masks) != 0
        return int(np.count_nonzero(~found.all(axis=1)))


def header_of(content: Bytes) -> tuple[int, int]:
    """Returns the lengths of the header and of the bitset of a filter. Raises CannotCopy."""
    try:
        header, end = read_struct(content)
    except BadThriftError as error:
        raise CannotCopy(f"its header is damaged: {error}") from None
    size = number(header, 1, "its length")
    for field in (2, 3, 4):  # algorithm, hash, compression: the format defines one of each
        if 1 not in (substruct(header, field, "its algorithm, hash or compression") or {}):
            raise CannotCopy("it uses an algorithm, a hash or a compression that the format does not have")
    if not size or size % _BLOCK_BYTES:
        raise CannotCopy(f"its {size} bytes are not whole blocks")
    return end, size


def hash_values(values: pa.Array) -> Hashes:
    """Returns the hashes of the distinct values in plain encoding."""
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _of_bytes(pc.unique(values).cast(pa.large_binary()))
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        content = np.frombuffer(values.buffers()[1], np.uint8)
        matrix = content[values.offset * width : (values.offset + len(values)) * width].reshape(-1, width)
        return _xxh64(np.unique(matrix, axis=0)) if len(matrix) else np.zeros(0, np.uint64)
    numbers = values.to_numpy(zero_copy_only=False)
    bits = np.unique(numbers.view(f"u{numbers.itemsize}"))
    return _xxh64(bits.view(np.uint8).reshape(len(bits), numbers.itemsize))


def _of_bytes(values: pa.Array) -> Hashes:
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    found = np.zeros(len(values), np.uint64)
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        found[at] = _xxh64(data[offsets[at][:, None] + np.arange(length)])
    return found


def _rotated(values: Any, bits: int) -> Any:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _round(lane: Any, word: Any) -> Any:
    return _rotated(lane + word * _P2, 31) * _P1


def _xxh64(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Returns the hash of each row. All rows have the same length."""
    count, length = rows.shape
    rows = np.ascontiguousarray(rows)
    with np.errstate(over="ignore"):
        result = _stripes(rows, count, length) if length >= 32 else np.full(count, _P5, np.uint64)
        return _finish(_tail(rows, result + np.uint64(length), length))


def _stripes(rows: npt.NDArray[np.uint8], count: int, length: int) -> Hashes:
    zero = np.zeros(count, np.uint64)
    lanes = [zero + _P1 + _P2, zero + _P2, zero, zero - _P1]
    words = _words(rows, length - length % 32)
    for at in range(0, words.shape[1], 4):
        lanes = [_round(lane, words[:, at + number]) for number, lane in enumerate(lanes)]
    result = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        result = (result ^ _round(zero, lane)) * _P1 + _P4
    return result  # type: ignore[no-any-return]


def _tail(rows: npt.NDArray[np.uint8], result: Hashes, length: int) -> Hashes:
    position = length - length % 32 if length >= 32 else 0
    zero = np.uint64(0)
    while position + 8 <= length:
        word = _words(rows[:, position : position + 8], 8)[:, 0]
        result = _rotated(result ^ _round(zero, word), 27) * _P1 + _P4
        position += 8
    if position + 4 <= length:
        half = np.ascontiguousarray(rows[:, position : position + 4]).view("<u4")[:, 0].astype(np.uint64)
        result = _rotated(result ^ (half * _P1), 23) * _P2 + _P3
        position += 4
    while position < length:
        result = _rotated(result ^ (rows[:, position].astype(np.uint64) * _P5), 11) * _P1
        position += 1
    return result


def _words(rows: npt.NDArray[np.uint8], length: int) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(rows[:, :length]).view("<u8")


def _finish(result: Hashes) -> Hashes:
    result = (result ^ (result >> np.uint64(33))) * _P2
    result = (result ^ (result >> np.uint64(29))) * _P3
    return result ^ (result >> np.uint64(32))
