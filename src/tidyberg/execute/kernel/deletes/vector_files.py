"""Encodes deletion vectors and the Puffin file that holds them: from row positions to bytes.

The counterpart of `bitmaps.py`, and our own code for the same reason: executors have NumPy but no Roaring library.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg._version import __version__
from tidyberg.execute.kernel.deletes.bitmaps import Positions

_MAGIC = b"\xd1\xd3\x39\x64"
_PUFFIN_MAGIC = b"PFA1"
_ROW_POSITION_ID = 2147483645  # the spec reserves it for the position of a row
_NO_RUNS, _WITH_RUNS = 12346, 12347
_ARRAY_LIMIT = 4096  # a container with more values is a bitmap
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4  # bitmaps with runs and fewer containers have no offsets

Values = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class PlacedVector:
    """A deletion vector in a Puffin file."""

    data_file: str
    cardinality: int
    offset: int
    size: int


def puffin_file(vectors: Sequence[tuple[str, Positions]]) -> tuple[bytes, tuple[PlacedVector, ...]]:
    """Returns a Puffin file with one vector per data file, and their places in it. Positions are sorted and unique."""
    content = bytearray(_PUFFIN_MAGIC)
    placed: list[PlacedVector] = []
    for path, positions in vectors:
        blob = deletion_vector(positions)
        placed.append(PlacedVector(path, len(positions), len(content), len(blob)))
        content += blob
    footer = json.dumps(
        {
            "blobs": [
                {
                    "type": "deletion-vector-v1",
                    "fields": [_ROW_POSITION_ID],
                    "snapshot-id": -1,  # spec: both are -1, because the commit assigns them later
                    "sequence-number": -1,
                    "offset": vector.offset,
                    "length": vector.size,
                    "properties": {"referenced-data-file": vector.data_file, "cardinality": str(vector.cardinality)},
                }
                for vector in placed
            ],
            "properties": {"created-by": f"tidyberg {__version__}"},
        }
    ).encode()
    content += _PUFFIN_MAGIC + footer + struct.pack("<II", len(footer), 0) + _PUFFIN_MAGIC
    return bytes(content), tuple(placed)


def deletion_vector(positions: Positions) -> bytes:
    """Returns the blob of a vector. Positions are sorted, unique and not negative."""
    bitmaps = list(_split(positions, 32))
    parts = [_MAGIC, struct.pack("<Q", len(bitmaps))]
    parts += [struct.pack("<I", key) + _bitmap(values) for key, values in bitmaps]
    content = b"".join(parts)
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def _bitmap(values: Positions) -> bytes:
    """Encodes a 32-bit bitmap in Roaring's portable format."""
    containers = [(key, low.astype("<u2")) for key, low in _split(values, 16)]
    encoded = [_container(low) for _, low in containers]
    count, has_runs = len(containers), any(is_run for _, is_run in encoded)
    if has_runs:
        flags = np.packbits(np.array([is_run for _, is_run in encoded]), bitorder="little").tobytes()
        head = struct.pack("<I", _WITH_RUNS | (count - 1) << 16) + flags
    else:
        head = struct.pack("<II", _NO_RUNS, count)
    head += b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in containers)
    if not has_runs or count >= _OFFSETS_FROM:
        sizes = np.array([len(content) for content, _ in encoded], np.int64)
        starts = len(head) + 4 * count + np.cumsum(sizes) - sizes
        head += starts.astype("<u4").tobytes()
    return head + b"".join(content for content, _ in encoded)


def _container(values: Values) -> tuple[bytes, bool]:
    """Returns the smallest form of a container, and whether it consists of runs."""
    breaks = np.flatnonzero(np.diff(values) != 1) + 1
    plain_bytes = 2 * len(values) if len(values) <= _ARRAY_LIMIT else _BITMAP_BYTES
    if 2 + 4 * (len(breaks) + 1) < plain_bytes:
        firsts = values[np.concatenate(([0], breaks))]
        lasts = values[np.concatenate((breaks - 1, [len(values) - 1]))]
        pairs = np.column_stack((firsts, lasts - firsts)).astype("<u2")
        return struct.pack("<H", len(firsts)) + pairs.tobytes(), True
    if len(values) <= _ARRAY_LIMIT:
        return values.tobytes(), False
    bits = np.zeros(8 * _BITMAP_BYTES, np.bool_)
    bits[values] = True
    return np.packbits(bits, bitorder="little").tobytes(), False


def _split(values: Positions, low_bits: int) -> Iterator[tuple[int, Positions]]:
    """Divides sorted values by their high bits. Yields the high bits and the low bits of each part."""
    high = values >> low_bits
    starts = np.flatnonzero(np.diff(high, prepend=-1))
    low = values & ((1 << low_bits) - 1)
    for start, part in zip(starts.tolist(), np.split(low, starts[1:]) if len(starts) else [], strict=True):
        yield int(high[start]), part
