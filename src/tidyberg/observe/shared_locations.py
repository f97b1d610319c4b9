"""Finds out whether several tables share a directory: then the files of one look like orphans of the other."""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.io import FileIO

from tidyberg.failures import KernelFailure
from tidyberg.model.orphans import SharedLocation, TableLocations
from tidyberg.observe.locations import spelled_roots
from tidyberg.storage.access import storage_access
from tidyberg.storage.file_io import Storage
from tidyberg.storage.table_files import exists

_READERS = 16
_HEAD_BYTES = 2048
_GZIP = b"\x1f\x8b"
_TEXT = rb'"(?:[^"\\]|\\.)*"'
# The first members of the document, if they are in the order in which most writers put them.
_HEAD = re.compile(
    rb'\s*\{\s*(?:"(?:format-version|location)"\s*:\s*(?:\d+|' + _TEXT + rb")\s*,\s*)*"
    rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"'
)


def shared_locations(tables: Sequence[TableLocations]) -> list[SharedLocation]:
    """Returns each pair of tables of which one has a root in, or equal to, a root of the other."""
    roots = [
        (spelled, number, root)
        for number, table in enumerate(tables)
        for root, spelled in zip(table.roots, spelled_roots(table.roots), strict=True)
    ]
    found: dict[tuple[int, int], SharedLocation] = {}
    above: list[tuple[str, int, str]] = []  # roots that the current one lies in
    for spelled, number, root in sorted(roots):
        while above and not spelled.startswith(above[-1][0]):
            above.pop()
        for _, other, outer in above:
            pair = min(number, other), max(number, other)
            if number != other and pair not in found:
                found[pair] = SharedLocation(tables[other].table, outer, tables[number].table, root)
        above.append((spelled, number, root))
    return list(found.values())


@dataclass(frozen=True)
class ForeignMetadata:
    path: str
    table_uuid: str | None  # None: it cannot be read


def foreign_metadata(
    io: FileIO, paths: Sequence[str], table_uuid: str, check: Callable[[], None]
) -> Iterator[ForeignMetadata]:
    """Yields the metadata files that are not of this table. Reads only the beginning of most files."""
    storage = Storage(storage_access(io))

    def read(path: str) -> ForeignMetadata | None:
        check()
        try:
            found = _uuid(storage, path)
        except (KernelFailure, ValueError, OSError, EOFError):
            if not _may_exist(io, path):
                return None  # deleted since it was listed
            found = None
        return None if found == table_uuid.lower() else ForeignMetadata(path, found)

    with ThreadPoolExecutor(_READERS, thread_name_prefix="metadata") as pool:
        yield from filter(None, pool.map(read, paths))


def _may_exist(io: FileIO, path: str) -> bool:
    try:
        return exists(io, path)
    except OSError:
        return True


def _uuid(storage: Storage, path: str) -> str | None:
    place = storage.place(path)
    head = storage.read_range(place, 0, _HEAD_BYTES).to_pybytes()
    if (match := _HEAD.match(head)) is not None:
        return match[1].decode().lower()
    content = storage.read_all(place)
    document = json.loads(gzip.decompress(content) if content[:2] == _GZIP else content)
    found = document.get("table-uuid") if isinstance(document, dict) else None
    return found.lower() if isinstance(found, str) else None
