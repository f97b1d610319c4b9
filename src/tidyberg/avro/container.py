"""Avro containers: header, framing, compression. What is no whole container is refused, never half read."""

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
    """Bytes that are no Avro container, or not a whole one."""


@contextmanager
def decoding() -> Iterator[None]:
    """Whatever a decoder makes of damaged bytes, it comes out as one error."""
    try:
        yield
    except AvroError:
        raise
    except VarintError as error:
        raise AvroError(str(error)) from error
    except (ArithmeticError, EOFError, LookupError, MemoryError, SystemError, TypeError, ValueError) as error:
        raise AvroError(f"its contents make no sense ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Container:
    raw: bytes
    metadata: Mapping[str, bytes]
    sync: bytes
    body: int  # where the first block begins

    @property
    def header(self) -> bytes:
        """All but the marker that each file draws for itself."""
        return self.raw[: self.body - _SYNC_BYTES]

    @property
    def schema_text(self) -> str:
        return self.metadata["avro.schema"].decode()

    @property
    def schema(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.schema_text)
        return parsed


def open_container(raw: bytes, like: Container | None = None) -> Container:
    """Manifests of a table mostly begin alike: what was read of the header of another is not read again."""
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
        raise AvroError("its header is not whole")
    return Container(raw, metadata, sync, position + _SYNC_BYTES)


def blocks(container: Container) -> Iterator[tuple[int, bytes]]:
    """Number of records and decompressed bytes of every block; framing is checked, for no decoder does."""
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
        except Exception as error:  # every codec raises errors of its own
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
    """Snappy's own length comes first, a checksum of what comes out last."""
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
