"""What can go wrong in a kernel, in a form that survives the way back from an executor as text."""

import json
import re
from enum import StrEnum

_MARK = re.compile(r"<tidyberg-failure>(.*?)</tidyberg-failure>", re.DOTALL)


class FailureKind(StrEnum):
    DAMAGED = "damaged"  # a data file is missing, truncated or not what the manifest says
    STORAGE = "storage"  # storage refused or lost a request: another attempt may go through
    DENIED = "denied"
    EXPIRED = "expired"  # credentials that were good for a time only: another attempt needs new ones
    SCHEMA = "schema"  # values that do not fit the table's schema
    LIMIT = "limit"  # more files than a task may write
    STOPPED = "stopped"


class KernelFailure(Exception):  # noqa: N818 - the kinds say whether it is an error or a stop
    """A failure with a kind; the engine turns it into one of tidyberg's own errors."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        body = json.dumps({"kind": self.kind.value, "message": self.message})
        return f"<tidyberg-failure>{body}</tidyberg-failure>"


def find_failure(text: str) -> KernelFailure | None:
    """The failure that an engine's error text carries, if a kernel raised it."""
    match = _MARK.search(text)
    if match is None:
        return None
    try:
        body = json.loads(match[1])
        return KernelFailure(FailureKind(body["kind"]), str(body["message"]))
    except (ValueError, KeyError, TypeError):
        return None


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """I12: whatever a storage library says, no secret passes on."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
