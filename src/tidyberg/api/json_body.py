"""Reads and checks a JSON body: its size, its speed, its depth and its values."""

import asyncio
import json
import math
from typing import Any, Never

from fastapi import Request

from tidyberg.api.refusals import BodyTooLarge, MalformedRequest, NotJson, TooSlow
from tidyberg.model.sizes import format_size

MOST_LEVELS = 32
_LARGEST_INTEGER = 2**63


class JsonRequest(Request):
    """A request whose body is read and checked before the route runs."""

    _document: Any = None

    async def read(self, most_bytes: int, seconds: float) -> None:
        body = await read_body(self, most_bytes, seconds)
        if body:
            if not _is_json(self.headers.get("content-type", "")):
                raise NotJson("The body is not declared as JSON.", hint="Send Content-Type: application/json.")
            self._document = parse(body)

    async def json(self) -> Any:
        return self._document


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    too_large = BodyTooLarge(
        f"The body is larger than {format_size(most_bytes)}.", hint="The limit is server.max_request_size."
    )
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and len(declared) < 20 and int(declared) > most_bytes:
        raise too_large
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                received += chunk
                if len(received) > most_bytes:
                    raise too_large
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {seconds:g} s.") from None
    request._body = bytes(received)  # a stream can be read once; Starlette looks for the body here
    return request._body


def parse(body: bytes) -> Any:
    try:
        document = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise MalformedRequest("The JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise MalformedRequest(f"The body is not valid JSON: {error.msg} at {place}.") from None
    except ValueError:  # not UTF-8, or a number with thousands of digits
        raise MalformedRequest("The body is not valid JSON.", hint="Send UTF-8.") from None
    _judge(document, 1)
    return document


def judge_text(text: str) -> None:
    """Refuses characters that stores, logs and catalogs cannot handle."""
    if "\x00" in text:
        raise MalformedRequest("The request contains a NUL character.")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedRequest("The request contains half of a surrogate pair, which is not a character.")


def _judge(value: Any, level: int) -> None:
    if level > MOST_LEVELS:
        raise MalformedRequest(f"The JSON is nested more than {MOST_LEVELS} levels deep.")
    if isinstance(value, str):
        judge_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            judge_text(key)
            _judge(item, level + 1)
    elif isinstance(value, list):
        for item in value:
            _judge(item, level + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise MalformedRequest("The JSON contains a number that is too large.")
    elif isinstance(value, int) and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise MalformedRequest("The JSON contains a number that does not fit into 64 bits.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MalformedRequest("An object in the JSON has the same key twice.")
    return found


def _refuse_constant(name: str) -> Never:
    raise MalformedRequest(f"{name} is not JSON.")


def _is_json(content_type: str) -> bool:
    media_type = content_type.split(";")[0].strip().lower()
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))
