"""Writes delete files as another engine would, because PyIceberg cannot."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from tidyberg.avro.records import build_container, field_id, resolve_names, writer
from tidyberg.commit.entries import Identity, entry_schema, with_partition
from tidyberg.commit.manifests import Loss, read_manifest, rewritten_manifest, write_file
from tidyberg.observe.manifest_list import ListedManifest
from tidyberg.testing.commits import commit_manifests, manifests_of
from tidyberg.testing.manifests import live_files
from tidyberg.testing.reading import PATH_FIELD, POSITION_FIELD, deleted_positions
from tidyberg.testing.vectors import puffin_file

_NO_PARTITION = {"type": "record", "name": "r102", "fields": []}


@dataclass(frozen=True)
class Positions:
    """A position delete file. It maps data files of one partition to the positions of the rows to delete.

    Without `file_scoped` its bounds do not name the data file, even if there is only one.
    """

    rows: Mapping[str, Sequence[int]]
    file_scoped: bool = False
    sequence_number: int | None = None  # default: the commit's; rewritten delete files keep an older one


@dataclass(frozen=True)
class EqualTo:
    """An equality delete file. It maps columns to keys, in the partition of the data file `like`.

    Without `like` it has the unpartitioned spec `spec_id`, so it applies to the whole table. The name of a nested
    column has dots.
    """

    keys: Mapping[str, Sequence[Any] | pa.Array]  # many keys are faster as arrays
    like: str | None = None
    spec_id: int = 0
    sequence_number: int | None = None


@dataclass(frozen=True)
class Vectors:
    """Deletion vectors of format version 3, one per data file, all in one Puffin file.

    Each one also contains the rows that were deleted before, and replaces the previous vector of the file.
    """

    rows: Mapping[str, Sequence[int]]
    sequence_number: int | None = None


def delete_positions(table: Table, path: str, positions: Sequence[int], *, file_scoped: bool = True) -> Table:
    """Commit a position delete file for rows of one data file."""
    return commit_deletes(table, Positions({path: positions}, file_scoped))


def delete_equal(table: Table, like: str, keys: Mapping[str, Sequence[Any]]) -> Table:
    """Commit an equality delete file in the partition of the data file `like`."""
    return commit_deletes(table, EqualTo(keys, like))


def delete_rows(table: Table, rows: Mapping[str, Sequence[int]], *, branch: str = "main") -> Table:
    """Delete rows of data files as an engine would in this format version: with vectors or position deletes."""
    if table.refresh().metadata.format_version > 2:
        return commit_deletes(table, Vectors(rows), branch=branch)
    return commit_deletes(table, *(Positions({path: rows[path]}, file_scoped=True) for path in rows), branch=branch)


def commit_deletes(
    table: Table,
    *deletes: Positions | EqualTo | Vectors,
    branch: str = "main",
    remove: Collection[str] = (),
    operation: Operation = Operation.DELETE,
) -> Table:
    """Commit delete files in one snapshot. `remove` has the paths of data or delete files to remove."""
    table.refresh()
    snapshot_id = table.metadata.new_snapshot_id()
    listed = manifests_of(table, branch)
    assert listed, "there are no rows to delete"
    replaced: set[Identity] = set()
    added: list[ListedManifest] = []
    for delete in deletes:
        if isinstance(delete, Vectors):
            added += _write_vectors(table, listed, delete, snapshot_id, branch)
            replaced |= _vectors_of(table, delete.rows, branch)
        else:
            added.append(_write_delete(table, listed, delete, snapshot_id))
    lines = [_without(table, line, remove, replaced, snapshot_id) for line in listed]
    summary = {"added-delete-files": str(len(added))}
    return commit_manifests(table, [*lines, *added], snapshot_id, operation, summary, branch)


def _vectors_of(table: Table, paths: Collection[str], branch: str) -> set[Identity]:
    """Return the vectors of these data files. A file has at most one, so a new one replaces it."""
    files = live_files(table, table.metadata.snapshot_by_name(branch))
    return {
        (file.path, file.content_offset, file.content_size)
        for file in files
        if file.is_vector and file.referenced_data_file in paths
    }


def _without(
    table: Table, listed: ListedManifest, remove: Collection[str], replaced: set[Identity], snapshot_id: int
) -> ListedManifest:
    """Return the manifest with some files marked as deleted, or unchanged if it lists none of them."""
    if not remove and not replaced:
        return listed
    manifest = read_manifest(table.io, listed)
    gone = frozenset(entry.identity for entry in manifest.entries if entry.path in remove or entry.identity in replaced)
    if not gone:
        return listed
    path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    version = table.metadata.format_version
    content, line = rewritten_manifest(
        [Loss(manifest, gone)], snapshot_id=snapshot_id, format_version=version, path=path
    )
    write_file(table.io, path, content)
    return line


def _write_vectors(
    table: Table, listed: Sequence[ListedManifest], delete: Vectors, snapshot_id: int, branch: str
) -> list[ListedManifest]:
    """Write one Puffin file, and a manifest for each vector in it."""
    assert table.metadata.format_version > 2, "deletion vectors are of format version 3"
    head = table.metadata.snapshot_by_name(branch)
    rows = {path: sorted(deleted_positions(table, head, path).union(delete.rows[path])) for path in delete.rows}
    content, places = puffin_file(rows)
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.puffin"
    write_file(table.io, path, content)
    manifests = []
    for data_path, (offset, size) in places.items():
        data_file = {
            134: 1,
            100: path,
            101: "PUFFIN",
            103: len(rows[data_path]),
            104: len(content),
            143: data_path,
            144: offset,
            145: size,
        }
        scope = _scope(table, listed, data_path, delete)
        manifests.append(_write_manifest(table, scope, data_file, delete.sequence_number, snapshot_id))
    return manifests


def _write_delete(
    table: Table, listed: Sequence[ListedManifest], delete: Positions | EqualTo, snapshot_id: int
) -> ListedManifest:
    """Write a delete file and a manifest for it. Returns the manifest's row for the manifest list."""
    rows = _position_rows(delete) if isinstance(delete, Positions) else _key_rows(table, delete)
    like = next(iter(delete.rows)) if isinstance(delete, Positions) else delete.like
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
    return _write_manifest(table, _scope(table, listed, like, delete), data_file, delete.sequence_number, snapshot_id)


