"""Reads, writes and deletes table files in an S3 store with one request each. Raises Python's OSError classes."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.reading import fetch_all
from tidyberg.storage.s3.responses import S3Error
from tidyberg.storage.s3.store import S3Object, S3Store

_CANNOT_LIST_UPLOADS = (400, 405, 501)


def open_s3(access: StorageAccess) -> "S3Files | None":
    """Returns None if our client does not support the store. Then PyIceberg has to access it."""
    store = Storage(access).s3
    return None if store is None else S3Files(store)


class S3Files:
    """Table files in an S3 store. Every method raises OSError."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    def read(self, path: str) -> bytes:
        with _as_os_errors(path):
            return fetch_all(self._store, S3Object.of(path))

    def size(self, path: str) -> int:
        with _as_os_errors(path):
            return self._store.size(S3Object.of(path))

    def write(self, path: str, content: bytes) -> None:
        """Writes an object. The store rejects it unless all signed bytes arrive."""
        with _as_os_errors(path):
            self._store.put(S3Object.of(path), content)

    def delete(self, path: str) -> None:
        with _as_os_errors(path):
            self._store.delete(S3Object.of(path))

    def abort_uploads(self, prefix: str) -> None:
        """Aborts all uploads under a prefix. If the store cannot list them, a lifecycle rule has to remove them."""
        first = S3Object.of(prefix)
        try:
            with _as_os_errors(prefix):
                for upload in self._store.uploads(first.bucket, first.key):
                    self._store.abort(upload)
        except S3Error as error:
            if error.status not in _CANNOT_LIST_UPLOADS:
                raise


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
