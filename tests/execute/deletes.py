"""Delete files of every kind, as other writers write them, for the tests of this package."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.execute.builders import field
from tidyberg.model.task import TaskDelete

PATH_ID, POSITION_ID = 2147483546, 2147483545
POSITION_SCHEMA = pa.schema(
    [field("file_path", pa.string(), PATH_ID, False), field("pos", pa.int64(), POSITION_ID, False)]
)


def position_delete(
    path: Path,
    rows: Sequence[tuple[str, int]],
    sequence: int,
    *,
    only: str | None = None,
    schema: pa.Schema = POSITION_SCHEMA,
) -> TaskDelete:
    columns: list[Any] = [[name for name, _ in rows], [position for _, position in rows]]
    columns += [[{"id": 0}] * len(rows)] * (len(schema) - 2)  # the deleted rows themselves
    pq.write_table(pa.table(columns, schema=schema), path, store_schema=False)
    return TaskDelete(str(path), "position", path.stat().st_size, sequence, only)


def equality_delete(
    path: Path, schema: pa.Schema, columns: Mapping[str, Sequence[Any]], ids: tuple[int, ...], sequence: int
) -> TaskDelete:
    table = pa.table([pa.array(columns[name.name], name.type) for name in schema], schema=schema)
    pq.write_table(table, path, store_schema=False)
    return TaskDelete(str(path), "equality", path.stat().st_size, sequence, equality_ids=ids)


def deletion_vectors(path: Path, positions: Mapping[str, Sequence[int]], sequence: int) -> list[TaskDelete]:
    """Several vectors in one file, as in a Puffin file. Readers use only the offset and size."""
    content = bytearray(b"PFA1")
    found = []
    for name, places in positions.items():
        bitmap = b"\xd1\xd3\x39\x64" + BitMap64(places).serialize()
        blob = struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        found.append((name, len(content), len(blob)))
        content += blob
    path.write_bytes(bytes(content) + b"PFA1")
    return [
        TaskDelete(str(path), "dv", len(content), sequence, name, content_offset=offset, content_size=size)
        for name, offset, size in found
    ]