def _write_manifest(
    table: Table, scope: "_Scope", data_file: Mapping[int, Any], sequence_number: int | None, snapshot_id: int
) -> ListedManifest:
    manifest = _delete_manifest(table, scope, data_file, sequence_number)
    path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    write_file(table.io, path, manifest)
    return ListedManifest(
        {
            500: path,
            501: len(manifest),
            502: scope.spec_id,
            517: 1,
            503: snapshot_id,
            504: 1,
            505: 0,
            506: 0,
            512: data_file[103],
            513: 0,
            514: 0,
            507: scope.summaries,
            516: sequence_number,
        }
    )


@dataclass(frozen=True)
class _Scope:
    """The spec of a delete file, and its partition as the manifests of its data files encode it."""

    spec_id: int
    partition_schema: Any
    partition: bytes
    summaries: Any


def _scope(
    table: Table, listed: Sequence[ListedManifest], like: str | None, delete: Positions | EqualTo | Vectors
) -> _Scope:
    if like is None:
        assert isinstance(delete, EqualTo)
        assert table.specs()[delete.spec_id].is_unpartitioned(), "a delete for the whole table is of such a spec"
        return _Scope(delete.spec_id, _NO_PARTITION, b"", [])
    source, entry = next(
        (manifest, entry)
        for manifest in (read_manifest(table.io, item) for item in listed if not item.fields.get(517))
        for entry in manifest.entries
        if entry.path == like
    )
    return _Scope(source.listed.spec_id, source.partition_schema, entry.partition, source.listed.fields.get(507))


def _position_rows(delete: Positions) -> pa.Table:
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_FIELD)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_FIELD)}),
        ]
    )
    # By the specification, rows are sorted by path and position.
    pairs = sorted((path, position) for path, positions in delete.rows.items() for position in positions)
    return pa.Table.from_pylist([{"file_path": path, "pos": position} for path, position in pairs], schema)


def _key_rows(table: Table, delete: EqualTo) -> pa.Table:
    schema = schema_to_pyarrow(table.schema().select(*delete.keys))
    if all(isinstance(keys, pa.Array) for keys in delete.keys.values()):
        return pa.table(dict(delete.keys)).select(schema.names).cast(schema)
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


def _delete_manifest(table: Table, scope: _Scope, data_file: Mapping[int, Any], sequence_number: int | None) -> bytes:
    version = table.metadata.format_version
    schema = with_partition(entry_schema(version), scope.partition_schema)
    out = bytearray()
    for field in resolve_names(schema)["fields"]:
        if field_id(field) != 2:
            writer(field["type"])(out, {0: 1, 3: sequence_number}.get(field_id(field)))
            continue
        for part in field["type"]["fields"]:
            if field_id(part) == 102:
                out += scope.partition
            else:
                writer(part["type"])(out, data_file.get(field_id(part)))
    metadata = {
        "schema": table.schema().model_dump_json().encode(),
        "partition-spec": table.specs()[scope.spec_id].model_dump_json().encode(),
        "partition-spec-id": str(scope.spec_id).encode(),
        "format-version": str(version).encode(),
        "content": b"deletes",
    }
    return build_container(schema, metadata, [bytes(out)])
