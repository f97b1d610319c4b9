"""Writes the manifests of a replace commit: rewritten ones, new ones for outputs, and the manifest list."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.avro.container import AvroError, decoding
from tidyberg.avro.records import AvroFile, build_container, resolve_names, writer
from tidyberg.commit.entries import (
    DELETED,
    EXISTING,
    AddedDelete,
    AddedFile,
    Entry,
    EntryEncoder,
    Identity,
    Manifest,
    delete_entry_schema,
    live_entries,
    with_partition,
)
from tidyberg.commit.new_partitions import decode_partitions, partition_summaries, partition_types
from tidyberg.errors import AccessDenied, StorageError
from tidyberg.observe.manifest_list import DATA, DELETES, ListedManifest
from tidyberg.storage import table_files as objects
from tidyberg.storage.table_files import damaged, read_bytes


def write_file(io: FileIO, path: str, content: bytes) -> None:
    try:
        size = objects.write(io, path, content)
    except PermissionError as error:
        raise AccessDenied(f"Cannot write {path}: {error}.", hint="Check the permissions on that location.") from error
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error}.", hint="Check its free space and the network.") from error
    if size != len(content):
        raise StorageError(f"{path} has {size} bytes after {len(content)} were written.", hint="Try again.")


def read_manifest(io: FileIO, listed: ListedManifest) -> Manifest:
    content = read_bytes(io, listed.path)
    if len(content) < listed.length:
        raise damaged(listed.path, f"it has {len(content)} bytes, the manifest list says {listed.length}")
    with _naming(listed.path):
        container = AvroFile.parse(content)
        return Manifest(listed, container, tuple(live_entries(container, listed)))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Names the file in errors about its content."""
    try:
        with decoding():
            yield
    except AvroError as error:
        raise damaged(path, str(error)) from error


@dataclass(frozen=True)
class Loss:
    """A manifest, and the entries that the commit removes from it."""

    source: Manifest
    removed: frozenset[Identity]

    @property
    def kept(self) -> list[Entry]:
        return [entry for entry in self.source.entries if entry.identity not in self.removed]

    @property
    def gone(self) -> list[Entry]:
        return [entry for entry in self.source.entries if entry.identity in self.removed]


def rewritten_manifest(
    losses: Sequence[Loss], *, snapshot_id: int, format_version: int, path: str
) -> tuple[bytes, ListedManifest]:
    """Merges the sources into one manifest. Removed entries become DELETED, the others EXISTING.

    Old DELETED entries are dropped. Several sources must have in common what `commit/merging.py` requires.
    """
    records: list[bytes] = []
    kept: list[Entry] = []
    gone: list[Entry] = []
    for loss in losses:
        encode = EntryEncoder.for_source(loss.source, format_version)
        stays, goes = loss.kept, loss.gone
        assert len(goes) == len(loss.removed), "I2: only files live in the manifest are replaced"
        records += [encode.existing(entry, EXISTING, entry.snapshot_id) for entry in stays]
        records += [encode.existing(entry, DELETED, snapshot_id) for entry in goes]
        kept += stays
        gone += goes
    source = losses[0].source
    content = build_container(encode.schema, header_of(source, format_version), records)
    fields = {
        **source.listed.fields,
        500: path,
        501: len(content),
        503: snapshot_id,
        504: 0,
        505: len(kept),
        506: len(gone),
        512: 0,
        513: sum(entry.records for entry in kept),
        514: sum(entry.records for entry in gone),
        517: source.listed.content,
        515: None,  # assigned when the list is written, as is 520, the first row id
        520: None,
        # The minimum over live files, or the number of this commit if there are none.
        516: min((entry.sequence_number for entry in kept), default=None),
    }
    if len(losses) > 1:  # the partition summaries of a single source still cover every entry
        fields[507] = _summaries(source, [*kept, *gone])
    return content, ListedManifest(fields)


def _summaries(template: Manifest, entries: Sequence[Entry]) -> list[dict[int, Any]]:
    partitions = {entry.partition for entry in entries}
    return partition_summaries(partition_types(template), decode_partitions(template, partitions))


