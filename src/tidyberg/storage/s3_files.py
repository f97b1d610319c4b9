"""Reads, writes and deletes table files in an S3 store with one request each. Raises Python's OSError classes."""

import http.client
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidyberg.storage.access import StorageAccess
from tidyberg.storage.file_io import Storage
from tidyberg.storage.s3.reading import fetch_all
from tidyberg.storage.s3.responses import S3Error, is_transient_code
from tidyberg.storage.s3.store import CannotDeleteMany, S3Object, S3Store

AT_ONCE = 1000  # objects; S3 takes no more in one request
_ROUNDS = 5  # of objects whose deletion failed for a passing reason
_PAUSE_SECONDS = 0.2  # after the first round; it doubles
_IN_XML = re.compile(r"[\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")  # a parser turns \r into \n
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

    def delete_many(self, paths: Sequence[str]) -> dict[str, str]:
        """Deletes objects, 1,000 per request. Returns what the store said about those that it did not delete.

        Sends objects again that were throttled or failed for other passing reasons.
        """
        refused: dict[str, str] = {}
        buckets: dict[str, dict[str, str]] = {}
        for path in paths:
            target = S3Object.of(path)
            buckets.setdefault(target.bucket, {})[target.key] = path
        for bucket, named in buckets.items():
            in_xml = [key for key in named if _IN_XML.fullmatch(key)]
            for start in range(0, len(in_xml), AT_ONCE):
                said = self._delete_in_bulk(bucket, in_xml[start : start + AT_ONCE])
                refused |= {named[key]: words for key, words in said.items()}
            refused |= self._delete_each([path for key, path in named.items() if not _IN_XML.fullmatch(key)])
        return refused

    def _delete_in_bulk(self, bucket: str, keys: Sequence[str]) -> dict[str, str]:
        refused: dict[str, str] = {}
        for number in range(_ROUNDS):
            try:
                with _as_os_errors(f"s3://{bucket}"):
                    said = self._store.delete_many(bucket, keys)
            except CannotDeleteMany:
                each = self._delete_each([f"s3://{bucket}/{key}" for key in keys])
                return refused | {S3Object.of(path).key: words for path, words in each.items()}
            except OSError as error:  # after the client's own retries
                return refused | dict.fromkeys(keys, str(error))
            again = [key for key, (code, _) in said.items() if is_transient_code(code)]
            final = said if number + 1 == _ROUNDS else {key: said[key] for key in said if key not in again}
            refused |= {key: f"{code}: {message or '-'}" for key, (code, message) in final.items()}
            if not again:
                break
            keys = again
            time.sleep(_PAUSE_SECONDS * 2**number)
        return refused

    def _delete_each(self, paths: Sequence[str]) -> dict[str, str]:
        refused: dict[str, str] = {}
        for path in paths:
            try:
                self.delete(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                refused[path] = str(error)
        return refused

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
