"""The record codec: reads, skips and writes Avro values by the file's own schema, byte for byte.

PyIceberg's Avro reader maps every file to its own manifest schema. It drops fields that it does not know and changes
the type of others. But a rewritten manifest must keep its untouched entries exactly as they were. So this codec follows
the file's own schema, without logical types, and callers can carry over raw slices of a block.

PyIceberg's compiled decoder decodes the single values, so this module runs on the driver only. Executors read manifests
with `walk.py`.
"""

import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

from tidyberg.avro.container import AvroError, blocks, open_container

MAGIC = b"Obj\x01"
SYNC_SIZE = 16

Read = Callable[[BinaryDecoder], Any]
Write = Callable[[bytearray, Any], None]

BLOCK_BYTES = 64_000  # the size that Iceberg Java uses; our reader decodes many blocks at once
_MAX_ITEMS = 1_000_000  # of an array in one record; a larger count means damage, and decoding would run past the end
_MAX_BYTES = 2**31  # of all items of an array


@dataclass(frozen=True)
class AvroFile:
    """A parsed Avro file: header metadata, record schema, and decompressed blocks."""

    metadata: Mapping[str, bytes]
    schema: dict[str, Any]
    blocks: tuple[tuple[int, bytes], ...]  # number of records, their bytes

    @classmethod
    def parse(cls, content: bytes) -> "AvroFile":
        """Raises AvroError."""
        opened = open_container(content)
        return cls(opened.metadata, opened.schema, tuple(blocks(opened)))

    @property
    def resolved(self) -> Any:
        """The schema with every reference to a named type replaced by the type itself."""
        return resolve_names(self.schema)

    def records(self, wanted: frozenset[int] | None = None) -> Iterator[dict[int, Any]]:
        """Yields every record, and every record nested in it, as a mapping from field id to value.

        With `wanted`, it decodes only these fields. Fields of nested records are then in the same mapping.
        """
        read = reader(self.resolved) if wanted is None else _projection(json.dumps(self.schema), wanted)
        for count, block in self.blocks:
            decoder = new_decoder(block)
            for _ in range(count):
                yield read(decoder)
                # The decoder does not stop at the end of its buffer.
                if decoder.tell() > len(block):
                    raise AvroError("a record is longer than its block")
            if decoder.tell() != len(block):
                raise AvroError("the records of a block do not fill it")


def build_container(schema: Any, metadata: Mapping[str, bytes], records: list[bytes]) -> bytes:
    """Builds a file from encoded records. PyIceberg's one block per record made manifests 2.5 times larger."""
    return stream_container(schema, metadata, [records])


def stream_container(schema: Any, metadata: Mapping[str, bytes], batches: Iterable[list[bytes]]) -> bytes:
    """Builds a file from batches of encoded records, of which only one need be in memory. Blocks end with a batch."""
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
    for records in batches:
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
    """Replaces references to named types. Avro spells a named type once: two uuid columns share one `fixed`."""
    known = {} if known is None else known
    if isinstance(schema, str):
        return known.get(schema, schema)
    if isinstance(schema, list):
        return [resolve_names(branch, known) for branch in schema]
    if isinstance(schema["type"], dict | list):
        return resolve_names(schema["type"], known)
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
    """Returns a function that reads one value of this schema. A record becomes {field id: value}."""
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
    if kind == "fixed":
        size = schema["size"]
        return lambda decoder: decoder.read(size)
    raise AvroError(f"its schema has an unknown type {kind!r}")


def skipper(schema: Any) -> Read:
    """Returns a function that skips one value of this schema."""
    kind = _kind(schema)
    if kind in _SKIP:
        return _SKIP[kind]
    if kind == "union":
        branches = [skipper(branch) for branch in schema]
        return lambda decoder: branches[decoder.read_int()](decoder)
    if kind == "record":
        fields = [skipper(field["type"]) for field in schema["fields"]]

        def skip_record(decoder: BinaryDecoder) -> None:
            for skip in fields:
                skip(decoder)

        return skip_record
    if kind in ("array", "map"):
        return _skip_items(schema["items"] if kind == "array" else _pair(schema))
    if kind == "fixed":
        size = schema["size"]
        return lambda decoder: decoder.skip(size)
    raise AvroError(f"its schema has an unknown type {kind!r}")


