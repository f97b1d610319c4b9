"""Lists all files below a directory as Arrow tables: large prefixes in parallel, and without following links.

Object stores list keys in order. A few requests find directories at which the keys are divided into ranges, and each
range is listed by its own thread. A directory without directories below it is listed by one thread.

A listing can stop in between. It then knows the parts that are left: directories that were not opened yet, or ranges of
keys behind the last one. Another process can list these, so nobody has to guess first how many files there are.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import fs

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.access import TableIO, storage_access
from tidyberg.storage.file_io import Place, Storage
from tidyberg.storage.s3.store import S3Store

LISTED = pa.schema([("path", pa.large_string()), ("size", pa.int64()), ("modified_ms", pa.int64())])
LIST_THREADS = 8
_RANGES = 32  # more than threads, because some are much larger than others
_DEPTH = 3  # of directories that are looked at to divide a prefix
_ROWS = 100_000
_UNORDERED = "--x-s3"  # the end of the names of directory buckets, which list keys in no order

Row = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """A part of what is below a root: a directory with all below it, or a range of the root's keys."""

    directory: str = ""  # below the root, with a slash at its end; empty: the root itself
    after: str | None = None  # for object stores: only keys behind this one ...
    until: str | None = None  # ... up to and including this one


WHOLE = PrefixPart()
ListParts = Callable[[TableIO, str, Sequence[PrefixPart], Callable[[], None]], Iterator[pa.Table]]


@dataclass(frozen=True)
class RemoteListing:
    """Lists the rest of a root elsewhere, for example on Spark, once this process has found more than `above_files`."""

    above_files: int
    list_parts: ListParts


def files_below(
    io: TableIO, root: str, check: Callable[[], None] = lambda: None, remote: RemoteListing | None = None
) -> Iterator[pa.Table]:
    """Yields the files below a directory, at any depth. A missing directory has none. Raises OSError.

    A time of 0 means that the storage does not tell it. Links on local disks are neither followed nor listed, because
    one file would then have two paths. Names that are not text are not listed.
    """
    listing = PartListing(Storage(storage_access(io)), root, remote.above_files if remote is not None else None, check)
    try:
        yield from listing.tables([WHOLE])
    except KernelFailure as failure:
        kind = PermissionError if failure.kind in (FailureKind.DENIED, FailureKind.EXPIRED) else OSError
        raise kind(failure.message) from failure
    if listing.rest:
        assert remote is not None, "without a limit, nothing is left"
        yield from remote.list_parts(io, root, listing.rest, check)


@dataclass
class PartListing:
    """Lists parts of a root, and stops soon after it has found more than `limit` files. `rest` is then left."""

    storage: Storage
    root: str
    limit: int | None = None
    check: Callable[[], None] = lambda: None
    rest: list[PrefixPart] = field(default_factory=list)
    _found: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tables(self, parts: Sequence[PrefixPart]) -> Iterator[pa.Table]:
        place = self.storage.place(self.root)
        with self.storage.guard(self.root):
            if place.object is not None and self.storage.s3 is not None:
                yield from self._objects(self.storage.s3, place, parts)
            elif place.is_local and isinstance(place.filesystem, fs.LocalFileSystem):
                yield from self._in_tables(self._local(place.path.rstrip("/"), parts))
            else:
                yield from self._in_tables(_through_arrow(place))

    def _has_enough(self) -> bool:
        return self.limit is not None and self._found > self.limit

    def _in_tables(self, rows: Iterator[Row]) -> Iterator[pa.Table]:
        held: list[Row] = []
        for row in rows:
            held.append(row)
            if len(held) >= _ROWS:
                self.check()
                yield _table(held)
                held = []
        yield _table(held)

    def _local(self, top: str, parts: Sequence[PrefixPart]) -> Iterator[Row]:
        root = self.root.rstrip("/")
        waiting = [part.directory for part in parts]
        while waiting:
            if self._has_enough():
                self.rest = [PrefixPart(directory) for directory in waiting]
                return
            below = waiting.pop()
            try:
                entries = os.scandir(f"{top}/{below}")
            except FileNotFoundError:
                continue
            with entries:
                for entry in entries:
                    if not _is_text(entry.name):
                        continue
                    name = f"{below}{entry.name}"
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{name}/")
                        elif entry.is_file(follow_symlinks=False):
                            found = entry.stat(follow_symlinks=False)
                            self._found += 1
                            yield f"{root}/{name}", found.st_size, found.st_mtime_ns // 1_000_000
                    except FileNotFoundError:
                        continue  # deleted meanwhile

    def _objects(self, store: S3Store, place: Place, parts: Sequence[PrefixPart]) -> Iterator[pa.Table]:
        assert place.object is not None
        root, bucket, prefix = self.root.rstrip("/"), place.object.bucket, place.object.prefix
        ordered = not bucket.endswith(_UNORDERED)

        def listed(part: PrefixPart) -> tuple[list[pa.Table], PrefixPart | None]:
            tables: list[pa.Table] = []
            rows: list[Row] = []
            left: PrefixPart | None = part
            if not self._has_enough():
                for page in store.pages(bucket, prefix, after=part.after, until=part.until):
                    self.check()
                    files = (one for one in page if not one.key.endswith("/"))  # others stand for directories
                    rows += [(f"{root}/{one.key[len(prefix) :]}", one.size, one.modified_ms) for one in files]
                    if len(rows) >= _ROWS:
                        tables.append(_table(rows))
                        rows = []
                    with self._lock:
                        self._found += len(page)
                    if page and ordered and self._has_enough():
                        left = replace(part, after=page[-1].key)
                        break
                else:
                    left = None
            return [*tables, _table(rows)], left

        with ThreadPoolExecutor(LIST_THREADS, thread_name_prefix="listing") as pool:
            cuts = _cuts(pool, store, bucket, prefix) if ordered and list(parts) == [WHOLE] else []
            chosen = cuts[:: -(-len(cuts) // _RANGES)] if cuts else []
            for tables, left in pool.map(listed, [one for part in parts for one in _divided(part, chosen)]):
                yield from tables
                self.rest += _divided(left, cuts) if left is not None else []


def _through_arrow(place: Place) -> Iterator[Row]:
    root, start = place.location.rstrip("/"), len(place.path.rstrip("/")) + 1
    selector = fs.FileSelector(place.path, allow_not_found=True, recursive=True)
    for info in place.filesystem.get_file_info(selector):
        if info.is_file:
            yield f"{root}/{info.path[start:]}", info.size, (info.mtime_ns or 0) // 1_000_000


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = [[row[number] for row in rows] for number in range(3)]
    return pa.table(columns, schema=LISTED)


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _cuts(pool: ThreadPoolExecutor, store: S3Store, bucket: str, prefix: str) -> list[str]:
    """Keys at which the listing can be divided, in the order of the store."""
    found: set[str] = set()
    level = [prefix]
    for _ in range(_DEPTH):
        below = [one for several in pool.map(lambda top: store.directories(bucket, top), level) for one in several]
        found.update(below)
        if len(found) >= _RANGES or not below:
            break
        level = below
    return sorted(found, key=str.encode)


def _divided(part: PrefixPart, cuts: Sequence[str]) -> list[PrefixPart]:
    """Divides a range at the cuts that lie in it. The order is that of the keys' bytes in UTF-8."""
    first, last = (part.after or "").encode(), None if part.until is None else part.until.encode()
    inner = [cut for cut in cuts if first < cut.encode() and (last is None or cut.encode() < last)]
    return [
        replace(part, after=after, until=until)
        for after, until in zip([part.after, *inner], [*inner, part.until], strict=True)
    ]
