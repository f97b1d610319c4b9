"""Reads and writes Avro containers by their own schema, byte for byte.

PyIceberg's Avro maps every file onto its own idea of the manifest schema, which drops fields it does not know
and gives some of them another type. A rewritten manifest must say of its untouched entries exactly what it said
before, so values here follow the file's own schema, without logical types, and raw slices can be carried over.
"""

import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

from tidyberg.avro.columns import read_double
from tidyberg.avro.container import AvroError, blocks, open_container
from tidyberg.storage.metadata_files import damaged

MAGIC = b"Obj\x01"
SYNC_SIZE = 16

Read = Callable[[BinaryDecoder], Any]
Write = Callable[[bytearray, Any], None]

BLOCK_BYTES = 64_000  # as in Java's files: readers take many blocks at once


@dataclass(frozen=True)
class Container:
    """An Avro file taken apart: its header metadata, its record schema, and its blocks, decompressed."""

    metadata: Mapping[str, bytes]
    schema: dict[str, Any]
    blocks: tuple[tuple[int, bytes], ...]  # number of records, their bytes

    @classmethod
    def parse(cls, content: bytes, path: str) -> "Container":
        try:
            opened = open_container(content)
            return cls(opened.metadata, opened.schema, tuple(blocks(opened)))
        except AvroError as error:
            raise damaged(path, str(error)) from error

    @property
    def resolved(self) -> Any:
        """The schema with every reference to a named type replaced by the type itself."""
        return resolve_names(self.schema)

    def records(self) -> Iterator[dict[int, Any]]:
        """Every record as a mapping from field id to value, nested records too."""
        read = reader(self.resolved)
        for count, block in self.blocks:
            decoder = new_decoder(block)
            for _ in range(count):
                yield read(decoder)


def build_container(schema: Any, metadata: Mapping[str, bytes], records: list[bytes]) -> bytes:
    """One file of encoded records. A block a record, as PyIceberg has it, made manifests 2.5 times bigger."""
    header = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
    header["avro.schema"] = json.dumps(schema).encode()
    header["avro.codec"] = b"deflate"
    sync = os.urandom(SYNC_SIZE)
    out = bytearray(MAGIC)
    write_long(out, len(header))
    for key, value in header.items():
        write_bytes(out, key.encode())
        write_bytes(out, value)
    write_long(out, 0)
    out += sync
    size = max(1, sum(map(len, records)) // max(1, len(records)))
    each = max(1, BLOCK_BYTES // size)
    for start in range(0, len(records), each):
        chunk = records[start : start + each]
        packed, _ = DeflateCodec.compress(b"".join(chunk))
        write_long(out, len(chunk))
        write_bytes(out, packed)
        out += sync
    return bytes(out)


def resolve_names(schema: Any, known: dict[str, Any] | None = None) -> Any:
    """Avro writes a named type once and then refers to it: two uuid columns share one `fixed`."""
    known = {} if known is None else known
    if isinstance(schema, str):
        return known.get(schema, schema)
    if isinstance(schema, list):
        return [resolve_names(branch, known) for branch in schema]
    resolved = dict(schema)
    for key in ("items", "values"):
        if key in schema:
            resolved[key] = resolve_names(schema[key], known)
    if "fields" in schema:
        resolved["fields"] = [{**field, "type": resolve_names(field["type"], known)} for field in schema["fields"]]
    if "name" in schema:
        known[schema["name"]] = resolved
    return resolved


def reader(schema: Any) -> Read:
    """A function that reads one value of this schema; records become {field id: value}."""
    kind = _kind(schema)
    if kind in _READ:
        return _READ[kind]
    if kind == "union":
        branches = [reader(branch) for branch in schema]
        return lambda decoder: branches[decoder.read_int()](decoder)
    if kind == "record":
        fields = [(field_id(field), reader(field["type"])) for field in schema["fields"]]
        return lambda decoder: {number: read(decoder) for number, read in fields}
    if kind == "array":
        item = reader(schema["items"])
        return lambda decoder: [item(decoder) for _ in _items(decoder)]
    if kind == "map":
        value = reader(schema["values"])
        return lambda decoder: {decoder.read_utf8(): value(decoder) for _ in _items(decoder)}
    size = schema["size"]
    return lambda decoder: decoder.read(size)


def writer(schema: Any) -> Write:
    """A function that appends one value of this schema; a missing record field is null."""
    kind = _kind(schema)
    if kind in _WRITE:
        return _WRITE[kind]
    if kind == "union":
        return _write_union(schema)
    if kind == "record":
        fields = [(field_id(field), writer(field["type"])) for field in schema["fields"]]

        def write_record(out: bytearray, value: Mapping[int, Any]) -> None:
            for number, write in fields:
                write(out, value.get(number))

        return write_record
    if kind == "array":
        item = writer(schema["items"])

        def write_array(out: bytearray, values: list[Any]) -> None:
            if values:
                write_long(out, len(values))
                for value in values:
                    item(out, value)
            write_long(out, 0)

        return write_array
    return lambda out, value: out.extend(value)


def field_id(field: Mapping[str, Any]) -> int:
    """The Iceberg id of a record field; key-value records of maps carry theirs like any other."""
    return int(field["field-id"])


def write_long(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value & ~0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_bytes(out: bytearray, value: bytes) -> None:
    write_long(out, len(value))
    out += value


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def _items(decoder: BinaryDecoder) -> Iterator[None]:
    """One step an item of an Avro array or map, whose blocks may be prefixed by their length in bytes."""
    while (count := decoder.read_int()) != 0:
        if count < 0:
            decoder.skip_int()
        for _ in range(abs(count)):
            yield


def _write_union(schema: list[Any]) -> Write:
    null = next((index for index, branch in enumerate(schema) if branch == "null"), None)
    index, branch = next((index, branch) for index, branch in enumerate(schema) if branch != "null")
    write = writer(branch)

    def write_union(out: bytearray, value: Any) -> None:
        if value is None:
            if null is None:
                raise ValueError("a value is missing where the schema has no null")
            write_long(out, null)
        else:
            write_long(out, index)
            write(out, value)

    return write_union


def _write_text(out: bytearray, value: str) -> None:
    write_bytes(out, value.encode())


_READ: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": lambda decoder: decoder.read_boolean(),
    "int": lambda decoder: decoder.read_int(),
    "long": lambda decoder: decoder.read_int(),
    "float": lambda decoder: decoder.read_float(),
    "double": read_double,
    "bytes": lambda decoder: decoder.read_bytes(),
    "string": lambda decoder: decoder.read_utf8(),
}
_WRITE: dict[str, Write] = {
    "null": lambda *_: None,
    "boolean": lambda out, value: out.append(1 if value else 0),
    "int": write_long,
    "long": write_long,
    "float": lambda out, value: out.extend(struct.pack("<f", value)),
    "double": lambda out, value: out.extend(struct.pack("<d", value)),
    "bytes": write_bytes,
    "string": _write_text,
}
