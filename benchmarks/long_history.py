"""Forges a table with a long history: many snapshots and files, most of which only old snapshots need.

Each commit appends files. Every `cycle`-th commit replaces the files of the commits since the one before by as many as
one commit adds, as a compaction does. Data files are real files of a few bytes, because the benchmarks that use them
list and delete files, but open none.
"""

import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from tidyberg.testing.avro import avro_file, encode_long, encode_record

VERSION: Final = 2
HOUR_MS = 3_600_000
DATA = b"no rows\n"
_RECORDS = 1000
_ADDED, _DELETED = 1, 2
_PLACE = "PATH-OF-THE-FILE"


@dataclass(frozen=True)
class LongHistory:
    """The shape of the table. There is a snapshot an hour, and the newest is from now."""

    snapshots: int
    files_per_commit: int
    cycle: int = 10
    columns: int = 10
    with_data: bool = True

    @property
    def files(self) -> int:
        return self.snapshots * self.files_per_commit


@dataclass(frozen=True)
class _Listed:
    path: str
    length: int
    snapshot: int
    files: int
    status: int


@dataclass
class _Forge:
    shape: LongHistory
    directory: Path
    location: str
    schema: Schema
    live: list[_Listed] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)  # commits whose files the next replacement removes

    def write(self, name: str, content: bytes) -> str:
        (self.directory / name).write_bytes(content)
        return f"{self.location}/{name}"

    def commit(self, number: int) -> str:
        """Writes what one commit writes. Returns the location of its manifest list."""
        self._write_data(number)
        replaces = number % self.shape.cycle == 0
        gone: list[_Listed] = []
        if replaces:
            gone = [self._manifest(f"metadata/m{number:05d}-deleted.avro", number, self.recent, _DELETED)]
            removed = set(self.recent)
            self.live = [one for one in self.live if one.snapshot not in removed]
            self.recent = []
        else:
            self.recent.append(number)
        self.live.append(self._manifest(f"metadata/m{number:05d}-added.avro", number, [number], _ADDED))
        rows = [_list_row(one) for one in (*gone, *reversed(self.live))]
        listed = avro_file(MANIFEST_LIST_FILE_SCHEMAS[VERSION], "manifest_file", rows, {"format-version": str(VERSION)})
        return self.write(f"metadata/snap-{number:05d}.avro", listed)

    def _write_data(self, number: int) -> None:
        if not self.shape.with_data:
            return
        for each in range(self.shape.files_per_commit):
            descriptor = os.open(self.directory / _data_name(number, each), os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(descriptor, DATA)
            os.close(descriptor)

    def _manifest(self, name: str, snapshot: int, commits: Sequence[int], status: int) -> _Listed:
        file_type = data_file_with_partition(PartitionSpec().partition_type(self.schema), VERSION)
        entry_schema = manifest_entry_schema_with_data_file(VERSION, file_type)
        bodies = []
        for commit in commits:
            head, tail = self._entry(entry_schema, file_type, snapshot, commit, status).split(_length_and_place())
            for each in range(self.shape.files_per_commit):
                path = f"{self.location}/{_data_name(commit, each)}".encode()
                bodies.append(head + encode_long(len(path)) + path + tail)
        metadata = {
            "schema": self.schema.model_dump_json(),
            "partition-spec": "[]",
            "partition-spec-id": "0",
            "format-version": str(VERSION),
            "content": "data",
        }
        raw = avro_file(entry_schema, "manifest_entry", bodies, metadata)
        return _Listed(self.write(name, raw), len(raw), snapshot, len(bodies), status)

    def _entry(self, schema: Schema, file_type: Any, snapshot: int, commit: int, status: int) -> bytes:
        ids = range(1, self.shape.columns + 1)
        inner = {
            "content": 0,
            "file_path": _PLACE,
            "file_format": "PARQUET",
            "partition": Record(),
            "record_count": _RECORDS,
            "file_size_in_bytes": len(DATA),
            "column_sizes": dict.fromkeys(ids, 8000),
            "value_counts": dict.fromkeys(ids, _RECORDS),
            "null_value_counts": dict.fromkeys(ids, 0),
            "lower_bounds": {n: n.to_bytes(8, "little") for n in ids},
            "upper_bounds": {n: (1000 * n).to_bytes(8, "little") for n in ids},
            "split_offsets": [4],
        }
        outer = {
            "status": status,
            "snapshot_id": snapshot,
            "sequence_number": commit if status == _DELETED else None,
            "file_sequence_number": commit if status == _DELETED else None,
            "data_file": Record(*(inner.get(one.name) for one in file_type.fields)),
        }
        return encode_record(schema, Record(*(outer.get(one.name) for one in schema.fields)))


def forge_history(directory: Path, location: str, shape: LongHistory) -> str:
    """Writes the table's files into the directory, which is `location` for its readers. Returns its metadata file."""
    for part in ("data", "metadata"):
        (directory / part).mkdir(parents=True)
    schema = Schema(*(NestedField(n, f"c{n}", LongType(), required=False) for n in range(1, shape.columns + 1)))
    if shape.with_data:
        for number in range(1, shape.snapshots + 1):
            (directory / _data_name(number, 0)).parent.mkdir()
    forge = _Forge(shape, directory, location.rstrip("/"), schema)
    now_ms = int(time.time() * 1000)
    snapshots = [
        {
            "snapshot-id": number,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
            "sequence-number": number,
            "timestamp-ms": now_ms - (shape.snapshots - number) * HOUR_MS,
            "manifest-list": forge.commit(number),
            "summary": {"operation": "replace" if number % shape.cycle == 0 else "append"},
            "schema-id": 0,
        }
        for number in range(1, shape.snapshots + 1)
    ]
    document = {
        "format-version": VERSION,
        "table-uuid": str(uuid.uuid4()),
        "location": forge.location,
        "last-sequence-number": shape.snapshots,
        "last-updated-ms": now_ms,
        "last-column-id": shape.columns,
        "schemas": [json.loads(schema.model_dump_json())],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "properties": {},
        "current-snapshot-id": shape.snapshots,
        "snapshots": snapshots,
        "snapshot-log": [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots],
        "metadata-log": [],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": shape.snapshots, "type": "branch"}},
    }
    name = f"metadata/{shape.snapshots:05d}-{uuid.uuid4()}.metadata.json"
    return forge.write(name, json.dumps(document).encode())


def _data_name(commit: int, each: int) -> str:
    return f"data/h{commit:05d}/{commit:05d}-{each:05d}-0d6f3c5e-8a41-4b7e-9f52-c1d0a7b3e964.parquet"


def _list_row(one: _Listed) -> bytes:
    schema = MANIFEST_LIST_FILE_SCHEMAS[VERSION]
    added, deleted = (one.files, 0) if one.status == _ADDED else (0, one.files)
    values = {
        "manifest_path": one.path,
        "manifest_length": one.length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": one.snapshot,
        "min_sequence_number": one.snapshot,
        "added_snapshot_id": one.snapshot,
        "added_files_count": added,
        "existing_files_count": 0,
        "deleted_files_count": deleted,
        "added_rows_count": added * _RECORDS,
        "existing_rows_count": 0,
        "deleted_rows_count": deleted * _RECORDS,
    }
    return encode_record(schema, Record(*(values.get(field.name) for field in schema.fields)))


def _length_and_place() -> bytes:
    return encode_long(len(_PLACE)) + _PLACE.encode()
