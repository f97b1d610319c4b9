"""Lists all files below a directory as Arrow tables: large prefixes in parallel, and without following links.

Object stores list keys in order. A few requests find directories at which the keys are divided into ranges, and each
range is listed by its own thread. A directory without directories below it is listed by one thread.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

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


def files_below(io: TableIO, root: str, check: Callable[[], None] = lambda: None) -> Iterator[pa.Table]:
    """Yields the files below a directory, at any depth. A missing directory has none. Raises OSError.

    A time of 0 means that the storage does not tell it. Links on local disks are neither followed nor listed, because
    one file would then have two paths. Names that are not text are not listed.
    """
    storage = Storage(storage_access(io))
    try:
        place = storage.place(root)
        with storage.guard(root):
            yield from _tables(_rows(storage, place, check), check)
    except KernelFailure as failure:
        kind = PermissionError if failure.kind in (FailureKind.DENIED, FailureKind.EXPIRED) else OSError
        raise kind(failure.message) from failure


def _rows(storage: Storage, place: Place, check: Callable[[], None]) -> Iterator[Row]:
    root = place.location.rstrip("/")
    if place.object is not None and storage.s3 is not None:
        prefix = place.object.prefix
        yield from _objects(storage.s3, place.object.bucket, prefix, root, check)
    elif place.is_local and isinstance(place.filesystem, fs.LocalFileSystem):
        yield from _local(place.path.rstrip("/"), root)
    else:
        selector = fs.FileSelector(place.path, allow_not_found=True, recursive=True)
        start = len(place.path.rstrip("/")) + 1
        for info in place.filesystem.get_file_info(selector):
            if info.is_file:
                yield f"{root}/{info.path[start:]}", info.size, (info.mtime_ns or 0) // 1_000_000


def _tables(rows: Iterator[Row], check: Callable[[], None]) -> Iterator[pa.Table]:
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) >= _ROWS:
            check()
            yield _table(held)
            held = []
    yield _table(held)


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = [[row[number] for row in rows] for number in range(3)]
    return pa.table(columns, schema=LISTED)


def _local(top: str, root: str) -> Iterator[Row]:
    waiting = [("", top or "/")]
    while waiting:
        below, directory = waiting.pop()
        try:
            entries = os.scandir(directory)
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                if not _is_text(entry.name):
                    continue
                name = f"{below}{entry.name}"
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{name}/", entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        found = entry.stat(follow_symlinks=False)
                        yield f"{root}/{name}", found.st_size, found.st_mtime_ns // 1_000_000
                except FileNotFoundError:
                    continue  # deleted meanwhile


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _objects(store: S3Store, bucket: str, prefix: str, root: str, check: Callable[[], None]) -> Iterator[Row]:
    with ThreadPoolExecutor(LIST_THREADS, thread_name_prefix="listing") as pool:
        cuts = [] if bucket.endswith(_UNORDERED) else _cuts(pool, store, bucket, prefix)

        def listed(span: tuple[str | None, str | None]) -> list[Row]:
            rows: list[Row] = []
            after, until = span
            for page in store.pages(bucket, prefix, after=after, until=until):
                check()
                files = (one for one in page if not one.key.endswith("/"))  # others stand for directories
                rows += [(f"{root}/{one.key[len(prefix) :]}", one.size, one.modified_ms) for one in files]
            return rows

        for rows in pool.map(listed, zip([None, *cuts], [*cuts, None], strict=True)):
            yield from rows


def _cuts(pool: ThreadPoolExecutor, store: S3Store, bucket: str, prefix: str) -> list[str]:
    """Keys at which the listing is divided, in the order of the store."""
    found: set[str] = set()
    level = [prefix]
    for _ in range(_DEPTH):
        below = [one for several in pool.map(lambda top: store.directories(bucket, top), level) for one in several]
        found.update(below)
        if len(found) >= _RANGES or not below:
            break
        level = below
    ordered = sorted(found, key=str.encode)
    step = -(-len(ordered) // _RANGES)
    return ordered[::step] if ordered else []
