"""The endpoint of a function on this machine: POST /2015-03-31/functions/function/invocations.

Each invocation has a thread and a context of its own, so invocations do not wait for each other. Lambda would give each
a sandbox. Unlike Lambda, nothing here can kill an invocation that exceeds its time: the handler ends by itself.
"""

import asyncio
import json
import logging
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidyberg.errors import TidybergError
from tidyberg.redact import redact_text
from tidyberg.serverless.events import LARGEST_BODY
from tidyberg.settings.access import is_loopback

log = logging.getLogger(__name__)

PATH = "/2015-03-31/functions/{name}/invocations"
Handler = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class LocalContext:
    """What a handler learns about its invocation."""

    timeout_seconds: float
    memory_limit_in_mb: int
    function_name: str = "function"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    began: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return max(0, round((self.timeout_seconds - (time.monotonic() - self.began)) * 1000))


@dataclass(frozen=True)
class LocalFunction:
    handler: Handler
    timeout_seconds: float
    memory_mb: int
    at_once: int

    def invoke(self, event: Any) -> tuple[bool, Any]:
        """Return whether the handler succeeded, and its answer. Lambda describes errors in the same way."""
        context = LocalContext(self.timeout_seconds, self.memory_mb)
        try:
            answer = self.handler(event, context)
            json.dumps(answer, allow_nan=False)
            return True, answer
        except Exception as error:
            log.warning("the invocation failed", exc_info=not isinstance(error, TidybergError))
            lines = [redact_text(line) for line in traceback.format_tb(error.__traceback__)]
            kind = type(error).__name__
            return False, {"errorMessage": redact_text(str(error)), "errorType": kind, "stackTrace": lines}


def create_app(function: LocalFunction) -> Starlette:
    limiter = CapacityLimiter(function.at_once)
    running: set[asyncio.Task[Any]] = set()

    async def invoke(request: Request) -> Response:
        if (refusal := _refuse_web_pages(request)) is not None:
            return refusal
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                return _problem(413, "RequestEntityTooLargeException", f"The limit is {LARGEST_BODY:,} bytes.")
        try:
            event = json.loads(bytes(body)) if body else {}
        except (ValueError, RecursionError) as error:
            return _problem(400, "InvalidRequestContentException", f"The request is not valid JSON: {error}.")
        kind = request.headers.get("x-amz-invocation-type", "RequestResponse")
        if kind == "DryRun":
            return Response(status_code=204)
        call = asyncio.ensure_future(to_thread.run_sync(function.invoke, event, limiter=limiter))
        if kind == "Event":
            running.add(call)  # the event loop itself keeps no reference
            call.add_done_callback(running.discard)
            return Response(status_code=202)
        succeeded, answer = await asyncio.shield(call)  # a client that leaves does not stop the invocation
        headers = {"X-Amz-Executed-Version": "$LATEST"} | ({} if succeeded else {"X-Amz-Function-Error": "Unhandled"})
        return JSONResponse(answer, headers=headers)

    return Starlette(routes=[Route(PATH, invoke, methods=["POST"])])


def _refuse_web_pages(request: Request) -> Response | None:
    """Any page in a browser can send requests to this machine. A browser says from where, and under which name."""
    if "origin" in request.headers:
        return _problem(403, "AccessDeniedException", "Web pages may not invoke the function.")
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    client = request.client.host if request.client else ""
    if is_loopback(client) and not is_loopback(host):
        return _problem(403, "AccessDeniedException", f"{host!r} is not a name of this machine.")
    return None


def _problem(status: int, kind: str, message: str) -> Response:
    return JSONResponse({"Type": "User", "message": message}, status, headers={"X-Amzn-ErrorType": kind})
