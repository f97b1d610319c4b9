"""The error responses that routes declare in the OpenAPI document."""

from typing import Any

from tidyberg.api.problems import MEDIA_TYPE

_WORDS = {
    400: "The request is malformed.",
    401: "No valid credential was sent.",
    403: "The credential does not permit this.",
    404: "The resource does not exist.",
    408: "The body took too long to arrive.",
    409: "The request conflicts with the current state, or the table is paused.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "The request is not valid; `errors` names the fields.",
    429: "Too many requests, or a quota is reached; Retry-After says when to try again.",
    500: "The service failed unexpectedly or found damaged data; see its log.",
    503: "The service is overloaded, or the store, the catalog or storage does not answer; Retry-After says when to try"
    " again.",
}
_ALWAYS = (400, 401, 403, 422, 429, 500, 503)
WITH_BODY = (408, 413, 415)

PROBLEM = {"$ref": "#/components/schemas/Problem"}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the errors of every route, plus these."""
    return {status: problem(status) for status in sorted({*_ALWAYS, *statuses})}


def problem(status: int) -> dict[str, Any]:
    return {"description": _WORDS[status], "content": {MEDIA_TYPE: {"schema": PROBLEM}}}
