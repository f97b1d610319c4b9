"""Applies Iceberg's partition transforms to whole columns (spec, "Partition Transforms" and appendix B).

Null stays null. Results are Arrow arrays of plain types, as partition tuples hold them: dates, times and timestamps are
integers (days, microseconds or nanoseconds since 1970), and uuids are sixteen bytes.
"""

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.failures import FailureKind, KernelFailure

Hashes = npt.NDArray[np.uint32]

_WITH_NUMBER = re.compile(r"(bucket|truncate)\[(\d+)\]")
_PER_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_DATE_UNITS = {"year": "Y", "month": "M", "day": "D"}
_EXACT = Context(prec=40)  # Python's default of 28 digits would round the widest decimals
_LEAST = -(2**127)
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def apply_transform(transform: str, values: pa.Array, *, must_fit: bool = True) -> pa.Array:
    """Returns the partition values of a column. `transform` is written as in a partition spec: day, bucket[16].

    A truncated decimal may be below the least value of its type. That is a failure, except in a sort key (`must_fit` is
    False), where values are only compared.
    """
    plain = plain_values(values)
    if transform == "void":
        return pa.nulls(len(plain), plain.type)
    if transform == "identity":
        return plain
    if transform in (*_DATE_UNITS, "hour"):
        return _time_part(transform, values.type, plain)
    match = _WITH_NUMBER.fullmatch(transform)
    if match is None:
        raise KernelFailure(FailureKind.SCHEMA, f"Unknown partition transform: {transform}.")
    number = int(match[2])
    return _bucket(plain, values.type, number) if match[1] == "bucket" else _truncate(plain, number, must_fit)


