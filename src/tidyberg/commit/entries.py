"""Reads manifest entries with their inherited values, and encodes them with as few changes as the spec allows.

Entries that stay are copied as bytes. Only the fields that a commit changes are encoded: status, snapshot id, and the
sequence numbers and first row ids that were inherited until now [I3, I8, I9].
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from tidyberg.avro.records import AvroFile, field_id, reader, resolve_names, skipper, writer
from tidyberg.model.task import WrittenDelete, WrittenFile
from tidyberg.observe.manifest_list import DATA, ListedManifest
from tidyberg.storage.table_files import damaged

ADDED, DELETED = 1, 2
POSITION_DELETES = 1  # content of a data file: position deletes and deletion vectors
EXISTING = 0
BLOCK_SIZE_V1 = 64 * 1024 * 1024  # required in v1, where the spec says "always write a default"


# I5: a path identifies a data file. Many DVs share one Puffin file, so a DV also needs its offset and size.
Identity = tuple[str, int | None, int | None]  # path, content offset, content size


@dataclass(frozen=True)
class Entry:
    """A live entry of a manifest, with its inherited values."""

    identity: Identity
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    records: int
    size: int
    partition: bytes  # as encoded in the manifest
    data_file: bytes  # the whole data_file record as encoded in the manifest
    first_row_id: int | None  # v3; None also if the table was upgraded and its rows have no ids yet
    first_row_id_at: slice | None  # where it is in `data_file`, if it has a place there

    @property
    def path(self) -> str:
        return self.identity[0]


@dataclass(frozen=True)
class Manifest:
    """A manifest that was read to be rewritten."""

    listed: ListedManifest
    container: AvroFile
    entries: tuple[Entry, ...]

    @property
    def format_version(self) -> int:
        return int(self.container.metadata.get("format-version", b"1"))

    @property
    def data_file_schema(self) -> Any:
        return next(field["type"] for field in self.container.schema["fields"] if field_id(field) == 2)

    @property
    def partition_schema(self) -> Any:
        return next(field["type"] for field in self.data_file_schema["fields"] if field_id(field) == 102)


@dataclass(frozen=True)
class AddedFile:
    """A file to add, with the partition of the inputs that it replaces."""

    file: WrittenFile
    partition: bytes


@dataclass(frozen=True)
class AddedDelete:
    """A position delete file or a deletion vector to add, with the partition of its data file."""

    file: WrittenFile
    delete: WrittenDelete
    partition: bytes


def encode_data_file(
    writers: Sequence[tuple[int, Callable[[bytearray, Any], None]]], fields: Mapping[int, Any], partition: bytes
) -> bytes:
    """Encodes a `data_file` struct. Its partition is encoded already."""
    out = bytearray()
    for number, write in writers:
        if number == 102:
            out += partition
        else:
            write(out, fields.get(number))
    return bytes(out)


class EntryEncoder:
    """Encodes entries in the schema of the source, or in that of the format version if the source's does not fit."""

    def __init__(self, schema: Any, source: Manifest, keeps_bytes: bool) -> None:
        self.schema = schema
        self._keeps_bytes = keeps_bytes
        resolved = resolve_names(schema)
        data_file = next(field["type"] for field in resolved["fields"] if field_id(field) == 2)
        self._top = [
            (field_id(field), writer(field["type"]) if field_id(field) != 2 else None) for field in resolved["fields"]
        ]
        self._data_file = [(field_id(field), writer(field["type"])) for field in data_file["fields"]]
        self._write_first_row_id = dict(self._data_file).get(142)
        self._read_source = reader(resolve_names(source.data_file_schema))

    @classmethod
    def for_source(cls, source: Manifest, format_version: int) -> "EntryEncoder":
        template = entry_schema(format_version)
        ids = [field_id(field) for field in template["fields"]]
        if (
            source.format_version == format_version
            and ids == [field_id(field) for field in source.container.schema["fields"]]
            and (format_version < 3 or any(field_id(field) == 142 for field in source.data_file_schema["fields"]))
        ):
            return cls(source.container.schema, source, keeps_bytes=True)
        # The table was upgraded. Old entries would inherit the new snapshot's sequence number, so write them again.
        return cls(with_partition(template, source.partition_schema), source, keeps_bytes=False)

    def existing(self, entry: Entry, status: int, snapshot_id: int) -> bytes:
        return self._entry(
            {0: status, 1: snapshot_id, 3: entry.sequence_number, 4: entry.file_sequence_number},
            self._with_first_row_id(entry) if self._keeps_bytes else self._convert(entry),
        )

    def added(self, output: AddedFile | AddedDelete, snapshot_id: int, sequence_number: int) -> bytes:
        if isinstance(output, AddedDelete):
            fields = _delete_fields(output.file, output.delete)
        else:
            fields = _data_file_fields(output.file)
        return self._entry(
            {0: ADDED, 1: snapshot_id, 3: sequence_number, 4: None},
            encode_data_file(self._data_file, fields, output.partition),
        )

    def _entry(self, values: Mapping[int, Any], data_file: bytes) -> bytes:
        out = bytearray()
        for number, write in self._top:
            if write is None:
                out += data_file
            else:
                write(out, values[number])
        return bytes(out)

    def _with_first_row_id(self, entry: Entry) -> bytes:
        """I8: a null would be inherited from the new manifest, and the rows would get other ids."""
        if self._write_first_row_id is None or entry.first_row_id_at is None:
            return entry.data_file
        out = bytearray(entry.data_file[: entry.first_row_id_at.start])
        self._write_first_row_id(out, entry.first_row_id)
        return bytes(out) + entry.data_file[entry.first_row_id_at.stop :]

    def _convert(self, entry: Entry) -> bytes:
        fields = self._read_source(new_decoder(entry.data_file))
        return encode_data_file(self._data_file, {134: DATA, **fields, 142: entry.first_row_id}, entry.partition)


