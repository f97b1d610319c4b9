"""Reads the first members of metadata files: whose they are, and from when. Most files are not read any further."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyiceberg.io import FileIO

from tidyberg.failures import KernelFailure
from tidyberg.storage.access import storage_access
from tidyberg.storage.file_io import Storage
from tidyberg.storage.table_files import exists

METADATA_FILE = ".metadata.json"  # in the name; `.gz` may stand before or after it
_READERS = 16
_HEAD_BYTES = 2048
_MOST_TEXT = 64 * 1024  # of a compressed head
_GZIP = b"\x1f\x8b"
_GZIP_STREAM = 31  # for zlib: a gzip header is expected
_TEXT = rb'"(?:[^"\\]|\\.)*"'
# Only complete members with a plain value count: the comma after a number shows that it was not cut off.
_MEMBER = re.compile(rb"\s*(" + _TEXT + rb")\s*:\s*(" + _TEXT + rb"|-?\d+|true|false|null)\s*,")
_WANTED = frozenset({"table-uuid", "last-updated-ms"})


@dataclass(frozen=True, slots=True)
class MetadataHead:
    path: str
    table_uuid: str | None  # None: it cannot be read
    last_updated_ms: int | None = None
    last_sequence_number: int | None = None


def read_heads(io: FileIO, paths: Sequence[str], check: Callable[[], None]) -> Iterator[MetadataHead]:
    """Yields the head of each file, in order. Leaves out files that were deleted since they were listed."""
    storage = Storage(storage_access(io))

    def read(path: str) -> MetadataHead | None:
        check()
        try:
            return _head(path, _members(storage, path))
        except (KernelFailure, ValueError, OSError, EOFError, zlib.error):
            return MetadataHead(path, None) if _may_exist(io, path) else None

    with ThreadPoolExecutor(_READERS, thread_name_prefix="metadata") as pool:
        yield from filter(None, pool.map(read, paths))


def _head(path: str, members: Mapping[str, Any]) -> MetadataHead:
    uuid = members.get("table-uuid")
    return MetadataHead(
        path,
        uuid.lower() if isinstance(uuid, str) else None,
        _number(members.get("last-updated-ms")),
        _number(members.get("last-sequence-number")),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _may_exist(io: FileIO, path: str) -> bool:
    try:
        return exists(io, path)
    except OSError:
        return True


def _members(storage: Storage, path: str) -> Mapping[str, Any]:
    """The first members of the document, or all of them if the wanted ones are not among the first."""
    place = storage.place(path)
    head = storage.read_range(place, 0, _HEAD_BYTES).to_pybytes()
    if head[:2] == _GZIP:
        head = zlib.decompressobj(_GZIP_STREAM).decompress(head, _MOST_TEXT)
    found = _first_members(head)
    if found.keys() >= _WANTED:
        return found
    content = storage.read_all(place)
    document = json.loads(gzip.decompress(content) if content[:2] == _GZIP else content)
    return document if isinstance(document, dict) else {}


def _first_members(head: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    position = head.find(b"{") + 1
    if head[: position - 1].strip():
        return found  # not the beginning of an object
    while position and (match := _MEMBER.match(head, position)) is not None:
        found[json.loads(match[1])] = json.loads(match[2])
        position = match.end()
    return found
