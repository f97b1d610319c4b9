"""Reads, writes, lists and deletes the files of a table on any storage.

Our own client accesses objects of an S3 store, with one request each. All other files go through PyIceberg's `FileIO`.
The S3 client is imported only for paths of such a store, because it takes long to load.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import groupby, islice
from typing import TYPE_CHECKING

from tidyberg.errors import AccessDenied, DamagedFile, StorageError
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.storage.access import TableIO, storage_access
from tidyberg.storage.denied import is_denied
from tidyberg.storage.schemes import S3_SCHEMES

if TYPE_CHECKING:
    from tidyberg.storage.file_io import Listed
    from tidyberg.storage.s3_files import S3Files

DELETE_THREADS = 8
DELETE_BATCH = 1000  # what S3 takes in one request
# A URL without a host, and without characters that mean something else in a URL than in a path.
_PLAIN_FILE = re.compile(r"file:///[^?#%;]*")


def read_bytes(io: TableIO, location: str) -> bytes:
    """Returns all bytes of a metadata file. Raises tidyberg's errors, which name the file."""
    try:
        return fetch(io, location)
    except FileNotFoundError:
        raise DamagedFile(
            f"{location} does not exist, though the table refers to it.",
            hint="Snapshot expiry or an orphan cleaner may have removed it: reload the table, or roll back to a "
            "snapshot whose files are all there.",
        ) from None
    except PermissionError as error:
        raise _denied(location, error) from error
    except OSError as error:
        if is_denied(str(error)):
            raise _denied(location, error) from error
        raise StorageError(
            f"Cannot read {location}: {error}.", hint="Check the storage and the network, then try again."
        ) from error


def damaged(location: str, what: str) -> DamagedFile:
    return DamagedFile(
        f"{location} is damaged: {what}.",
        hint="Restore it from a copy, or roll the table back to a snapshot that does not use it.",
    )


def fetch(io: TableIO, path: str) -> bytes:
    """Returns all bytes of a file. Raises OSError."""
    s3 = _s3(io, path)
    return _read_through_pyiceberg(io, path) if s3 is None else s3.read(path)


def size_of(io: TableIO, path: str) -> int:
    """Returns the size of a file. Raises FileNotFoundError."""
    s3 = _s3(io, path)
    return len(io.new_input(path)) if s3 is None else s3.size(path)


def exists(io: TableIO, path: str) -> bool:
    if _s3(io, path) is None:
        return bool(io.new_input(path).exists())
    try:
        size_of(io, path)
    except FileNotFoundError:
        return False
    return True


def write(io: TableIO, path: str, content: bytes) -> int:
    """Returns the size that the file has on storage."""
    s3 = _s3(io, path)
    if s3 is None:
        with io.new_output(path).create(overwrite=True) as stream:
            stream.write(content)
        return len(io.new_input(path))
    s3.write(path, content)
    return len(content)


def delete(io: TableIO, path: str) -> None:
    """Deletes a file. In an S3 store, Arrow would leave an empty object in place of the directory."""
    s3 = _s3(io, path)
    if s3 is None:
        io.delete(path)
    else:
        s3.delete(path)


def delete_many(
    io: TableIO,
    paths: Sequence[str],
    *,
    check: Callable[[], None] = lambda: None,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, str]:
    """Deletes files: in bulk requests where the store has them, else one by one in several threads.

    Returns what storage said about each file that it did not delete. A file that does not exist counts as deleted.
    `check` is called before each batch, and stops the deletion if it raises. `progress` gets the number so far.
    """
    refused: dict[str, str] = {}
    done = 0

    def delete_batch(batch: Sequence[str]) -> dict[str, str]:
        s3 = _s3(io, batch[0])
        return _delete_each(io, batch) if s3 is None else s3.delete_many(batch)

    batches = _batches(paths)
    running: dict[Future[dict[str, str]], int] = {}  # the number of files of each batch
    with ThreadPoolExecutor(DELETE_THREADS, thread_name_prefix="delete") as pool:
        while True:
            for batch in islice(batches, DELETE_THREADS - len(running)):
                check()
                running[pool.submit(delete_batch, batch)] = len(batch)
            if not running:
                return refused
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done += running.pop(future)
                refused |= future.result()
            progress(done)


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Paths of S3 and others do not share a batch."""
    for _, group in groupby(paths, lambda path: path.partition("://")[0] in S3_SCHEMES):
        same = list(group)
        yield from (same[start : start + DELETE_BATCH] for start in range(0, len(same), DELETE_BATCH))


def _delete_each(io: TableIO, paths: Sequence[str]) -> dict[str, str]:
    refused: dict[str, str] = {}
    for path in paths:
        try:
            if _is_plain(io, path):
                os.unlink(path.removeprefix("file://"))  # noqa: PTH108 - as for reading
            else:
                io.delete(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused[path] = str(error) or type(error).__name__
    return refused


def files_in(io: TableIO, directory: str, prefix: str = "", *, recursive: bool = False) -> "Iterator[Listed]":
    """Lists the files of a directory whose names begin with the prefix; `recursive` includes directories below it."""
    from tidyberg.storage.file_io import Storage

    storage = Storage(storage_access(io))
    try:
        yield from storage.files(storage.place(directory), prefix, recursive=recursive)
    except KernelFailure as failure:
        kind = PermissionError if failure.kind in (FailureKind.DENIED, FailureKind.EXPIRED) else OSError
        raise kind(failure.message) from failure


def abort_uploads(io: TableIO, prefixes: Iterable[str]) -> None:
    """Aborts the multipart uploads that killed workers began: no listing shows them, and they cost storage [I6].

    Where a store cannot list uploads, or does not let us, the bucket's lifecycle rule has to remove them. Nobody can
    read them.
    """
    for prefix in sorted(set(prefixes)):
        s3 = _s3(io, prefix)
        if s3 is None:
            continue
        try:
            s3.abort_uploads(prefix)
        except PermissionError:
            return


def _read_through_pyiceberg(io: TableIO, location: str) -> bytes:
    if _is_plain(io, location):
        with open(location.removeprefix("file://"), "rb") as file:  # noqa: PTH123 - making a Path takes as long as reading the file
            return file.read()
    with io.new_input(location).open() as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        content = bytes(stream.read())
    # I1: a truncated Avro file may look complete. The next commit would then lose the files that it no longer lists.
    if len(content) != size:
        raise StorageError(f"Reading {location} gave {len(content)} of its {size} bytes.", hint="Try again.")
    return content


def _is_plain(io: TableIO, location: str) -> bool:
    """Returns True for a local file that Arrow would open or delete just as Python does, but in twice the time."""
    kind = type(io)
    is_arrow = (kind.__module__, kind.__qualname__) == ("pyiceberg.io.pyarrow", "PyArrowFileIO")
    return is_arrow and _PLAIN_FILE.fullmatch(location) is not None


def _denied(location: str, error: OSError) -> AccessDenied:
    return AccessDenied(
        f"No permission to read {location}: {error}.",
        hint="Give the catalog's storage credentials read access to the table's location.",
    )


def _s3(io: TableIO, path: str) -> "S3Files | None":
    """Returns our own client if the path is in an S3 store that it supports."""
    if path.partition("://")[0] not in S3_SCHEMES:
        return None
    from tidyberg.storage.s3_files import open_s3

    return open_s3(storage_access(io))
