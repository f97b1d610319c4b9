"""Makes tables that have only metadata, with any format version, entry status, delete files and history."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from tidyberg.testing.avro import avro_file, encode_record


@dataclass(frozen=True)
class ForgedEntry:
    """A manifest entry. `values` has further fields of `data_file`, by their names in the specification."""

    path: str
    status: int = 1  # 0 existing, 1 added, 2 deleted
    records: int = 10
    size: int = 1000
    partition: tuple[Any, ...] = ()
    content: int = 0  # 0 data, 1 position deletes, 2 equality deletes
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForgedManifest:
    entries: Sequence[ForgedEntry]
    added_snapshot_id: int = 1
    sequence_number: int = 1
    spec_id: int = 0
    content: int = 0  # 0 data, 1 deletes
    format_version: int | None = None  # default: the table's
    first_row_id: int | None = None
    key_metadata: bytes | None = None  # for an encrypted manifest
    partition_type: StructType | None = None  # default: the spec's type in the schema
    codec: str = "deflate"


def forge_static_table(
    directory: Path,
    manifests: Sequence[ForgedManifest],
    *,
    schema: Schema,
    specs: Sequence[PartitionSpec] = (),
    format_version: int = 2,
    snapshots: Sequence[Mapping[str, Any]] = ({"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1000},),
    refs: Mapping[str, Any] | None = None,
) -> StaticTable:
    """Make a table in `directory`. Each snapshot has the given manifests, and the last one is current."""
    directory.mkdir(parents=True, exist_ok=True)
    known = {spec.spec_id: spec for spec in specs} or {0: PartitionSpec(spec_id=0)}
    listed = []
    for number, manifest in enumerate(manifests):
        location = directory / f"manifest-{number:05d}.avro"
        spec = known.get(manifest.spec_id, PartitionSpec())
        raw = _manifest(manifest, manifest.format_version or format_version, schema, spec)
        location.write_bytes(raw)
        listed.append(_list_entry(manifest, format_version, f"file://{location}", len(raw)))
    manifest_list = directory / "manifest-list.avro"
    list_schema = MANIFEST_LIST_FILE_SCHEMAS[format_version]
    manifest_list.write_bytes(avro_file(list_schema, "manifest_file", listed))
    described = [
        {"summary": {"operation": "append"}, "manifest-list": f"file://{manifest_list}", "schema-id": 0, **snapshot}
        for snapshot in snapshots
    ]
    current = described[-1]["snapshot-id"]
    metadata = {
        "format-version": format_version,
        "table-uuid": "6f8cb26e-34a4-4d5e-a3a5-2f8a6c0e9d11",
        "location": f"file://{directory}",
        "last-sequence-number": max(snapshot.get("sequence-number", 0) for snapshot in described),
        "last-updated-ms": max(snapshot["timestamp-ms"] for snapshot in described),
        "last-column-id": schema.highest_field_id,
        "schemas": [json.loads(schema.model_dump_json())],
        "current-schema-id": schema.schema_id,
        "partition-specs": [json.loads(spec.model_dump_json()) for spec in known.values()],
        "default-spec-id": max(known),
        "last-partition-id": max((spec.last_assigned_field_id for spec in known.values()), default=999),
        "properties": {},
        "current-snapshot-id": current,
        "snapshots": described,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": current, "type": "branch"}, **(refs or {})},
    }
    if format_version == 1:
        metadata |= {"schema": metadata["schemas"][0], "partition-spec": metadata["partition-specs"][-1]["fields"]}
    if format_version >= 3:
        metadata["next-row-id"] = 1_000_000
    location = directory / "v1.metadata.json"
    location.write_text(json.dumps(metadata))
    return StaticTable.from_metadata(f"file://{location}")


def _manifest(manifest: ForgedManifest, version: int, schema: Schema, spec: PartitionSpec) -> bytes:
    partition_type = manifest.partition_type or spec.partition_type(schema)
    data_file_type = data_file_with_partition(partition_type, version)  # type: ignore[arg-type]
    entry_schema = manifest_entry_schema_with_data_file(version, data_file_type)  # type: ignore[arg-type]
    bodies = []
    for entry in manifest.entries:
        inner = {
            "content": entry.content,
            "file_path": entry.path,
            "file_format": "PARQUET",
            "partition": Record(*entry.partition),
            "record_count": entry.records,
            "file_size_in_bytes": entry.size,
            "block_size_in_bytes": 1,
            **entry.values,
        }
        outer = {
            "status": entry.status,
            # Version 1 has no inheritance, so the id is required.
            "snapshot_id": entry.snapshot_id or (manifest.added_snapshot_id if version == 1 else None),
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "data_file": Record(*(inner.get(one.name) for one in data_file_type.fields)),
        }
        bodies.append(encode_record(entry_schema, Record(*(outer.get(one.name) for one in entry_schema.fields))))
    return avro_file(entry_schema, "manifest_entry", bodies, {"format-version": str(version)}, manifest.codec)


def _list_entry(manifest: ForgedManifest, version: int, location: str, length: int) -> bytes:
    schema = MANIFEST_LIST_FILE_SCHEMAS[version]
    by_status = [[entry for entry in manifest.entries if entry.status == status] for status in (0, 1, 2)]
    values = {
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": manifest.spec_id,
        "content": manifest.content,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.sequence_number,
        "added_snapshot_id": manifest.added_snapshot_id,
        "first_row_id": manifest.first_row_id,
        "key_metadata": manifest.key_metadata,
    }
    for name, entries in zip(("existing", "added", "deleted"), by_status, strict=True):
        values[f"{name}_files_count"] = len(entries)
        values[f"{name}_rows_count"] = sum(entry.records for entry in entries)
    return encode_record(schema, Record(*(values.get(one.name) for one in schema.fields)))
