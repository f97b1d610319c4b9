"""Groups manifests whose entries can share a manifest, and encodes their entries for it.

Entries are copied as bytes. Only the status, the snapshot id, the sequence numbers and the first row id are encoded,
because entries inherited these from their old manifest [I3, I8]. An entry in a layout of another writer or of an older
format version is decoded and encoded in the layout of the new manifest.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.types import UUIDType

from tidyberg.avro.records import AvroFile, field_id, reader, resolve_names, writer
from tidyberg.commit.entries import EXISTING, Manifest, encode_data_file, entry_schema, with_partition
from tidyberg.commit.new_partitions import decode_partitions, partition_types
from tidyberg.manifests.encoded_entries import EncodedEntries, EntryFormat, Ints
from tidyberg.observe.manifest_list import DATA, ListedManifest

DELETES = 1  # the content of a manifest of delete files
_DEPRECATED = frozenset({105, 106, 107, 111})  # fields that a later format version does not have
_DETAILS = ("logicalType", "size", "precision", "scale", "adjust-to-utc")  # that change what the bytes mean


@dataclass(frozen=True)
class ManifestKind:
    """Manifests of one kind can share their entries. A kind has all that must be equal for that."""

    spec_id: int
    holds_deletes: bool
    shape: object  # of the partition tuple
    has_row_ids: bool  # I8: rows without ids get them by their position in the manifest
    format_version: int
    schema: Any  # of the entries in a rewritten manifest
    header: Mapping[str, bytes]

    @property
    def content(self) -> int:
        return DELETES if self.holds_deletes else DATA

    @cached_property
    def template(self) -> Manifest:
        listed = ListedManifest({502: self.spec_id, 517: self.content})
        return Manifest(listed, AvroFile(self.header, self.schema, ()), ())

    def partitions(self, encoded: Sequence[bytes]) -> list[tuple[Any, ...]]:
        return list(decode_partitions(self.template, encoded))

    @property
    def partition_field_ids(self) -> list[int]:
        return [field_id(field) for field in _partition_schema(self.schema)["fields"]]


@dataclass(frozen=True)
class ManifestKinds:
    kinds: tuple[ManifestKind, ...]
    of_manifest: tuple[int | None, ...]  # the kind of each manifest; None: it is not rewritten


def kinds_of(entries: EncodedEntries, format_version: int) -> ManifestKinds:
    """Finds the kind of each manifest. Manifests with UUIDs in their partitions have none.

    Readers order UUIDs differently, so the bounds of several partitions would be wrong for some readers.
    """
    formats = [_SourceFormat.of(one) for one in entries.formats]
    members: dict[Any, list[int]] = {}
    for number, info in enumerate(entries.manifests):
        source = formats[entries.format_of[number]]
        if not source.has_uuid:
            has_row_ids = format_version > 2 and info.first_row_id is not None
            key = info.holds_deletes, info.spec_id, source.partition_shape, has_row_ids
            members.setdefault(key, []).append(number)
    kinds: list[ManifestKind] = []
    of_manifest: list[int | None] = [None] * len(entries.manifests)
    for (holds_deletes, spec_id, shape, has_row_ids), numbers in members.items():
        used = sorted({entries.format_of[number] for number in numbers})
        for schema, fitting in _schemas({number: formats[number] for number in used}, format_version):
            own = [number for number in numbers if entries.format_of[number] in fitting]
            newest = max(own, key=lambda number: (entries.manifests[number].sequence_number, -number))
            header = dict(entries.formats[entries.format_of[newest]].header)
            header["format-version"] = str(format_version).encode()
            if format_version > 1:
                header["content"] = b"deletes" if holds_deletes else b"data"
            for number in own:
                of_manifest[number] = len(kinds)
            kinds.append(ManifestKind(spec_id, holds_deletes, shape, has_row_ids, format_version, schema, header))
    return ManifestKinds(tuple(kinds), tuple(of_manifest))


@dataclass(frozen=True)
class _SourceFormat:
    entry_format: EntryFormat
    schema: Any
    fields: Mapping[int, Any]  # the types of the data file's fields
    partition_shape: object
    has_uuid: bool

    @classmethod
    def of(cls, entry_format: EntryFormat) -> "_SourceFormat":
        schema = json.loads(entry_format.schema_text)
        container = AvroFile(entry_format.header, schema, ())
        types = partition_types(Manifest(ListedManifest({}), container, ()))
        resolved = resolve_names(schema)
        return cls(
            entry_format,
            schema,
            _data_file_fields(resolved),
            shape_of(_partition_schema(resolved)),
            any(isinstance(kind, UUIDType) for kind in types),
        )


def _schemas(formats: Mapping[int, _SourceFormat], format_version: int) -> Iterator[tuple[Any, frozenset[int]]]:
    """Yields schemas of rewritten manifests, and the formats whose fields all have a place in them.

    Formats that fit nowhere are left out.
    """
    left = dict(formats)
    while left:
        current = [one for one in left.values() if is_current(one.entry_format, format_version)]
        if current:
            schema = max(current, key=lambda one: (len(one.fields), one.entry_format.schema_text)).schema
        else:
            first = next(iter(left.values()))
            schema = with_partition(entry_schema(format_version), _partition_schema(first.schema))
        fitting = frozenset(number for number, one in left.items() if _fits(one, schema, format_version))
        if not fitting:
            return
        yield schema, fitting
        left = {number: one for number, one in left.items() if number not in fitting}


def is_current(entry_format: EntryFormat, format_version: int) -> bool:
    """Returns True if entries in this format can be copied unchanged into a manifest of the version."""
    schema = json.loads(entry_format.schema_text)
    ids = [field_id(field) for field in schema["fields"]]
    return (
        entry_format.version == format_version
        and ids == [field_id(field) for field in entry_schema(format_version)["fields"]]
        and (format_version < 3 or 142 in _data_file_fields(resolve_names(schema)))
    )


def _fits(source: _SourceFormat, schema: Any, format_version: int) -> bool:
    """Returns True if the schema has every field of the format, and allows nulls where the format has no field."""
    if shape_of(source.schema) == shape_of(schema):
        return True
    have, want = source.fields, _data_file_fields(resolve_names(schema))
    dropped = _DEPRECATED if source.entry_format.version < format_version else frozenset()
    return (
        have.keys() - dropped <= want.keys()
        and all(number in have or number == 134 or isinstance(kind, list) for number, kind in want.items())
        and all(
            isinstance(want[number], list) for number in have.keys() & want.keys() if isinstance(have[number], list)
        )
    )


def shape_of(schema: Any) -> object:
    """Returns the parts of a schema that decide how a value is encoded. Names and documentation do not count."""
    return _shape(resolve_names(schema))


def _shape(schema: Any) -> object:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return tuple(_shape(branch) for branch in schema)
    details = tuple((key, schema[key]) for key in _DETAILS if key in schema)
    if "fields" in schema:
        return ("record", tuple((field.get("field-id"), _shape(field["type"])) for field in schema["fields"]))
    inner = tuple(_shape(schema[key]) for key in ("items", "values") if key in schema)
    return (str(schema["type"]) if not isinstance(schema["type"], dict) else _shape(schema["type"]), inner, details)


def _data_file_schema(schema: Any) -> Any:
    return next(field["type"] for field in schema["fields"] if field_id(field) == 2)


def _partition_schema(schema: Any) -> Any:
    return next(field["type"] for field in _data_file_schema(schema)["fields"] if field_id(field) == 102)


def _data_file_fields(resolved: Any) -> dict[int, Any]:
    return {field_id(field): field["type"] for field in _data_file_schema(resolved)["fields"]}


class KindEncoder:
    """Encodes entries for rewritten manifests of a kind."""

    def __init__(self, kind: ManifestKind, entries: EncodedEntries) -> None:
        resolved = resolve_names(kind.schema)
        self._top = [(field_id(field), writer(field["type"])) for field in resolved["fields"] if field_id(field) != 2]
        self._data_file = [(field_id(field), writer(field["type"])) for field in _data_file_schema(resolved)["fields"]]
        self._write_row_id = dict(self._data_file).get(142)
        self._has_row_ids = kind.has_row_ids
        self._entries = entries
        shape = shape_of(kind.schema)
        self._convert: dict[int, Callable[[bytes], Mapping[int, Any]] | None] = {}
        for number, entry_format in enumerate(entries.formats):
            source = json.loads(entry_format.schema_text)
            if shape_of(source) == shape and is_current(entry_format, kind.format_version):
                self._convert[number] = None
            else:
                read = reader(resolve_names(_data_file_schema(resolve_names(source))))
                self._convert[number] = lambda content, read=read: read(new_decoder(content))  # type: ignore[misc]

    def encode(self, rows: Ints) -> list[bytes]:
        """Encodes entries as EXISTING, in this order."""
        entries = self._entries
        part = entries.table.take(rows)
        buffers, formats = entries.buffers, entries.format_of
        prefixes, prefix_of = self._prefixes(part)
        row_ids = part["first_row_id"].to_pylist() if self._has_row_ids else [None] * len(rows)
        columns = ("manifest", "buffer", "data_file_at", "row_id_at", "row_id_end", "entry_end")
        encoded: list[bytes] = []
        for prefix, row_id, partition, manifest, buffer, begin, id_begin, id_end, end in zip(
            prefix_of.tolist(),
            row_ids,
            part["partition"].to_pylist(),
            *(part[name].to_pylist() for name in columns),
            strict=True,
        ):
            content = buffers[buffer]
            convert = self._convert[formats[manifest]]
            if convert is not None:
                fields = {134: DATA, **convert(bytes(content[begin:end])), 142: row_id}
                encoded.append(prefixes[prefix] + encode_data_file(self._data_file, fields, partition))
            elif self._write_row_id is None:
                encoded.append(prefixes[prefix] + content[begin:end])
            else:
                out = bytearray(prefixes[prefix])
                out += content[begin:id_begin]
                self._write_row_id(out, row_id)  # I8: a null would be inherited from the new manifest
                out += content[id_end:end]
                encoded.append(bytes(out))
        return encoded

    def _prefixes(self, part: Any) -> tuple[list[bytes], Ints]:
        """Encodes the leading fields once for each commit, because all its entries have the same values.

        Returns the encoded prefixes, and the number of the prefix of each entry.
        """
        columns = [part[name].to_numpy() for name in ("snapshot_id", "sequence_number", "file_sequence_number")]
        distinct, numbers = np.unique(np.stack(columns), axis=1, return_inverse=True)
        prefixes = []
        for snapshot_id, sequence_number, file_sequence_number in distinct.T.tolist():
            values = {0: EXISTING, 1: snapshot_id, 3: sequence_number, 4: file_sequence_number}
            out = bytearray()
            for number, write in self._top:
                write(out, values[number])
            prefixes.append(bytes(out))
        return prefixes, numbers.reshape(-1)
