"""Decodes deletion vectors: from the bytes of a Puffin blob to row positions.

The format is Roaring's portable 64-bit format, with the framing of the Iceberg spec. This is our own code because
executors have NumPy but no Roaring library.
"""

import struct
import zlib

import numpy as np
import numpy.typing as npt

from tidyberg.failures import FailureKind, KernelFailure

_MAGIC = b"\xd1\xd3\x39\x64"
_NO_RUNS = 12346
_WITH_RUNS = 12347
_ARRAY_LIMIT = 4096  # a container with more values is a bitmap
_BITMAP_BYTES = 8192
_HIGHEST_VALUE = 0xFFFF  # in a container
_HIGHEST_KEY = 0x7FFFFFFF  # of a bitmap, because positions are not negative
_OFFSETS_FROM = 4  # bitmaps with runs and fewer containers have no offsets

Positions = npt.NDArray[np.int64]


def read_deletion_vector(blob: bytes, where: str) -> Positions:
    """Returns the sorted positions of deleted rows. The blob is the range that the manifest entry gives."""
    try:
        return _read(blob)
    except (struct.error, ValueError, IndexError) as error:
        raise KernelFailure(FailureKind.DAMAGED, f"The deletion vector in {where} is damaged: {error}.") from None


def _read(blob: bytes) -> Positions:
    (length,) = struct.unpack_from(">I", blob, 0)
    if length + 8 != len(blob):
        raise ValueError(f"its header says {length + 8} bytes, but it has {len(blob)}")
    content = blob[4 : 4 + length]
    if content[:4] != _MAGIC:
        raise ValueError("it does not begin with the magic number")
    (checksum,) = struct.unpack_from(">I", blob, 4 + length)
    if zlib.crc32(content) != checksum:
        raise ValueError("its checksum does not match")
    (bitmaps,) = struct.unpack_from("<Q", content, 4)
    offset = 12
    parts: list[Positions] = []
    for _ in range(bitmaps):
        (high,) = struct.unpack_from("<I", content, offset)
        if high > _HIGHEST_KEY:
            raise ValueError("a position needs more than 63 bits")
        values, offset = _read_bitmap(content, offset + 4)
        parts.append((np.int64(high) << np.int64(32)) | values)
    if offset != len(content):
        raise ValueError("there are bytes after its last bitmap")
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _read_bitmap(content: bytes, offset: int) -> tuple[Positions, int]:
    """Returns the values of a 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", content, offset)
    offset += 4
    runs = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        containers = (cookie >> 16) + 1
        flags = _take(content, offset, (containers + 7) // 8)
        runs = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")
        offset += len(flags)
    elif cookie == _NO_RUNS:
        (containers,) = struct.unpack_from("<I", content, offset)
        offset += 4
    else:
        raise ValueError(f"its bitmap has an unknown cookie {cookie}")
    header = np.frombuffer(_take(content, offset, 4 * containers), "<u2").reshape(-1, 2)
    offset += 4 * containers
    if cookie == _NO_RUNS or containers >= _OFFSETS_FROM:
        offset += 4 * containers  # containers have no gaps, so their offsets are not needed
    parts: list[Positions] = []
    for index, (key, count_less_one) in enumerate(header.tolist()):
        is_run = index < len(runs) and bool(runs[index])
        values, offset = _read_container(content, offset, count_less_one + 1, is_run)
        parts.append((np.int64(key) << np.int64(16)) | values)
    return (np.concatenate(parts) if parts else np.empty(0, np.int64)), offset


def _read_container(content: bytes, offset: int, count: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", content, offset)
        pairs = np.frombuffer(_take(content, offset + 2, 4 * runs), "<u2").reshape(-1, 2).astype(np.int64)
        values = np.concatenate([np.arange(start, start + more + 1) for start, more in pairs.tolist()])
        offset += 2 + 4 * runs
    elif count <= _ARRAY_LIMIT:
        values = np.frombuffer(_take(content, offset, 2 * count), "<u2").astype(np.int64)
        offset += 2 * count
    else:
        bits = np.unpackbits(np.frombuffer(_take(content, offset, _BITMAP_BYTES), np.uint8), bitorder="little")
        values = np.flatnonzero(bits).astype(np.int64)
        offset += _BITMAP_BYTES
    if values.max() > _HIGHEST_VALUE:
        raise ValueError("a run exceeds its container")
    if len(values) != count:
        raise ValueError(f"a container has {len(values)} values, but its header says {count}")
    return values, offset


def _take(content: bytes, offset: int, size: int) -> bytes:
    piece = content[offset : offset + size]
    if len(piece) != size:
        raise ValueError("it ends too early")
    return piece
