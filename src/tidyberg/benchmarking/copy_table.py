"""Copies some live files of a table, with the metadata they need, into a new table.

The copy keeps schemas, partition specs, sequence numbers, deletes and row ids. Only paths differ: in manifests, in
position delete files and in the location of the table. The original is only read.
"""

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidyberg.avro.records import reader, resolve_names, writer
from tidyberg.benchmarking.sample import BenchmarkSample
from tidyberg.catalog.metadata_file import as_document, write_document
from tidyberg.commit.entries import Entry, Manifest
from tidyberg.commit.manifests import (
    Loss,
    manifest_list,
    read_manifest,
    rewritten_manifest,
    write_file,
)
from tidyberg.errors import StorageError
from tidyberg.model.plan import DeleteFile
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests

_CHUNK = 8 * 1024 * 1024
_THREADS = 8
_PATH_COLUMN = 2147483546  # `file_path` of position delete files, from the Iceberg specification
# These properties would make the copy write into the original.
_LEADING_OUT = ("write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage")


@dataclass(frozen=True, slots=True)
class _Copied:
    """The copy of a file. Position delete files are rewritten with the new paths."""

    path: str
    size: int
    records: int | None = None  # None: unchanged
    path_bounds: tuple[bytes, bytes] | None = None


def copy_table(source: Table, snapshot: Snapshot, sample: BenchmarkSample, io: FileIO, location: str) -> dict[str, Any]:
    """Writes the data files, delete files and manifests of the copy, and returns its metadata."""
    copied = _copy_files(source.io, sample, io, location)
    version = source.metadata.format_version
    listed = []
    for number, found in enumerate(read_listed_manifests(source.io, snapshot.manifest_list)):
        manifest = read_manifest(source.io, found)
        kept = [entry for entry in manifest.entries if entry.identity in sample.identities and entry.path in copied]
        if kept:
            moved = replace(manifest, entries=_moved(manifest, kept, copied))
            path = f"{location}/metadata/copied-{number:05d}.avro"
            content, line = rewritten_manifest(
                [Loss(moved, frozenset())], snapshot_id=snapshot.snapshot_id, format_version=version, path=path
            )
            write_file(io, path, content)
            listed.append(line)
    return _metadata(source, snapshot, listed, io, location)


def write_metadata(document: dict[str, Any], io: FileIO, path: str) -> None:
    write_document(document, io, path, overwrite=False)


def _copy_files(source: FileIO, sample: BenchmarkSample, io: FileIO, location: str) -> dict[str, _Copied]:
    # Numbered in the order of the old paths, so that position deletes stay sorted by path.
    sizes = {file.path: file.size for file in sample.files}
    targets = {
        path: f"{location}/data/{number:07d}-{path.rpartition('/')[2]}" for number, path in enumerate(sorted(sizes))
    }
    others = {delete.path: delete for delete in sample.deletes if delete.kind != "position"}
    positions = [delete for delete in sample.deletes if delete.kind == "position"]
    copied = {path: _Copied(target, sizes[path]) for path, target in targets.items()}
    copied |= {
        path: _Copied(f"{location}/data/deletes-{number:07d}-{path.rpartition('/')[2]}", delete.size)
        for number, (path, delete) in enumerate(others.items())
    }
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(lambda item: _copy_bytes(source, item[0], io, item[1].path), copied.items()):
            pass
        rewritten = pool.map(
            lambda item: _copy_positions(
                source, item[1], io, f"{location}/data/positions-{item[0]:07d}.parquet", targets
            ),
            enumerate(positions),
        )
        copied |= {delete.path: done for delete, done in zip(positions, rewritten, strict=True) if done is not None}
    return copied


def _copy_bytes(source: FileIO, path: str, io: FileIO, target: str) -> None:
    try:
        with source.new_input(path).open() as reading, io.new_output(target).create() as writing:
            while chunk := reading.read(_CHUNK):
                writing.write(chunk)
    except OSError as error:
        raise StorageError(
            f"Cannot copy {path} to {target}: {error}.", hint="Check the free space and the network."
        ) from error