@lru_cache(maxsize=256)
def _projection(schema_text: str, wanted: frozenset[int]) -> Read:
    """Returns a function that reads the wanted fields of a record into one dict and skips the others.

    It is cached, because manifests of one partition spec have the same schema.
    """
    steps = list(_steps(resolve_names(json.loads(schema_text)), wanted))

    def read(decoder: BinaryDecoder) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, step in steps:
            if number is None:
                step(decoder)
            else:
                found[number] = step(decoder)
        return found

    return read


def _steps(record: Mapping[str, Any], wanted: frozenset[int]) -> Iterator[tuple[int | None, Read]]:
    for field in record["fields"]:
        kind, number = field["type"], field.get("field-id")
        if number in wanted:
            yield number, reader(kind)
        elif _kind(kind) == "record" and any(inner.get("field-id") in wanted for inner in kind["fields"]):
            yield from _steps(kind, wanted)
        else:
            yield None, skipper(kind)


def writer(schema: Any) -> Write:
    """Returns a function that appends one value of this schema. A missing record field is written as null."""
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
    """Returns the Iceberg id of a record field. The key-value records of maps have ids too."""
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
    """Yields once per item of an Avro array or map. A block with a negative count also has its length in bytes."""
    while (count := decoder.read_int()) != 0:
        if count < 0:
            decoder.skip_int()
        for _ in range(_plausible(abs(count))):
            yield


def _skip_items(item: Any) -> Read:
    skip_each = skipper(item)
    skip_all = _fast_skip(item) or (lambda decoder, count: [skip_each(decoder) for _ in range(count)])

    def skip(decoder: BinaryDecoder) -> None:
        while count := decoder.read_int():
            if count < 0:
                decoder.skip(_plausible(decoder.read_int(), _MAX_BYTES))
            else:
                skip_all(decoder, _plausible(count))

    return skip


def _pair(schema: Mapping[str, Any]) -> Any:
    """Returns the schema of an item of an Avro map: a key and a value."""
    return {"type": "record", "fields": [{"type": "string"}, {"type": schema["values"]}]}


def _plausible(count: int, limit: int = _MAX_ITEMS) -> int:
    if not 0 <= count <= limit:
        raise AvroError(f"a list claims {count} items")
    return count


def _fast_skip(items: Any) -> Callable[[BinaryDecoder, int], Any] | None:
    """Column metrics are maps from int to long or to bytes. The decoder skips these in one compiled loop."""
    if _kind(items) != "record":
        return None
    match [field["type"] for field in items["fields"]]:
        case ["int" | "long", "int" | "long"]:
            return lambda decoder, count: decoder.read_ints(2 * count)
        case ["int" | "long", "bytes"]:
            return lambda decoder, count: decoder.read_int_bytes_dict(count, {})
    return None


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


_Decoder = type(new_decoder(b""))  # the compiled class: its methods are called directly, without a Python frame
_DOUBLE = struct.Struct("<d")


def read_double(decoder: BinaryDecoder) -> float:
    """The decoder's own method rounds to 32 bits, which would merge partitions with close values."""
    value: float = _DOUBLE.unpack(decoder.read(8))[0]
    return value


_READ: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _Decoder.read_boolean,
    "int": _Decoder.read_int,
    "long": _Decoder.read_int,
    "float": _Decoder.read_float,
    "double": read_double,
    "bytes": _Decoder.read_bytes,
    "string": _Decoder.read_utf8,
}
_SKIP: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _Decoder.skip_boolean,
    "int": _Decoder.skip_int,
    "long": _Decoder.skip_int,
    "float": _Decoder.skip_float,
    "double": _Decoder.skip_double,
    "bytes": _Decoder.skip_bytes,
    "string": _Decoder.skip_utf8,
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
