"""Writes delete files into a table as another engine would: PyIceberg itself cannot."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.commit.avro import build_container, field_id, resolve_names, writer
from tidyberg.commit.entries import ListedManifest
from tidyberg.commit.manifests import manifest_list, read_manifest, read_manifest_list, rewritten_manifest, write_file
from tidyberg.testing.reading import PATH_FIELD, POSITION_FIELD

_NO_PARTITION = {"type": "record", "name": "r102", "fields": []}


@dataclass(frozen=True)
class Positions:
    """A position delete file: rows to delete by data file, all of one partition.

    Without `file_scoped` its bounds do not tell which file it is about, even when it is about one only.
    """

    rows: Mapping[str, Sequence[int]]
    file_scoped: bool = False
    sequence_number: int | None = None  # the commit's unless told: rewritten delete files keep an older one


@dataclass(frozen=True)
class EqualTo:
    """An equality delete file: keys by column, in the partition of the data file `like`.

    Without one it is of the unpartitioned spec `spec_id`, and so about the whole table. A nested column is written
    with dots.
    """

    keys: Mapping[str, Sequence[Any]]
    like: str | None = None
    spec_id: int = 0
    sequence_number: int | None = None


def delete_positions(table: Table, path: str, positions: Sequence[int], *, file_scoped: bool = True) -> Table:
    """Commit a position delete file for rows of one data file."""
    return commit_deletes(table, Positions({path: positions}, file_scoped))


def delete_equal(table: Table, like: str, keys: Mapping[str, Sequence[Any]]) -> Table:
    """Commit an equality delete file in the partition of the data file `like`."""
    return commit_deletes(table, EqualTo(keys, like))


def commit_deletes(
    table: Table, *deletes: Positions | EqualTo, branch: str = "main", remove: Collection[str] = ()
) -> Table:
    """Commit delete files, all in one snapshot; `remove` are paths of data or delete files that go with it."""
    table.refresh()
    head = table.metadata.snapshot_by_name(branch)
    assert head is not None
    listed = read_manifest_list(table.io, head.manifest_list)
    snapshot_id = table.metadata.new_snapshot_id()
    lines = [_without(table, manifest, remove, snapshot_id) if remove else manifest for manifest in listed]
    lines += [_write_delete(table, listed, delete, snapshot_id) for delete in deletes]
    sequence_number = table.metadata.next_sequence_number()
    list_path = f"{table.location()}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
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
        sequence_number=sequence_number if table.metadata.format_version > 1 else None,
        manifest_list=list_path,
        summary=Summary(operation=Operation.DELETE, **{"added-delete-files": str(len(deletes))}),
        schema_id=table.metadata.current_schema_id,
    )
    ref = SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    requirement = AssertRefSnapshotId(ref=branch, snapshot_id=head.snapshot_id)
    table.catalog.commit_table(table, (requirement,), (AddSnapshotUpdate(snapshot=snapshot), ref))
    return table.refresh()


def _without(table: Table, listed: ListedManifest, remove: Collection[str], snapshot_id: int) -> ListedManifest:
    """The manifest with some of its files marked as deleted, or as it is when it lists none of them."""
    manifest = read_manifest(table.io, listed)
    gone = frozenset(entry.identity for entry in manifest.entries if entry.path in remove)
    if not gone:
        return listed
    path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    version = table.metadata.format_version
    content, line = rewritten_manifest(manifest, gone, snapshot_id=snapshot_id, format_version=version, path=path)
    write_file(table.io, path, content)
    return line


def _write_delete(
    table: Table, listed: Sequence[ListedManifest], delete: Positions | EqualTo, snapshot_id: int
) -> ListedManifest:
    """The delete file and a manifest of its own; the manifest's row for the list."""
    rows = _position_rows(delete) if isinstance(delete, Positions) else _key_rows(table, delete)
    like = next(iter(delete.rows)) if isinstance(delete, Positions) else delete.like
    spec_id, partition_schema, partition, summaries = _scope(table, listed, like, delete)
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    bounds = {PATH_FIELD: like.encode()} if isinstance(delete, Positions) and delete.file_scoped and like else {}
    data_file = {
        134: 1 if isinstance(delete, Positions) else 2,
        100: path,
        101: "PARQUET",
        103: rows.num_rows,
        104: len(table.io.new_input(path)),
        125: [{126: number, 127: value} for number, value in bounds.items()],
        128: [{129: number, 130: value} for number, value in bounds.items()],
        135: None if isinstance(delete, Positions) else _field_ids(table, delete),
    }
    manifest = _delete_manifest(table, partition_schema, spec_id, partition, data_file, delete.sequence_number)
    manifest_path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    write_file(table.io, manifest_path, manifest)
    return ListedManifest(
        {
            500: manifest_path,
            501: len(manifest),
            502: spec_id,
            517: 1,
            503: snapshot_id,
            504: 1,
            505: 0,
            506: 0,
            512: rows.num_rows,
            513: 0,
            514: 0,
            507: summaries,
            516: delete.sequence_number,
        }
    )


def _scope(
    table: Table, listed: Sequence[ListedManifest], like: str | None, delete: Positions | EqualTo
) -> tuple[int, Any, bytes, Any]:
    """Spec id, partition schema, encoded partition and partition summaries of a delete file."""
    if like is None:
        assert isinstance(delete, EqualTo)
        assert table.specs()[delete.spec_id].is_unpartitioned(), "a delete for the whole table is of such a spec"
        return delete.spec_id, _NO_PARTITION, b"", []
    source, entry = next(
        (manifest, entry)
        for manifest in (read_manifest(table.io, item) for item in listed if not item.fields.get(517))
        for entry in manifest.entries
        if entry.path == like
    )
    return source.listed.spec_id, source.partition_schema, entry.partition, source.listed.fields.get(507)


def _position_rows(delete: Positions) -> pa.Table:
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_FIELD)}),
        ]
    )
    # The specification: sorted by path, then position.
    pairs = sorted((path, position) for path, positions in delete.rows.items() for position in positions)
    return pa.Table.from_pylist([{"file_path": path, "pos": position} for path, position in pairs], schema)


def _key_rows(table: Table, delete: EqualTo) -> pa.Table:
    schema = schema_to_pyarrow(table.schema().select(*delete.keys))
    rows: list[dict[str, Any]] = []
    for values in zip(*delete.keys.values(), strict=True):
        row: dict[str, Any] = {}
        for name, value in zip(delete.keys, values, strict=True):
            *parents, leaf = name.split(".")
            place = row
            for parent in parents:
                place = place.setdefault(parent, {})
            place[leaf] = value
        rows.append(row)
    return pa.Table.from_pylist(rows, schema)


def _field_ids(table: Table, delete: EqualTo) -> list[int]:
    return [table.schema().find_field(name).field_id for name in delete.keys]


def _delete_manifest(
    table: Table,
    partition_schema: Any,
    spec_id: int,
    partition: bytes,
    data_file: Mapping[int, Any],
    sequence_number: int | None,
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
            writer(field["type"])(out, {0: 1, 3: sequence_number}.get(field_id(field)))
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
