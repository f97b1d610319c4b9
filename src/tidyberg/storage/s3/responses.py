"""Responses of an S3 store: error codes, and the few values that we read from its XML."""

import http.client
import re
import ssl
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Busy", "OperationAborted", "Throttling",
     "ThrottlingException", "RequestLimitExceeded", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"}
)  # fmt: skip
_WITHOUT_BODY = {403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 503: "SlowDown"}
_MOST_MESSAGE = 300


@dataclass(frozen=True)
class S3Response:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""

    def value(self, name: str) -> str | None:
        """Returns the text of the first element with this name, in any namespace."""
        return next(iter(self.values(name)), None)

    def values(self, name: str) -> list[str]:
        return self._texts.get(name, [])

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """The texts of all elements by name. A page of a listing has thousands, so it is parsed once."""
        try:
            root = ElementTree.fromstring(self.body)  # noqa: S314  # from the store that is trusted with the data
        except ElementTree.ParseError:
            return {}
        by_tag: dict[str, list[str]] = {}
        for element in root.iter():
            by_tag.setdefault(element.tag, []).append(element.text or "")
        found: dict[str, list[str]] = {}
        for tag, texts in by_tag.items():
            found.setdefault(tag.rpartition("}")[2], []).extend(texts)
        return found

    @property
    def is_error(self) -> bool:
        """A copy or a completed upload can fail after the store has sent status 200: then the body is an error.

        The result of a bulk deletion has an error for each object that was not deleted, and is itself none.
        """
        start = self.body[:1024]
        return self.status >= 300 or (b"<DeleteResult" not in start and (b"<Error>" in start or b"<Error " in start))

    def page(self) -> "ListingPage":
        """Reads a page of a listing. Raises TruncatedResponse if it is not complete."""
        try:
            root = ElementTree.fromstring(self.body)  # noqa: S314  # from the store that is trusted with the data
        except ElementTree.ParseError as error:
            raise TruncatedResponse("a page of a listing is not complete") from error
        objects: list[tuple[str, str, str]] = []
        prefixes: list[str] = []
        said: dict[str, str] = {}
        for element in root:
            name = element.tag.rpartition("}")[2]
            if name == "Contents":
                values = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
                objects.append((values["Key"], values["Size"], values["LastModified"]))
            elif name == "CommonPrefixes":
                prefixes += [child.text or "" for child in element]
            else:
                said[name] = element.text or ""
        is_cut = said.get("IsTruncated", "").lower() == "true"
        return ListingPage(objects, prefixes, said.get("NextContinuationToken") or None if is_cut else None)

    def errors_by_key(self) -> dict[str, tuple[str, str]]:
        """Returns the code and the message of each object that a bulk deletion did not delete."""
        try:
            root = ElementTree.fromstring(self.body)  # noqa: S314  # from the store that is trusted with the data
        except ElementTree.ParseError as error:
            raise TruncatedResponse("the result of a bulk deletion is not complete") from error
        found: dict[str, tuple[str, str]] = {}
        for element in root.iter():
            if element.tag.rpartition("}")[2] == "Error":
                said = {child.tag.rpartition("}")[2]: child.text or "" for child in element}
                found[said.get("Key", "")] = (said.get("Code", ""), " ".join(said.get("Message", "").split()))
        return found


@dataclass(frozen=True)
class ListingPage:
    objects: list[tuple[str, str, str]]  # key, size and time, as the store wrote them
    prefixes: list[str]
    next_token: str | None  # None: this is the last page


class S3Error(OSError):
    """The store returned an error. It is an OSError because Arrow's filesystems raise OSError too."""

    def __init__(self, response: S3Response, request: str) -> None:
        self.status = response.status
        self.code = response.value("Code") or _WITHOUT_BODY.get(response.status, "")
        self.region = response.headers.get("x-amz-bucket-region") or response.value("Region")
        self.wait_seconds = _seconds(response.headers.get("retry-after"))
        message = " ".join((response.value("Message") or "").split())[:_MOST_MESSAGE]
        code = self.code or "an error without a code"
        super().__init__(f"{request} failed with {code}: {message or '-'} (HTTP {self.status})")

    @property
    def is_transient(self) -> bool:
        return self.status in _TRANSIENT_STATUS or is_transient_code(self.code)


class WrongSize(OSError):  # noqa: N818 - a fact about an object
    """The size of an object differs from the size that the table records."""

    def __init__(self, key: str, total: int, expected: int) -> None:
        self.total = total
        super().__init__(f"{key} has {total} bytes, expected {expected}")


class TruncatedResponse(http.client.HTTPException):
    """The connection ended before all bytes had arrived."""


def is_transient_code(code: str) -> bool:
    return code in _TRANSIENT_CODES


def is_transient(error: Exception) -> bool:
    """Returns True if the same request may succeed when it is sent again."""
    if isinstance(error, S3Error):
        return error.is_transient
    if isinstance(error, ssl.SSLCertVerificationError | WrongSize):
        return False
    return isinstance(error, OSError | http.client.HTTPException)


def total_size(headers: Mapping[str, str]) -> int | None:
    """Returns the size of the whole object from the response to a range request."""
    match = re.fullmatch(r"bytes \d+-\d+/(\d+)", headers.get("content-range", ""))
    return int(match[1]) if match else None


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,4}(\.\d+)?", text) else 0.0
