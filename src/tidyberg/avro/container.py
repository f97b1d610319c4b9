"""Reads Avro object containers: header, framing, compression. Rejects a container that is not complete."""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidyberg.varints import VarintError

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4


class AvroError(ValueError):
    """The bytes are not a complete Avro container."""


@contextmanager
def decoding() -> Iterator[None]:
    """Turns every error that damaged bytes cause in a decoder into AvroError."""
    try:
        yield
    except AvroError:
        raise
    except VarintError as error:
        raise AvroError(str(error)) from error
    except (ArithmeticError, EOFError, LookupError, MemoryError, SystemError, TypeError, ValueError) as error:
        raise AvroError(f"its contents cannot be decoded ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Container:
    raw: bytes
    metadata: Mapping[str, bytes]
    sync: bytes
    body: int  # where the first block begins

    @property
    def header(self) -> bytes:
        """The header without the sync marker, which is random in each file."""
        return self.raw[: self.body - _SYNC_BYTES]

    @property
    def schema_text(self) -> str:
        return self.metadata["avro.schema"].decode()

    @property
    def schema(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.schema_text)
        return parsed


def open_container(raw: bytes, like: Container | None = None) -> Container:
    """Parses the header. If it is equal to the header of `like`, it reuses what was parsed there.

    Most manifests of a table have equal headers.
    """
    if like is not None and raw.startswith(like.header) and len(raw) >= like.body:
        return Container(raw, like.metadata, raw[len(like.header) : like.body], like.body)
    if raw[:4] != _MAGIC:
        raise AvroError("it does not begin like an Avro file")
    metadata: dict[str, bytes] = {}
    position = 4
    count, position = _long(raw, position)
    while count:
        if count < 0:
            count = -count
            _, position = _long(raw, position)
        for _ in range(count):
            key, position = _bytes(raw, position)
            metadata[key.decode()], position = _bytes(raw, position)
        count, position = _long(raw, position)
    sync = raw[position : position + _SYNC_BYTES]
    if len(sync) < _SYNC_BYTES or "avro.schema" not in metadata:
        raise AvroError("its header is not complete")
    return Container(raw, metadata, sync, position + _SYNC_BYTES)


def blocks(container: Container) -> Iterator[tuple[int, bytes]]:
    """Yields the number of records and the decompressed bytes of every block. Checks the framing: no decoder does."""
    name = container.metadata.get("avro.codec", b"null").decode()
    if name not in _DECOMPRESSORS:
        raise AvroError(f"its compression {name!r} is unknown")
    decompress = _DECOMPRESSORS[name]
    raw, position = container.raw, container.body
    while position < len(raw):
        count, position = _long(raw, position)
        content, position = _bytes(raw, position)
        if raw[position : position + _SYNC_BYTES] != container.sync:
            raise AvroError(f"the block that ends at byte {position} is cut off or overwritten")
        position += _SYNC_BYTES
        try:
            content = decompress(content)
        except Exception as error:  # each codec has its own errors
            raise AvroError(f"the block that ends at byte {position} does not decompress") from error
        if not 0 <= count <= len(content):
            raise AvroError(f"the block that ends at byte {position} claims {count} records")
        yield count, content


def _long(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(raw) or shift > 63:
            raise AvroError("it ends in the middle")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _bytes(raw: bytes, position: int) -> tuple[bytes, int]:
    length, position = _long(raw, position)
    if length < 0 or position + length > len(raw):
        raise AvroError("it ends in the middle")
    return raw[position : position + length], position + length


def _inflate(content: bytes) -> bytes:
    return zlib.decompress(content, -15)


def _snappy(content: bytes) -> bytes:
    """Snappy data begins with its decompressed length. Avro appends a CRC-32 of the decompressed bytes."""
    size = shift = 0
    for byte in content:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain: bytes = pa.Codec("snappy").decompress(content[:-_CHECKSUM_BYTES], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(content[-_CHECKSUM_BYTES:], "big"):
        raise AvroError("its checksum differs")
    return plain


def _zstandard(content: bytes) -> bytes:
    plain: bytes = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
    return plain


_DECOMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _inflate,
    "bzip2": bz2.decompress,
    "snappy": _snappy,
    "xz": lzma.decompress,
    "zstandard": _zstandard,
}
