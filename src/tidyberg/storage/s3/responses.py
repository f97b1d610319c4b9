"""What an S3 store answers: errors with their code, and the few values that are read out of its XML."""

import http.client
import re
import ssl
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass

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
        """The text of the first element of that name, whatever its namespace."""
        return next(iter(self.values(name)), None)

    def values(self, name: str) -> list[str]:
        try:
            root = ElementTree.fromstring(self.body)  # noqa: S314  # from the store that is trusted with the data
        except ElementTree.ParseError:
            return []
        return [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == name]

    @property
    def is_error(self) -> bool:
        """Copies and completed uploads may fail after the store began to response with 200."""
        return self.status >= 300 or b"<Error>" in self.body[:1024] or b"<Error " in self.body[:1024]


class S3Error(OSError):
    """An response that is none; an OSError, as Arrow's filesystems raise them."""

    def __init__(self, response: S3Response, request: str) -> None:
        self.status = response.status
        self.code = response.value("Code") or _WITHOUT_BODY.get(response.status, "")
        self.region = response.headers.get("x-amz-bucket-region") or response.value("Region")
        self.wait_seconds = _seconds(response.headers.get("retry-after"))
        said = " ".join((response.value("Message") or "").split())[:_MOST_MESSAGE]
        super().__init__(f"{request} was answered {self.code or 'without a code'}: {said or '-'} (HTTP {self.status})")

    @property
    def is_transient(self) -> bool:
        return self.status in _TRANSIENT_STATUS or self.code in _TRANSIENT_CODES


class WrongSize(OSError):  # noqa: N818 - a fact about an object
    """An object is not as long as the table says."""

    def __init__(self, key: str, total: int, expected: int) -> None:
        self.total = total
        super().__init__(f"{key} has {total} bytes where {expected} were expected")


class TruncatedResponse(http.client.HTTPException):
    """The connection ended before all bytes had come."""


def is_transient(error: Exception) -> bool:
    """Whether the same request may go through the next time."""
    if isinstance(error, S3Error):
        return error.is_transient
    if isinstance(error, ssl.SSLCertVerificationError | WrongSize):
        return False
    return isinstance(error, OSError | http.client.HTTPException)


def total_size(headers: Mapping[str, str]) -> int | None:
    """The whole object's, from the response to a request for a part of it."""
    match = re.fullmatch(r"bytes \d+-\d+/(\d+)", headers.get("content-range", ""))
    return int(match[1]) if match else None


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,4}(\.\d+)?", text) else 0.0