def plain_values(values: pa.Array) -> pa.Array:
    """Returns the values in the plain types of partition tuples."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return values.storage
    if pa.types.is_dictionary(kind):
        return values.dictionary_decode()
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    return values


def _time_part(part: str, kind: pa.DataType, plain: pa.Array) -> pa.Array:
    numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_date32(kind):
        if part == "hour":
            raise _cannot(part, kind)
        days = numbers
    elif pa.types.is_timestamp(kind) and kind.unit in _PER_DAY:
        if part == "hour":
            return _with_nulls(numbers // (_PER_DAY[kind.unit] // 24), plain)
        days = numbers // _PER_DAY[kind.unit]  # floor division: the hour before 1970 belongs to day -1
    else:
        raise _cannot(part, kind)
    return _with_nulls(days.astype("M8[D]").astype(f"M8[{_DATE_UNITS[part]}]").astype(np.int64), plain)


def _with_nulls(numbers: npt.NDArray[np.int64], like: pa.Array) -> pa.Array:
    return pa.array(numbers.astype(np.int32), pa.int32(), mask=_is_null(like))


def _is_null(values: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def _truncate(plain: pa.Array, width: int, must_fit: bool) -> pa.Array:
    kind = plain.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(plain, 0, width)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pc.binary_slice(plain.cast(pa.binary()), 0, width)
    if pa.types.is_integer(kind):
        numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False)
        # Rounds down in the type's own width; the lowest values overflow as in Java.
        with np.errstate(over="ignore"):
            truncated = numbers - (numbers.astype(np.int64) % width).astype(numbers.dtype)
        return pa.array(truncated, kind, mask=_is_null(plain))
    if pa.types.is_decimal(kind):
        return _truncated_decimals(plain, width, must_fit)
    raise _cannot(f"truncate[{width}]", kind)


def _truncated_decimals(plain: pa.Array, width: int, must_fit: bool) -> pa.Array:
    kind = plain.type

    def floor(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(kind.scale, _EXACT))
        floored = unscaled - unscaled % width
        if must_fit and floored <= -(10**kind.precision):
            raise KernelFailure(
                FailureKind.UNFIT, f"No partition can hold {value}: truncate[{width}] of {value} does not fit {kind}."
            )
        # 128 bits hold more than 38 digits. Of all values, only the least can be cut to less than that.
        return max(floored, _LEAST).to_bytes(16, "little", signed=True)

    raw = _each(plain, floor, pa.binary(16))
    return pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(raw), raw.buffers(), raw.null_count, raw.offset)


def _bucket(plain: pa.Array, kind: pa.DataType, buckets: int) -> pa.Array:
    hashes = _hashes(plain, kind)
    numbers = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % buckets
    return _with_nulls(numbers, plain)


def _hashes(plain: pa.Array, kind: pa.DataType) -> Hashes:
    types = pa.types
    if types.is_integer(plain.type):
        numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        if types.is_timestamp(kind) and kind.unit == "ns":
            numbers = numbers // 1000  # a promoted timestamp stays in its bucket
        return hash_longs(numbers)
    if types.is_decimal(plain.type):
        return hash_bytes(_each(plain, lambda value: _unscaled(value, plain.type.scale), pa.binary()))
    if types.is_string(plain.type) or types.is_binary(plain.type) or types.is_fixed_size_binary(plain.type):
        return hash_bytes(plain.cast(pa.binary()))
    raise _cannot("bucket", kind)


def hash_longs(numbers: npt.NDArray[np.int64]) -> Hashes:
    """Returns the 32-bit Murmur3 hash of every number as eight little-endian bytes."""
    halves = numbers.astype("<i8").view("<u4").reshape(-1, 2).astype(np.uint32)
    state = _mix(_mix(np.zeros(len(numbers), np.uint32), halves[:, 0]), halves[:, 1])
    return _finish(state, np.full(len(numbers), 8, np.uint32))


def hash_bytes(values: pa.Array) -> Hashes:
    """Returns the 32-bit Murmur3 hash of every value; null counts as empty. Each step hashes 4 bytes of all values."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    starts = offsets[:-1].astype(np.int64)
    lengths = np.where(_is_null(values), 0, np.diff(offsets)).astype(np.int64)
    contents = values.buffers()[2]
    data = np.frombuffer(contents, np.uint8) if contents is not None else np.zeros(0, np.uint8)
    state = np.zeros(len(values), np.uint32)
    blocks = lengths // 4
    order = np.argsort(-blocks, kind="stable")  # values with more blocks come first
    longer = np.searchsorted(-blocks[order], -np.arange(1, blocks.max(initial=0) + 1), side="right")
    for block, count in enumerate(longer.tolist()):
        rows = order[:count]
        at = starts[rows] + 4 * block
        state[rows] = _mix(state[rows], _little_endian(data, at, 4))
    for size in (1, 2, 3):
        rows = np.flatnonzero(lengths % 4 == size)
        state[rows] ^= _scramble(_little_endian(data, starts[rows] + 4 * blocks[rows], size))
    return _finish(state, lengths.astype(np.uint32))


def _little_endian(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: int) -> Hashes:
    word = np.zeros(len(at), np.uint32)
    for byte in range(size):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _scramble(word: Hashes) -> Hashes:
    return _rotated(word * _C1, 15) * _C2


def _mix(state: Hashes, word: Hashes) -> Hashes:
    return _rotated(state ^ _scramble(word), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(word: Hashes, bits: int) -> Hashes:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def _finish(state: Hashes, lengths: Hashes) -> Hashes:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _each(values: pa.Array, function: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Applies a Python function to each distinct value: NumPy has no type for 128-bit numbers."""
    encoded = values.dictionary_encode()
    results = pa.array([function(value) for value in encoded.dictionary.to_pylist()], kind)
    return results.take(encoded.indices)


def _unscaled(value: Decimal, scale: int) -> bytes:
    """Returns the unscaled value in two's complement, big-endian, in as few bytes as possible."""
    number = int(value.scaleb(scale, _EXACT))
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _cannot(transform: str, kind: pa.DataType) -> KernelFailure:
    return KernelFailure(FailureKind.SCHEMA, f"The partition transform {transform} cannot be applied to {kind}.")
