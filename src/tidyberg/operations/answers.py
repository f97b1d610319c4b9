"""The answer of a table operation, and the envelope of errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidyberg.errors import TidybergError
from tidyberg.redact import redact_text


@dataclass(frozen=True)
class OperationAnswer:
    """An HTTP status and a JSON body, for every way in: the service and AWS Lambda."""

    status: int
    body: dict[str, Any]


def error_answer(error: TidybergError, scrub: Callable[[str], str] = redact_text) -> OperationAnswer:
    """Returns the envelope of a failed operation. `code` is stable, `error` is for people."""
    return OperationAnswer(error.http_status, {"success": False, "error": scrub(str(error)), "code": error.code})