@dataclass(frozen=True)
class NewManifest:
    """Describes manifests of added files that can be written together."""

    path: str
    snapshot_id: int
    sequence_number: int  # of the plan's snapshot [I3]
    format_version: int
    summaries: Sequence[Mapping[int, Any]]  # of partition fields

    def listed(self, template: Manifest, content: int, length: int, records: Sequence[int]) -> ListedManifest:
        """Returns the line of the manifest list. `records` has the rows of each added file."""
        return ListedManifest(
            {
                500: self.path,
                501: length,
                502: template.listed.spec_id,
                517: content,
                515: None,
                516: self.sequence_number,
                503: self.snapshot_id,
                504: len(records),
                505: 0,
                506: 0,
                512: sum(records),
                513: 0,
                514: 0,
                507: [dict(summary) for summary in self.summaries],
            }
        )


def added_manifest(template: Manifest, outputs: Sequence[AddedFile], new: NewManifest) -> tuple[bytes, ListedManifest]:
    """Builds a manifest of new files. I3: they carry the data sequence number of the plan's snapshot."""
    encode = EntryEncoder.for_source(template, new.format_version)
    records = [encode.added(output, new.snapshot_id, new.sequence_number) for output in outputs]
    content = build_container(encode.schema, header_of(template, new.format_version), records)
    return content, new.listed(template, DATA, len(content), [output.file.records for output in outputs])


def added_delete_manifest(
    template: Manifest, added: Sequence[AddedDelete], new: NewManifest
) -> tuple[bytes, ListedManifest]:
    """Builds a manifest of merged deletes. `template` is a data manifest of the same spec.

    I3: they carry the data sequence number of the plan's snapshot. It is not below that of any data file or delete
    that the plan saw, so each one applies to its data file. It names that file, so it applies to no other. And it is
    not above: a compaction that started from the same snapshot or a later one has applied the same deletes, and must
    not take these for new ones. Java's rewrite of position deletes keeps the highest number of what it merged, for
    the same reasons. That number is not enough here, because a vector also holds rows of equality deletes.
    """
    schema = with_partition(delete_entry_schema(new.format_version), template.partition_schema)
    encode = EntryEncoder(schema, template, keeps_bytes=False)
    records = [encode.added(delete, new.snapshot_id, new.sequence_number) for delete in added]
    header = {**header_of(template, new.format_version), "content": b"deletes"}
    content = build_container(schema, header, records)
    return content, new.listed(template, DELETES, len(content), [one.delete.records for one in added])


def manifest_list(
    manifests: Sequence[ListedManifest],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None,
) -> tuple[bytes, int]:
    """Returns the list, and how many rows get ids in it. In v3 these begin at `first_row_id`, the table's next id.

    Every attempt assigns sequence numbers to the manifests of this commit, and first row ids to all that have none.
    """
    schema = _list_schema(format_version)
    write = writer(resolve_names(schema))
    records = []
    next_row_id = first_row_id or 0
    for manifest in manifests:
        fields = dict(manifest.fields)
        fields[517] = fields.get(517) or DATA
        for number in (515, 516):
            if fields.get(number) is None:
                fields[number] = sequence_number if fields[503] == snapshot_id else 0
        for count in (504, 505, 506, 512, 513, 514):
            if fields.get(count) is None and format_version > 1:
                raise damaged(manifest.path, "its entry in the manifest list has no file counts")
        if format_version > 2 and fields[517] == DATA and fields.get(520) is None:
            # I8: existing rows count too, because files from before the upgrade have no ids yet.
            fields[520], next_row_id = next_row_id, next_row_id + fields[512] + fields[513]
        record = bytearray()
        write(record, fields)
        records.append(bytes(record))
    metadata = {
        "snapshot-id": str(snapshot_id).encode(),
        "parent-snapshot-id": str(parent_id).encode() if parent_id is not None else b"null",
        "format-version": str(format_version).encode(),
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number).encode()
    if format_version > 2:
        metadata["first-row-id"] = str(first_row_id).encode()
    return build_container(schema, metadata, records), next_row_id - (first_row_id or 0)


def header_of(source: Manifest, format_version: int) -> dict[str, bytes]:
    """The header of a rewritten manifest."""
    header = dict(source.container.metadata)
    header["format-version"] = str(format_version).encode()
    if format_version > 1:
        header["content"] = b"data" if source.listed.content == DATA else b"deletes"
    return header


@cache
def _list_schema(format_version: int) -> Any:
    return AvroSchemaConversion().iceberg_to_avro(
        MANIFEST_LIST_FILE_SCHEMAS[format_version], schema_name="manifest_file"
    )
