"""Files read, written, looked up and removed: by one request each in an S3 store, elsewhere through PyIceberg."""

import http.client
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyiceberg.io import FileIO

from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import output_prefix
from tidyberg.storage.filesystems import S3_SCHEMES
from tidyberg.storage.metadata_files import through_pyiceberg
from tidyberg.storage.s3.answers import S3Error
from tidyberg.storage.s3.reading import fetch_all
from tidyberg.storage.s3.store import S3Object, S3Store
from tidyberg.storage.storage import Listed, Storage
from tidyberg.storage.table_access import storage_access

_DOES_NOT_TELL = (400, 405, 501)


def fetch(io: FileIO, path: str) -> bytes:
    """All bytes of a file; PyIceberg would ask for its size first."""
    store = _store(io, path)
    if store is None:
        return through_pyiceberg(io, path)
    with _as_os_errors(path):
        return fetch_all(store, S3Object.of(path))


def size_of(io: FileIO, path: str) -> int:
    """Raises FileNotFoundError where there is none."""
    store = _store(io, path)
    if store is None:
        return len(io.new_input(path))
    with _as_os_errors(path):
        return store.size(S3Object.of(path))


def exists(io: FileIO, path: str) -> bool:
    if _store(io, path) is None:
        return bool(io.new_input(path).exists())
    try:
        size_of(io, path)
    except FileNotFoundError:
        return False
    return True


def write(io: FileIO, path: str, content: bytes) -> int:
    """The size that the file has then."""
    store = _store(io, path)
    if store is None:
        with io.new_output(path).create(overwrite=True) as stream:
            stream.write(content)
        return len(io.new_input(path))
    with _as_os_errors(path):
        store.put(S3Object.of(path), content)  # refused by the store unless all of the signed bytes arrived
    return len(content)


def delete(io: FileIO, path: str) -> None:
    """Arrow's way would leave an empty object in place of the directory."""
    store = _store(io, path)
    if store is None:
        io.delete(path)
        return
    with _as_os_errors(path):
        store.delete(S3Object.of(path))


def files_in(io: FileIO, directory: str, prefix: str = "", *, recursive: bool = False) -> Iterator[Listed]:
    """The files of a directory whose names begin with the prefix; `recursive`: and of those below it."""
    storage = Storage(storage_access(io))
    try:
        yield from storage.files(storage.place(directory), prefix, recursive=recursive)
    except KernelFailure as failure:
        kind = PermissionError if failure.kind in (FailureKind.DENIED, FailureKind.EXPIRED) else OSError
        raise kind(failure.message) from failure


def abort_uploads(io: FileIO, job_id: str, directories: Iterable[str]) -> None:
    """Abort what killed workers of a job had begun to upload: no listing shows it, and it costs storage [I6].

    A store that does not tell, or not us, leaves it to the bucket's lifecycle rule: nobody can read it.
    """
    for directory in sorted(set(directories)):
        path = f"{directory}/{output_prefix(job_id)}"
        store = _store(io, path)
        if store is None:
            continue
        prefix = S3Object.of(path)
        try:
            with _as_os_errors(path):
                for upload in store.uploads(prefix.bucket, prefix.key):
                    store.abort(upload)
        except S3Error as error:
            if error.status not in _DOES_NOT_TELL:
                raise
        except PermissionError:
            return


def _store(io: FileIO, path: str) -> S3Store | None:
    return Storage(storage_access(io)).s3 if path.partition("://")[0] in S3_SCHEMES else None


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except S3Error as error:
        if error.status == 404 and error.code not in ("NoSuchBucket", "NoSuchUpload"):
            raise FileNotFoundError(f"{path} does not exist") from error
        if error.status == 403:
            raise PermissionError(str(error)) from error
        raise
    except http.client.HTTPException as error:
        raise ConnectionError(f"{path}: {error}") from error
