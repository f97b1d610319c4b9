"""The S3 operations that a task needs. Tasks share a client, and each counts its own requests."""

import base64
import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote
from xml.sax.saxutils import escape

from tidyberg.storage.s3.client import Bytes, RequestCounter, RetryBudget, S3Client, S3Request, StreamedResponse
from tidyberg.storage.s3.responses import S3Error
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.signing import encode_path

_UNABLE = (405, 501)
_UNABLE_CODES = ("NotImplemented", "MethodNotAllowed", "UnsupportedOperation")

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_MOST_CLIENTS = 16
_clients: dict[S3Settings, S3Client] = {}
_lock = threading.Lock()


class CannotCopyParts(Exception):  # noqa: N818 - a fact about the store, not a failure
    """The store does not support UploadPartCopy."""


class CannotDeleteMany(Exception):  # noqa: N818 - a fact about the store, not a failure
    """The store does not support DeleteObjects."""


@dataclass(frozen=True)
class S3Object:
    bucket: str
    key: str

    @classmethod
    def of(cls, location: str) -> "S3Object":
        bucket, _, key = location.partition("://")[2].partition("/")
        return cls(bucket, key)

    @property
    def prefix(self) -> str:
        """How the keys below this directory begin. It is empty for the root of the bucket."""
        directory = self.key.rstrip("/")
        return f"{directory}/" if directory else ""


@dataclass(frozen=True)
class Upload:
    """A multipart upload in progress."""

    target: S3Object
    upload_id: str


@dataclass(frozen=True)
class ListedObject:
    key: str
    size: int
    modified_ms: int


