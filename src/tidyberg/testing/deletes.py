"""Writes delete files into a table as another engine would: PyIceberg itself cannot."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.commit.avro import build_container, field_id, resolve_names, writer
from tidyberg.commit.entries import ListedManifest
from tidyberg.commit.manifests import manifest_list, read_manifest, read_manifest_list, write_file

PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545


def delete_positions(table: Table, path: str, positions: Sequence[int], *, file_scoped: bool = True) -> Table:
    """Commit a position delete file for rows of one data file; without `file_scoped` its bounds do not tell which."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_FIELD)}),
        ]
    )
    rows = pa.table([[path] * len(positions), list(positions)], schema=schema)
    bounds = {PATH_FIELD: path.encode()} if file_scoped else {}
    return _commit_delete_file(table, path, rows, content=1, bounds=bounds, equality_ids=None)


def delete_equal(table: Table, like: str, keys: Mapping[str, Sequence[Any]]) -> Table:
    """Commit an equality delete file in the partition of the data file `like`."""
    fields = [table.schema().find_field(name) for name in keys]
    arrow = table.schema().select(*keys).as_arrow()
    columns = [pa.array(list(keys[field.name]), arrow.field(field.name).type) for field in fields]
    schema = pa.schema(
        [
            pa.field(field.name, column.type, True, {"PARQUET:field_id": str(field.field_id)})
            for field, column in zip(fields, columns, strict=True)
        ]
    )
    rows = pa.table(columns, schema=schema)
    return _commit_delete_file(
        table, like, rows, content=2, bounds={}, equality_ids=[field.field_id for field in fields]
    )


def _commit_delete_file(
    table: Table,
    like: str,
    rows: pa.Table,
    *,
    content: int,
    bounds: Mapping[int, bytes],
    equality_ids: list[int] | None,
) -> Table:
    table.refresh()
    head = table.current_snapshot()
    assert head is not None
    listed = read_manifest_list(table.io, head.manifest_list)
    source, entry = next(
        (manifest, entry)
        for manifest in (read_manifest(table.io, item) for item in listed if not item.fields.get(517))
        for entry in manifest.entries
        if entry.path == like
    )
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    data_file = {
        134: content,
        100: path,
        101: "PARQUET",
        103: rows.num_rows,
        104: len(table.io.new_input(path)),
        125: [{126: number, 127: value} for number, value in bounds.items()],
        128: [{129: number, 130: value} for number, value in bounds.items()],
        135: equality_ids,
    }
    snapshot_id = table.metadata.new_snapshot_id()
    manifest = _delete_manifest(table, source.partition_schema, source.listed.spec_id, entry.partition, data_file)
    manifest_path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    write_file(table.io, manifest_path, manifest)
    fields = {
        500: manifest_path,
        501: len(manifest),
        502: source.listed.spec_id,
        517: 1,
        503: snapshot_id,
        504: 1,
        505: 0,
        506: 0,
        512: rows.num_rows,
        513: 0,
        514: 0,
        507: source.listed.fields.get(507),
    }
    sequence_number = table.metadata.next_sequence_number()
    list_path = f"{table.location()}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
    lines = [*listed, ListedManifest(fields)]
    write_file(
        table.io,
        list_path,
        manifest_list(
            lines,
            snapshot_id=snapshot_id,
            parent_id=head.snapshot_id,
            sequence_number=sequence_number,
            format_version=table.metadata.format_version,
        ),
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
        manifest_list=list_path,
        summary=Summary(operation=Operation.DELETE, **{"added-delete-files": "1"}),
        schema_id=table.metadata.current_schema_id,
    )
    ref = SetSnapshotRefUpdate(
        ref_name="main",
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    requirement = AssertRefSnapshotId(ref="main", snapshot_id=head.snapshot_id)
    table.catalog.commit_table(table, (requirement,), (AddSnapshotUpdate(snapshot=snapshot), ref))
    return table.refresh()


def _delete_manifest(
    table: Table, partition_schema: Any, spec_id: int, partition: bytes, data_file: Mapping[int, Any]
) -> bytes:
    schema: Any = AvroSchemaConversion().iceberg_to_avro(MANIFEST_ENTRY_SCHEMAS[2], schema_name="manifest_entry")
    for field in next(f["type"] for f in schema["fields"] if field_id(f) == 2)["fields"]:
        if field_id(field) == 102:
            field["type"] = partition_schema
        if field_id(field) == 135:
            field["type"][1]["items"] = "int"
    out = bytearray()
    for field in resolve_names(schema)["fields"]:
        if field_id(field) != 2:
            writer(field["type"])(out, {0: 1}.get(field_id(field)))
            continue
        for part in field["type"]["fields"]:
            if field_id(part) == 102:
                out += partition
            else:
                writer(part["type"])(out, data_file.get(field_id(part)))
    spec = table.specs()[spec_id]
    metadata = {
        "schema": table.schema().model_dump_json().encode(),
        "partition-spec": spec.model_dump_json().encode(),
        "partition-spec-id": str(spec_id).encode(),
        "format-version": b"2",
        "content": b"deletes",
    }
    return build_container(schema, metadata, [bytes(out)])
