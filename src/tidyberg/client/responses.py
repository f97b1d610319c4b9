"""Reading answers: documents, problems as the errors that the service raised, and when to try again."""

from collections.abc import Iterator
from typing import Any

import httpx

from tidyberg.client.calls import Call, T
from tidyberg.errors import BadInput, ServiceUnreachable, TidybergError, Transient

PASSING = frozenset((429, 502, 503, 504))
_ERRORS = TidybergError.__module__


def is_answer(call: Call[T], response: httpx.Response) -> bool:
    """Whether it is one that asking again would not change."""
    return response.status_code not in PASSING or response.status_code in call.accepted


def read(call: Call[T], response: httpx.Response) -> T:
    """The call's answer, or the error that the service names."""
    if response.is_success or response.status_code in call.accepted:
        return call.read(_document(response) if response.content else None)
    raise error_of(response)


def error_of(response: httpx.Response) -> TidybergError:
    """The service's own error, of the class that has its code."""
    problem = _document(response)
    if not isinstance(problem, dict) or "code" not in problem:
        return _foreign(response)
    code, hint = str(problem["code"]), problem.get("hint")
    kind = _kinds().get(code, Transient if response.status_code in PASSING else TidybergError)
    error = kind(str(problem.get("detail", code)), hint=str(hint) if hint else None)
    error.code = code  # type: ignore[misc]  # a code that this version has no class for is kept as it came
    return error


def _document(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _foreign(response: httpx.Response) -> TidybergError:
    """An answer that is none of ours: a proxy's, or another program's."""
    words = f"{response.url} answered {response.status_code} {response.reason_phrase}."
    if response.status_code in PASSING:
        return ServiceUnreachable(words, hint="Try again later.")
    return BadInput(words, hint="Is that address a tidyberg service?")


def _kinds() -> dict[str, type[TidybergError]]:
    """The class of each code: the one that declares it, not those below it that inherit it."""
    return {kind.code: kind for kind in _below(TidybergError) if "code" in vars(kind) and kind.__module__ == _ERRORS}


def _below(kind: type[TidybergError]) -> Iterator[type[TidybergError]]:
    yield kind
    for further in kind.__subclasses__():
        yield from _below(further)