class S3Store:
    def __init__(self, settings: S3Settings, requests: RequestCounter | None = None) -> None:
        self.client = _shared(settings)
        self.requests = requests or RequestCounter()
        self.settings = settings

    def open(
        self, source: S3Object, first: int, last: int, budget: RetryBudget, etag: str | None = None
    ) -> StreamedResponse:
        """Opens the bytes from `first` to `last`, both inclusive."""
        headers = {"range": f"bytes={first}-{last}"} | ({"if-match": etag} if etag else {})
        return self.client.open(S3Request("get", "GET", source.bucket, source.key, (), headers), self.requests, budget)

    def open_whole(self, source: S3Object, budget: RetryBudget) -> StreamedResponse:
        return self.client.open(S3Request("get", "GET", source.bucket, source.key), self.requests, budget)

    def size(self, source: S3Object) -> int:
        response = self.client.call(S3Request("head", "HEAD", source.bucket, source.key), self.requests)
        return int(response.headers["content-length"])

    def put(self, target: S3Object, body: Bytes) -> None:
        self.client.call(S3Request("put", "PUT", target.bucket, target.key, body=body), self.requests)

    def delete(self, target: S3Object) -> None:
        """Deletes an object. Succeeds if it does not exist."""
        self.client.call(S3Request("delete", "DELETE", target.bucket, target.key), self.requests)

    def delete_many(self, bucket: str, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Deletes up to 1,000 objects with one request. Returns the code and the message of each that is left.

        Objects that do not exist count as deleted. Raises CannotDeleteMany if the store has no such request.
        """
        listed = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        body = f'<Delete xmlns="{_NAMESPACE}"><Quiet>true</Quiet>{listed}</Delete>'.encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()  # S3 demands it
        headers = {"content-type": "application/xml", "content-md5": digest}
        try:
            response = self.client.call(
                S3Request("delete_many", "POST", bucket, "", [("delete", "")], headers, body), self.requests
            )
        except S3Error as error:
            if error.status in _UNABLE or error.code in _UNABLE_CODES:
                raise CannotDeleteMany from error
            raise
        return {key: said for key, said in response.errors_by_key().items() if said[0] != "NoSuchKey"}

    def begin(self, target: S3Object) -> Upload:
        query = [("uploads", "")]
        response = self.client.call(S3Request("create", "POST", target.bucket, target.key, query), self.requests)
        return Upload(target, response.value("UploadId") or "")

    def upload_part(self, upload: Upload, number: int, body: Bytes) -> str:
        """Uploads a part. Returns its ETag, which `complete` needs."""
        request = S3Request("part", "PUT", upload.target.bucket, upload.target.key, _part(upload, number), body=body)
        return self.client.call(request, self.requests).headers["etag"]

    def copy_part(
        self, upload: Upload, number: int, source: S3Object, first: int, last: int, etag: str | None = None
    ) -> str:
        """Copies a part from another object inside the store. Returns its ETag. Raises CannotCopyParts."""
        if not self.client.copies_parts:
            raise CannotCopyParts
        headers = {
            "x-amz-copy-source": encode_path(f"/{source.bucket}/{source.key}"),
            "x-amz-copy-source-range": f"bytes={first}-{last}",
        }
        if etag:
            headers["x-amz-copy-source-if-match"] = etag
        target = upload.target
        try:
            response = self.client.call(
                S3Request("part_copy", "PUT", target.bucket, target.key, _part(upload, number), headers), self.requests
            )
        except S3Error as error:
            if error.status in _UNABLE or error.code in _UNABLE_CODES:
                self.client.copies_parts = False
                raise CannotCopyParts from error
            raise
        found = response.value("ETag")
        if not found:  # a store that does not know the header has stored an empty part
            self.client.copies_parts = False
            raise CannotCopyParts
        return found

    def complete(self, upload: Upload, etags: Sequence[str], size: int) -> None:
        target = upload.target
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
            for number, etag in enumerate(etags, start=1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        headers = {"content-type": "application/xml"}
        query = [("uploadId", upload.upload_id)]
        try:
            self.client.call(
                S3Request("complete", "POST", target.bucket, target.key, query, headers, body), self.requests
            )
        except S3Error as error:
            # The response to an earlier attempt was lost. No other upload uses this key, so the object is ours.
            if error.code != "NoSuchUpload" or self._size_or_none(target) != size:
                raise

    def abort(self, upload: Upload) -> None:
        target, query = upload.target, [("uploadId", upload.upload_id)]
        try:
            self.client.call(S3Request("abort", "DELETE", target.bucket, target.key, query), self.requests)
        except S3Error as error:
            if error.code not in ("NoSuchUpload", "NoSuchKey"):
                raise

    def objects(self, bucket: str, prefix: str, *, recursive: bool = False) -> Iterator[ListedObject]:
        """Lists the objects whose keys begin with the prefix, a thousand per request.

        Without `recursive`, it lists only keys that have no further slash. It does not ask for encoded keys, because
        stores encode them differently.
        """
        depth = [] if recursive else [("delimiter", "/")]
        for page in self._pages(bucket, prefix, depth):
            yield from page

    def pages(
        self, bucket: str, prefix: str, *, after: str | None = None, until: str | None = None
    ) -> Iterator[list[ListedObject]]:
        """Lists all objects below the prefix, page by page: keys behind `after`, up to and including `until`.

        The order is that of the keys' bytes in UTF-8. A store that begins elsewhere costs time, but no key is wrong.
        """
        first, last = (after or "").encode(), None if until is None else until.encode()
        start = [("start-after", after)] if after is not None else []
        for page in self._pages(bucket, prefix, start):
            keys = [one.key.encode() for one in page]
            yield [one for one, key in zip(page, keys, strict=True) if key > first and (last is None or key <= last)]
            if last is not None and keys and keys[-1] > last:
                return

    def directories(self, bucket: str, prefix: str) -> list[str]:
        """Returns prefixes one level below, with one request: not all of them if there are many objects."""
        query = [("list-type", "2"), ("prefix", prefix), ("delimiter", "/")]
        response = self.client.call(S3Request("list", "GET", bucket, "", query), self.requests)
        return [one for one in response.page().prefixes if one.startswith(prefix) and one != prefix]

    def _pages(self, bucket: str, prefix: str, more: Sequence[tuple[str, str]]) -> Iterator[list[ListedObject]]:
        token: list[tuple[str, str]] = []
        while True:
            query = [("list-type", "2"), ("prefix", prefix), *more, *token]
            response = self.client.call(S3Request("list", "GET", bucket, "", query), self.requests)
            page = response.page()
            yield [
                ListedObject(key, int(size), _milliseconds(modified))
                for key, size, modified in page.objects
                if key.startswith(prefix)
            ]
            if not page.next_token:
                return
            token = [("continuation-token", page.next_token)]

    def copy(self, source: S3Object, target: S3Object) -> None:
        """Copies an object of up to 5 GB inside the store."""
        headers = {"x-amz-copy-source": encode_path(f"/{source.bucket}/{source.key}")}
        response = self.client.call(S3Request("copy", "PUT", target.bucket, target.key, (), headers), self.requests)
        if not response.value("ETag"):  # a store that does not know the header has stored an empty object
            self.delete(target)
            raise CannotCopyParts

    def uploads(self, bucket: str, prefix: str) -> Iterator[Upload]:
        """Lists uploads that were neither completed nor aborted. They cost storage, and `objects` omits them."""
        marker: list[tuple[str, str]] = []
        while True:
            query = [("uploads", ""), ("prefix", prefix), ("encoding-type", "url"), *marker]
            response = self.client.call(S3Request("list", "GET", bucket, "", query), self.requests)
            keys = [unquote(key) for key in response.values("Key")]
            for key, upload_id in zip(keys, response.values("UploadId"), strict=True):
                if key.startswith(prefix):
                    yield Upload(S3Object(bucket, key), upload_id)
            if (response.value("IsTruncated") or "").lower() != "true":
                return
            marker = [
                ("key-marker", unquote(response.value("NextKeyMarker") or "")),
                ("upload-id-marker", response.value("NextUploadIdMarker") or ""),
            ]

    def _size_or_none(self, target: S3Object) -> int | None:
        try:
            return self.size(target)
        except S3Error as error:
            if error.status == 404:
                return None
            raise


def _part(upload: Upload, number: int) -> list[tuple[str, str]]:
    return [("partNumber", str(number)), ("uploadId", upload.upload_id)]


def _milliseconds(modified: str) -> int:
    return round(datetime.fromisoformat(modified).timestamp() * 1000)


def _shared(settings: S3Settings) -> S3Client:
    with _lock:
        if settings not in _clients:
            while len(_clients) >= _MOST_CLIENTS:  # each renewal of credentials adds one
                _clients.pop(next(iter(_clients))).close()
            _clients[settings] = S3Client(settings)
        return _clients[settings]
