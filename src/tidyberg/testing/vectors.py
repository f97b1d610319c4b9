"""Writes deletion vectors to Puffin files, as an engine would, and reads their positions."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

_MAGIC = b"\xd1\xd3\x39\x64"
_POSITION_COLUMN = 2147483645


def puffin_file(rows: Mapping[str, Sequence[int]]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return a Puffin file with one vector per data file, and the offset and size of each vector."""
    content = bytearray(b"PFA1")
    places: dict[str, tuple[int, int]] = {}
    blobs = []
    for path, positions in rows.items():
        bitmap = _MAGIC + BitMap64(positions).serialize()
        blob = struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        places[path] = (len(content), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_COLUMN],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(set(positions)))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    content += b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"
    return bytes(content), places


def positions_of(blob: bytes) -> set[int]:
    """Return the rows that a vector deletes. `blob` has the bytes at its offset."""
    assert blob[4:8] == _MAGIC
    return set(BitMap64.deserialize(blob[8:-4]))