def _copy_positions(
    source: FileIO, delete: DeleteFile, io: FileIO, target: str, targets: Mapping[str, str]
) -> _Copied | None:
    """Writes the positions of copied files with their new paths. Returns None if there are none."""
    with source.new_input(delete.path).open() as reading:
        rows = pq.read_table(pa.BufferReader(reading.read()))
    old, new = pa.array(targets, pa.string()), pa.array(targets.values(), pa.string())
    found = pc.index_in(rows["file_path"].cast(pa.string()), value_set=old)
    kept = rows.filter(found.is_valid())
    if not kept.num_rows:
        return None
    paths = new.take(found.drop_null().combine_chunks())
    kept = kept.set_column(kept.schema.get_field_index("file_path"), kept.schema.field("file_path"), paths)
    sink = pa.BufferOutputStream()
    pq.write_table(kept, sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    write_file(io, target, content)
    bounds = pc.min_max(paths).as_py()
    return _Copied(target, len(content), kept.num_rows, (bounds["min"].encode(), bounds["max"].encode()))


def _moved(manifest: Manifest, kept: list[Entry], copied: Mapping[str, _Copied]) -> tuple[Entry, ...]:
    schema = resolve_names(manifest.data_file_schema)
    read, write = reader(schema), writer(schema)
    entries = []
    for entry in kept:
        fields = _moved_fields(read(new_decoder(entry.data_file)), entry, copied)
        encoded = bytearray()
        write(encoded, fields)
        entries.append(replace(entry, records=fields[103], data_file=bytes(encoded), first_row_id_at=None))
    return tuple(entries)


def _moved_fields(fields: dict[int, Any], entry: Entry, copied: Mapping[str, _Copied]) -> dict[int, Any]:
    """Returns the fields of an entry, by field id, with the path, size and bounds of the copy."""
    copy = copied[entry.path]
    changed = {**fields, 100: copy.path, 104: copy.size}
    if 142 in fields:
        changed[142] = entry.first_row_id  # otherwise it would be inherited again [I8]
    if (referenced := fields.get(143)) is not None and referenced in copied:
        changed[143] = copied[referenced].path
    if copy.records is not None and copy.path_bounds is not None:
        changed[103], changed[132] = copy.records, None
        for number, key, bound in ((125, 126, copy.path_bounds[0]), (128, 129, copy.path_bounds[1])):
            others = [item for item in fields.get(number) or [] if item[key] != _PATH_COLUMN]
            changed[number] = [*others, {key: _PATH_COLUMN, key + 1: bound}]
    return changed


def _metadata(
    source: Table, snapshot: Snapshot, listed: list[ListedManifest], io: FileIO, location: str
) -> dict[str, Any]:
    """Returns the metadata with the copied snapshot as the only one, on `main`."""
    version = source.metadata.format_version
    document = as_document(source.metadata)
    first_row_id = document.get("next-row-id") if version > 2 else None
    list_path = f"{location}/metadata/snap-{snapshot.snapshot_id}-copied.avro"
    content, added_rows = manifest_list(
        listed,
        snapshot_id=snapshot.snapshot_id,
        parent_id=None,
        sequence_number=snapshot.sequence_number or 0,
        format_version=version,
        first_row_id=first_row_id,
    )
    write_file(io, list_path, content)
    (kept,) = (found for found in document["snapshots"] if found["snapshot-id"] == snapshot.snapshot_id)
    kept = {**kept, "manifest-list": list_path, "summary": {"operation": "append"}}
    kept.pop("parent-snapshot-id", None)
    properties = {
        key: value for key, value in document.get("properties", {}).items() if not key.startswith(_LEADING_OUT)
    }
    document |= {
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "properties": properties,
        "snapshots": [kept],
        "current-snapshot-id": snapshot.snapshot_id,
        "refs": {"main": {"snapshot-id": snapshot.snapshot_id, "type": "branch"}},
        "snapshot-log": [{"snapshot-id": snapshot.snapshot_id, "timestamp-ms": kept["timestamp-ms"]}],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
    if first_row_id is not None:
        document["next-row-id"] = first_row_id + added_rows
    return document
