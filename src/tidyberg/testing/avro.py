"""Writes Avro containers byte by byte, for manifests that PyIceberg cannot write or writes too slowly."""

import io
import json
import zlib
from collections.abc import Mapping, Sequence

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_SYNC = b"tidyberg-testing"
_BLOCK_BYTES = 64_000  # the size of Iceberg's Java writers; PyIceberg writes one block per record


def encode_record(schema: Schema, record: Record) -> bytes:
    """Encode a record, with its fields in the order of the schema."""
    buffer = io.BytesIO()
    construct_writer(schema).write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def encode_long(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while zigzag & ~0x7F:
        encoded.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def encode_bytes(raw: bytes) -> bytes:
    return encode_long(len(raw)) + raw


def avro_file(
    schema: Schema,
    name: str,
    records: Sequence[bytes],
    metadata: Mapping[str, str] | None = None,
    codec: str = "deflate",
) -> bytes:
    """Return a container of encoded records. `codec` is `deflate` or `null`."""
    avro_schema = AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)
    header = {**(metadata or {}), "avro.schema": json.dumps(avro_schema), "avro.codec": codec}
    parts = [b"Obj\x01", encode_long(len(header))]
    parts += [encode_bytes(key.encode()) + encode_bytes(value.encode()) for key, value in header.items()]
    parts += [b"\x00", _SYNC]
    per_block = max(1, _BLOCK_BYTES // max(1, len(records[0]) if records else 1))
    for first in range(0, len(records), per_block):
        block = records[first : first + per_block]
        content = b"".join(block)
        if codec == "deflate":
            compressor = zlib.compressobj(wbits=-15)
            content = compressor.compress(content) + compressor.flush()
        parts += [encode_long(len(block)), encode_bytes(content), _SYNC]
    return b"".join(parts)
