"""The error answers that routes declare in the OpenAPI document."""

from typing import Any

from tidyberg.api.problems import MEDIA_TYPE

_WORDS = {
    400: "The request is malformed.",
    401: "No valid credential was sent.",
    403: "The credential does not allow this.",
    404: "There is no such thing here.",
    408: "The body took too long to arrive.",
    409: "Something else was there first, or the table is paused.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "Something in the request is not valid; `errors` says what.",
    429: "Too many requests, or a quota is reached; Retry-After says when to try again.",
    500: "The service met a defect, or found damage; its log tells more.",
    503: "The store, the catalog or storage does not answer; Retry-After says when to try again.",
}
_ALWAYS = (400, 401, 403, 422, 429, 500, 503)
WITH_BODY = (408, 413, 415)

PROBLEM = {"$ref": "#/components/schemas/Problem"}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What every route may answer, and these."""
    return {status: problem(status) for status in sorted({*_ALWAYS, *statuses})}


def problem(status: int) -> dict[str, Any]:
    return {"description": _WORDS[status], "content": {MEDIA_TYPE: {"schema": PROBLEM}}}
