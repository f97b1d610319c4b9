"""Reads HTTP responses: returns the result, or raises the error that the service reported."""

from collections.abc import Iterator
from typing import Any

import httpx

from tidyberg.client.calls import Call, T
from tidyberg.errors import BadInput, ServiceUnreachable, Terminal, TidybergError, Transient

TRANSIENT_STATUSES = frozenset((429, 502, 503, 504))
_ERRORS = TidybergError.__module__


def is_final(call: Call[T], response: httpx.Response) -> bool:
    """Returns True if a retry would not change the response."""
    return response.status_code not in TRANSIENT_STATUSES or response.status_code in call.accepted


def read(call: Call[T], response: httpx.Response) -> T:
    """Returns the result of the call, or raises the error of the service."""
    if response.is_success or response.status_code in call.accepted:
        return call.read(_document(response) if response.content else None)
    raise error_of(response)


def error_of(response: httpx.Response) -> TidybergError:
    """Returns the error of the service, as the class with its code."""
    problem = _document(response)
    if not isinstance(problem, dict) or "code" not in problem:
        return _unexpected_response(response)
    code, hint = str(problem["code"]), problem.get("hint")
    kind = _kinds().get(code, Transient if response.status_code in TRANSIENT_STATUSES else Terminal)
    error = kind(str(problem.get("detail", code)), hint=str(hint) if hint else None)
    error.code = code  # type: ignore[misc]  # keeps a code that this version has no class for
    return error


def _document(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _unexpected_response(response: httpx.Response) -> TidybergError:
    """Returns an error for a response of another program, such as a proxy."""
    words = f"{response.url} answered {response.status_code} {response.reason_phrase}."
    if response.status_code in TRANSIENT_STATUSES:
        return ServiceUnreachable(words, hint="Try again later.")
    return BadInput(words, hint="Check that the address is a tidyberg service.")


def _kinds() -> dict[str, type[TidybergError]]:
    """Maps each code to the class that declares it, not to subclasses that inherit it."""
    return {kind.code: kind for kind in _below(TidybergError) if "code" in vars(kind) and kind.__module__ == _ERRORS}


def _below(kind: type[TidybergError]) -> Iterator[type[TidybergError]]:
    for further in kind.__subclasses__():
        yield further
        yield from _below(further)
