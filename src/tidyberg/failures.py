"""The failures of kernels. Each can be written as text, because Spark returns an executor's exception as text."""

import json
import re
from enum import StrEnum

_MARK = re.compile(r"<tidyberg-failure>(.*?)</tidyberg-failure>", re.DOTALL)


class FailureKind(StrEnum):
    DAMAGED = "damaged"  # a data file is missing or truncated, or it does not match its manifest entry
    STORAGE = "storage"  # storage rejected or lost a request: another attempt may succeed
    DENIED = "denied"
    EXPIRED = "expired"  # temporary credentials have expired: another attempt needs new ones
    SCHEMA = "schema"  # values that do not fit the table's schema
    UNFIT = "unfit"  # a row whose partition value is beyond the range of its type
    LIMIT = "limit"  # more files than a task may write
    TOO_LARGE = "too-large"  # something that must be in memory at once
    STOPPED = "stopped"


class KernelFailure(Exception):  # noqa: N818 - the kinds say whether it is an error or a stop
    """A failure with a kind. `execute.engine.error_of` converts it to an error that is Transient or Terminal."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        body = json.dumps({"kind": self.kind.value, "message": self.message})
        return f"<tidyberg-failure>{body}</tidyberg-failure>"


def find_failure(text: str) -> KernelFailure | None:
    """Return the failure that the text of an engine's error contains, or None if no kernel raised it."""
    match = _MARK.search(text)
    if match is None:
        return None
    try:
        body = json.loads(match[1])
        return KernelFailure(FailureKind(body["kind"]), str(body["message"]))
    except (ValueError, KeyError, TypeError):
        return None


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """Mask secrets in the message of a storage library [I12]."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
