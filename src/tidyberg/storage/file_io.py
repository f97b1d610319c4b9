"""Reads, writes, lists and deletes files on any storage, counts requests, and translates errors into failures."""

import errno
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, cast

import pyarrow as pa
from pyarrow import fs

from tidyberg.failures import FailureKind, KernelFailure, redact
from tidyberg.storage.access import StorageAccess
from tidyberg.storage.denied import is_denied, is_expired
from tidyberg.storage.filesystems import identity, open_filesystem
from tidyberg.storage.s3.client import RequestCounter
from tidyberg.storage.s3.reading import S3InputFile, fetch, fetch_all
from tidyberg.storage.s3.responses import WrongSize
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import S3Object, S3Store
from tidyberg.storage.s3.writing import S3OutputStream
from tidyberg.storage.schemes import AZURE_SCHEMES, HDFS_SCHEMES, S3_SCHEMES

_SECRET_WORDS = ("secret", "token", "password", "account-key", "sas", "credential", "access-key")
_MISSING_WORDS = ("NoSuchKey", "HTTP status 404", "Path does not exist")


class Sink(Protocol):
    """A stream that a file is written to: Arrow's, or ours for S3."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes | memoryview) -> int: ...
    def tell(self) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> "Sink": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class Place:
    """A location, resolved to a filesystem and a path in it."""

    filesystem: fs.FileSystem
    path: str
    location: str
    is_local: bool
    object: S3Object | None = None  # set if our own S3 client accesses it


@dataclass(frozen=True)
class Listed:
    """A file in a directory listing."""

    location: str
    size: int
    modified_ms: int


class Storage:
    """Accesses files with one set of properties. Each task has its own, because it counts the task's requests."""

    def __init__(self, access: StorageAccess) -> None:
        self._properties = access.reveal()
        self._secrets = tuple(
            value
            for name, value in self._properties.items()
            if len(value) >= 4 and any(word in name.lower() for word in _SECRET_WORDS)
        )
        self._requests = RequestCounter()
        self._store: S3Store | None = None
        self._filesystems: dict[tuple[str, str], fs.FileSystem] = {}  # by scheme and authority
        self.etags: dict[str, str] = {}  # of objects that were read, by location: a copy must find them unchanged

    @property
    def identity(self) -> str:
        """Identifies the storage: one location can name different files at two endpoints."""
        return identity("", self._properties)

    @property
    def requests(self) -> dict[str, int]:
        """The number of requests so far, by kind. Requests of Arrow's own clients are not included."""
        return self._requests.counts()

    @property
    def s3(self) -> S3Store | None:
        """The S3 store, or None if only Arrow can access it."""
        if self._store is None and (settings := S3Settings.of(self._properties)) is not None:
            self._store = S3Store(settings, self._requests)
        return self._store

    def place(self, location: str) -> Place:
        scheme, authority, path = _split(location)
        with self.guard(location):
            filesystem = self._filesystems.get((scheme, authority))
            if filesystem is None:
                filesystem = open_filesystem(scheme, authority, self._properties)
                self._filesystems[scheme, authority] = filesystem
            s3_object = S3Object.of(location) if scheme in S3_SCHEMES and self.s3 is not None else None
        return Place(filesystem, path, location, is_local=scheme == "file", object=s3_object)

    def open_input(self, place: Place, size: int | None = None) -> pa.NativeFile:
        """Opens a file for reading. If `size` is given, no request is needed to find it."""
        with self.guard(place.location):
            if place.object is None or self.s3 is None:
                return place.filesystem.open_input_file(place.path)
            known = self.s3.size(place.object) if size is None else size
            return pa.PythonFile(self._s3_input(place, known), mode="r")

    def open_streaming(self, place: Place, size: int) -> S3InputFile | None:
        """Opens a file that one request streams in order. Returns None where Arrow's own reader is as good."""
        if place.object is None or self.s3 is None:
            return None
        return self._s3_input(place, size)

    def read_whole(self, place: Place, size: int) -> pa.Buffer:
        """Reads a whole file of a known size."""
        with self.guard(place.location):
            if place.object is not None and self.s3 is not None and size:
                content, etag = fetch(self.s3, place.object, 0, size, size=size)
                self._note_etag(place, etag)
                return content
        return self.read_range(place, 0, size)

    def read_all(self, place: Place) -> bytes:
        """Reads a whole file of unknown size."""
        with self.guard(place.location):
            if place.object is not None and self.s3 is not None:
                return fetch_all(self.s3, place.object)
        source = self.open_input(place)
        with self.guard(place.location), source:
            return bytes(source.read())

    def read_range(self, place: Place, offset: int, length: int) -> pa.Buffer:
        """Reads a range. Returns fewer bytes only if the file ends first."""
        with self.guard(place.location):
            if place.object is not None and self.s3 is not None and length:
                content, etag = fetch(self.s3, place.object, offset, offset + length)
                self._note_etag(place, etag)
                return content
        source = self.open_input(place)
        with self.guard(place.location), source:
            size = source.size()
            source.seek(offset)
            content = source.read_buffer(length)
        if content.size < min(length, size - offset):
            raise KernelFailure(FailureKind.STORAGE, f"Reading {place.location} gave {content.size} of {length} bytes.")
        return content

    def open_output(self, place: Place) -> Sink:
        with self.guard(place.location, writing=True):
            if place.object is not None and self.s3 is not None:
                return S3OutputStream(self.s3, place.object)
            if place.is_local:
                place.filesystem.create_dir(place.path.rpartition("/")[0] or "/", recursive=True)
            return cast(Sink, place.filesystem.open_output_stream(place.path))

    def files(self, place: Place, prefix: str = "", *, recursive: bool = False) -> Iterator[Listed]:
        """Lists the files of a directory whose names begin with the prefix. A missing directory has no files.

        `recursive` includes the directories below it. A store then lists all keys, and the prefix is applied here.
        """
        root = place.location.rstrip("/")
        with self.guard(place.location):
            if place.object is not None and self.s3 is not None:
                start = place.object.prefix
                wanted = start if recursive else f"{start}{prefix}"
                for found in self.s3.objects(place.object.bucket, wanted, recursive=recursive):
                    if found.key.rpartition("/")[2].startswith(prefix):
                        yield Listed(f"{root}/{found.key[len(start) :]}", found.size, found.modified_ms)
                return
            selector = fs.FileSelector(place.path, allow_not_found=True, recursive=recursive)
            for info in place.filesystem.get_file_info(selector):
                if info.is_file and info.base_name.startswith(prefix):
                    below = info.path[len(place.path.rstrip("/")) + 1 :]
                    yield Listed(f"{root}/{below}", info.size, (info.mtime_ns or 0) // 1_000_000)

    def delete(self, place: Place) -> None:
        """Deletes a file that we wrote. Succeeds if it does not exist."""
        with self.guard(place.location, writing=True):
            if place.object is not None and self.s3 is not None:
                self.s3.delete(place.object)
            elif place.filesystem.get_file_info(place.path).type != fs.FileType.NotFound:
                place.filesystem.delete_file(place.path)

    @contextmanager
    def guard(self, location: str, *, writing: bool = False) -> Iterator[None]:
        """Turns errors of Arrow and of the store into a KernelFailure that names the file."""
        try:
            yield
        except (OSError, pa.ArrowException, http.client.HTTPException) as error:
            raise self._failure(error, location, writing=writing) from None

    def _s3_input(self, place: Place, size: int) -> S3InputFile:
        assert place.object is not None
        assert self.s3 is not None
        return S3InputFile(self.s3, place.object, size, lambda etag: self._note_etag(place, etag))

    def _note_etag(self, place: Place, etag: str | None) -> None:
        if etag:
            self.etags[place.location] = etag

    def _failure(self, error: Exception, location: str, *, writing: bool) -> KernelFailure:
        said = redact(" ".join(str(error).split()), self._secrets)[:600]
        number = getattr(error, "errno", None)
        verb = "write" if writing else "read"
        if is_expired(said):
            return KernelFailure(FailureKind.EXPIRED, f"The credentials expired: cannot {verb} {location}: {said}")
        if isinstance(error, WrongSize):
            return KernelFailure(
                FailureKind.DAMAGED, f"{location} differs from what the table's manifest says: {said}."
            )
        if isinstance(error, PermissionError) or number in (errno.EACCES, errno.EPERM) or is_denied(said):
            return KernelFailure(FailureKind.DENIED, f"Access denied: cannot {verb} {location}: {said}")
        if number == errno.EROFS or "Read-only file system" in said:
            return KernelFailure(FailureKind.DENIED, f"Cannot write {location}: the file system is read-only.")
        if number == errno.ENOSPC or "No space left" in said:
            return KernelFailure(FailureKind.STORAGE, f"Cannot write {location}: no space left on the device.")
        if not writing and (isinstance(error, FileNotFoundError) or any(word in said for word in _MISSING_WORDS)):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is missing, though the table lists it.")
        if not writing and isinstance(error, pa.ArrowInvalid | pa.ArrowNotImplementedError):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is not a readable Parquet file: {said}")
        if not writing and ("deserialize thrift" in said or "Corrupt" in said or "Unexpected end of stream" in said):
            return KernelFailure(FailureKind.DAMAGED, f"{location} is not a readable Parquet file: {said}")
        return KernelFailure(FailureKind.STORAGE, f"Cannot {verb} {location}: {said}")


def abandon(sink: Sink) -> None:
    """Closes a stream that is not complete. An S3 object does not appear; other storage keeps a partial file."""
    if isinstance(sink, S3OutputStream):
        sink.abandon()
    else:
        sink.close()


def remove_outputs(places: list[Place], storage: Storage) -> bool:
    """Deletes the files. Returns False if one could not be deleted; the driver then removes it."""
    are_gone = True
    for place in reversed(places):
        try:
            storage.delete(place)
        except KernelFailure:
            are_gone = False
    return are_gone


def _split(location: str) -> tuple[str, str, str]:
    """Returns the scheme, the authority, and the path in the form that Arrow's filesystem for this scheme expects."""
    if "://" not in location:
        return "file", "", location.removeprefix("file:")
    scheme, _, rest = location.partition("://")
    scheme = scheme.lower()
    authority, _, path = rest.partition("/")
    if scheme == "file":
        return scheme, "", f"/{path}"
    if scheme in HDFS_SCHEMES:
        return scheme, authority, f"/{path}"
    if scheme in AZURE_SCHEMES:
        container, _, _ = authority.partition("@")
        return scheme, authority, f"{container}/{path}"
    return scheme, authority, f"{authority}/{path}"
