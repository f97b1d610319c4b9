"""Serializes single values in Iceberg's binary form (spec, appendix D), and truncates them for column metrics."""

import math
import struct
from typing import Any

import pyarrow as pa

_HIGHEST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def encode(value: Any, kind: pa.DataType) -> bytes:
    """Serializes a value from Parquet statistics: a number, bytes, or an unscaled decimal."""
    types = pa.types
    if types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if types.is_int32(kind) or types.is_date32(kind):
        return struct.pack("<i", value)
    if types.is_int64(kind) or types.is_timestamp(kind) or types.is_time64(kind):
        return struct.pack("<q", value)
    if types.is_float32(kind):
        return struct.pack("<f", value)
    if types.is_float64(kind):
        return struct.pack("<d", value)
    if types.is_decimal(kind):
        return _minimal_twos_complement(value)
    return bytes(value)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_truncatable(kind: pa.DataType) -> bool:
    """Strings, binary and fixed can be truncated. A uuid, an extension type in Arrow, keeps its sixteen bytes."""
    types = pa.types
    return bool(
        is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def truncate_lower(value: bytes, kind: pa.DataType, length: int) -> bytes:
    if is_text(kind):
        return value.decode()[:length].encode()
    return value[:length]


def truncate_upper(value: bytes, kind: pa.DataType, length: int) -> bytes | None:
    """Returns a value of at most `length` units that is not below the given one; None if there is none."""
    if is_text(kind):
        text = value.decode()
        if len(text) <= length:
            return value
        return _next_text(text[:length])
    if len(value) <= length:
        return value
    return _next_bytes(value[:length])


def _next_text(text: str) -> bytes | None:
    for end in range(len(text) - 1, -1, -1):
        following = ord(text[end]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _HIGHEST_CODE_POINT:
            return (text[:end] + chr(following)).encode()
    return None


def _next_bytes(value: bytes) -> bytes | None:
    for end in range(len(value) - 1, -1, -1):
        if value[end] < 0xFF:
            return value[:end] + bytes([value[end] + 1])
    return None


def normalised(value: Any, *, lower: bool) -> Any | None:
    """A zero bound covers both zeros. A NaN is no bound (spec: bounds exclude NaN)."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if value == 0:
            return -0.0 if lower else 0.0
    return value


def _minimal_twos_complement(value: int) -> bytes:
    length = ((value if value >= 0 else ~value).bit_length() + 8) // 8
    return value.to_bytes(length, "big", signed=True)
