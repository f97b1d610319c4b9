"""Reads the live files of a snapshot, in any format version. It shares no code with `commit`.

PyIceberg reads only format version 2: it drops first row ids and the offsets of deletion vectors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

_LATEST = 3


@dataclass(frozen=True)
class LiveFile:
    """A data or delete file of a snapshot. Its sequence number decides which deletes apply."""

    path: str
    content: DataFileContent
    spec_id: int
    partition: tuple[Any, ...]
    sequence_number: int
    records: int
    equality_ids: tuple[int, ...] = ()
    first_row_id: int | None = None  # v3; None if the rows have no ids
    referenced_data_file: str | None = None
    content_offset: int | None = None  # the offset of a deletion vector in its Puffin file
    content_size: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.content_offset is not None


def live_files(table: Table, snapshot: Snapshot | None) -> list[LiveFile]:
    """Return all live data and delete files of a snapshot."""
    if snapshot is None:
        return []
    return [
        file
        for line in _read(table, snapshot.manifest_list, MANIFEST_LIST_FILE_SCHEMAS[_LATEST], Record)
        for file in _live_files_of(table, _by_name(line, MANIFEST_LIST_FILE_SCHEMAS[_LATEST]))
    ]


def _live_files_of(table: Table, listed: dict[str, Any]) -> Iterator[LiveFile]:
    schema = MANIFEST_ENTRY_SCHEMAS[_LATEST]
    next_row_id: int | None = listed["first_row_id"]
    for record in _read(table, listed["manifest_path"], schema, ManifestEntry):
        entry = _by_name(record, schema)
        if entry["status"] == ManifestEntryStatus.DELETED:
            continue
        file = _by_name(entry["data_file"], Schema(*DATA_FILE_TYPE[_LATEST].fields))
        # Files without a first row id inherit one from the manifest, in order.
        first_row_id = file["first_row_id"] if next_row_id is not None else None
        if next_row_id is not None and first_row_id is None:
            first_row_id, next_row_id = next_row_id, next_row_id + file["record_count"]
        sequence_number = entry["sequence_number"]
        partition = file["partition"]
        yield LiveFile(
            file["file_path"],
            DataFileContent(file["content"] or 0),  # version 1 has only data files, and no such field
            listed["partition_spec_id"],
            tuple(partition[number] for number in range(len(partition))),
            (listed["sequence_number"] or 0) if sequence_number is None else sequence_number,
            file["record_count"],
            tuple(file["equality_ids"] or ()),
            first_row_id,
            file["referenced_data_file"],
            file["content_offset"],
            file["content_size_in_bytes"],
        )


def _read(table: Table, location: str, schema: Schema, kind: type[Record]) -> list[Record]:
    with AvroFile[Record](
        table.io.new_input(location), schema, read_types={-1: kind, 2: DataFile}, read_enums={}
    ) as reader:
        return list(reader)


def _by_name(record: Record, schema: Schema) -> dict[str, Any]:
    return {field.name: record[position] for position, field in enumerate(schema.fields)}