def live_entries(container: AvroFile, listed: ListedManifest) -> Iterator[Entry]:
    data_file = next(field["type"] for field in container.resolved["fields"] if field_id(field) == 2)
    top = [(field_id(field), reader(field["type"])) for field in container.resolved["fields"] if field_id(field) != 2]
    assert field_id(container.schema["fields"][-1]) == 2, "data_file is an entry's last field in every version"
    wanted = {100, 103, 104, 142, 144, 145}  # path, records, size, first row id; of a DV its offset and size
    steps = [
        (field_id(field), reader(field["type"]) if field_id(field) in wanted else skipper(field["type"]))
        for field in data_file["fields"]
    ]
    next_row_id = listed.first_row_id if listed.content == DATA else None  # rows of delete files have no ids
    for count, block in container.blocks:
        decoder = new_decoder(block)
        for _ in range(count):
            values = {number: read(decoder) for number, read in top}
            start = decoder.tell()
            first_row_id_at = None
            for number, step in steps:
                before = decoder.tell()
                value = step(decoder)
                if number == 142:
                    first_row_id_at = slice(before - start, decoder.tell() - start)
                if number in wanted:
                    values[number] = value
                elif number == 102:
                    values[number] = block[before : decoder.tell()]
            if values[0] == DELETED:
                continue
            inherits = values[0] == ADDED or listed.sequence_number == 0
            # If the manifest has no id, its files have none either: they are older than the table's upgrade to v3.
            first_row_id = values.get(142) if next_row_id is not None else None
            if next_row_id is not None and first_row_id is None:
                first_row_id, next_row_id = next_row_id, next_row_id + values[103]
            yield Entry(
                identity=(values[100], values.get(144), values.get(145)),
                snapshot_id=values[1] if values[1] is not None else listed.added_snapshot_id,
                sequence_number=_inherited(values.get(3), listed, inherits),
                file_sequence_number=_inherited(values.get(4), listed, inherits),
                records=values[103],
                size=values[104],
                partition=values[102],
                data_file=block[start : decoder.tell()],
                first_row_id=first_row_id,
                first_row_id_at=first_row_id_at,
            )


def _inherited(value: int | None, listed: ListedManifest, inherits: bool) -> int:
    if value is not None:
        return value
    if not inherits:
        raise damaged(listed.path, "an EXISTING entry has no sequence number")
    return listed.sequence_number


def _data_file_fields(file: WrittenFile) -> dict[int, Any]:
    def entries(values: Mapping[int, Any], key: int) -> list[dict[int, Any]]:
        return [{key: number, key + 1: value} for number, value in sorted(values.items())]

    return {
        134: DATA,
        100: file.path,
        101: "PARQUET",
        103: file.records,
        104: file.size,
        105: BLOCK_SIZE_V1,
        108: entries(file.column_sizes, 117),
        109: entries(file.value_counts, 119),
        110: entries(file.null_value_counts, 121),
        137: entries(file.nan_value_counts, 138),
        125: entries(file.lower_bounds, 126),
        128: entries(file.upper_bounds, 129),
        132: list(file.split_offsets),
        140: file.sort_order_id,
    }


def _delete_fields(file: WrittenFile, delete: WrittenDelete) -> dict[int, Any]:
    """Returns the fields of a position delete file or of one vector of a Puffin file. Both reference one data file."""
    is_vector = delete.content_offset is not None
    described = {} if is_vector else _data_file_fields(file)
    return {
        **described,
        134: POSITION_DELETES,
        100: file.path,
        101: "PUFFIN" if is_vector else "PARQUET",
        103: delete.records,
        104: file.size,
        143: delete.data_file,
        144: delete.content_offset,
        145: delete.content_size,
    }


def delete_entry_schema(format_version: int) -> Any:
    """Returns the schema of entries for deletes. The spec has `referenced_data_file` in v2 too; PyIceberg has not."""
    schema = entry_schema(format_version)
    data_file = next(field["type"] for field in schema["fields"] if field_id(field) == 2)
    if any(field_id(field) == 143 for field in data_file["fields"]):
        return schema
    referenced = {"name": "referenced_data_file", "type": ["null", "string"], "default": None, "field-id": 143}
    extended = {**data_file, "fields": [*data_file["fields"], referenced]}
    return {
        **schema,
        "fields": [{**field, "type": extended} if field_id(field) == 2 else field for field in schema["fields"]],
    }


def with_partition(schema: Any, partition: Any) -> Any:
    def with_field(record: Any, number: int, kind: Any) -> Any:
        return {
            **record,
            "fields": [{**field, "type": kind} if field_id(field) == number else field for field in record["fields"]],
        }

    data_file = next(field["type"] for field in schema["fields"] if field_id(field) == 2)
    return with_field(schema, 2, with_field(data_file, 102, partition))


@cache
def entry_schema(format_version: int) -> Any:
    schema: Any = AvroSchemaConversion().iceberg_to_avro(
        MANIFEST_ENTRY_SCHEMAS[format_version], schema_name="manifest_entry"
    )
    data_file = next(field["type"] for field in schema["fields"] if field_id(field) == 2)
    for field in data_file["fields"]:
        if field_id(field) == 135:  # PyIceberg types the elements as long; the spec and Java read int
            field["type"][1]["items"] = "int"
    return schema
