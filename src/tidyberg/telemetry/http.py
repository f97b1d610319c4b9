"""Middleware that measures, traces and logs every HTTP request, and gives it an id."""

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tidyberg.telemetry.context import about
from tidyberg.telemetry.log_rate_limit import rate_limited
from tidyberg.telemetry.metrics import UNMATCHED, Metrics
from tidyberg.telemetry.traces import Tracer

_LOG = logging.getLogger(__name__)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

REQUEST_ID = "x-request-id"
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
_PREFIX = "/api/v1"
_PROBES = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})  # called all the time
_MANY = frozenset({400, 401, 403, 404, 405, 408, 421, 429, 503})  # a client can cause any number of these
_CLOSED_BY_CLIENT = 499  # counted if the client disconnected before the response


class TelemetryMiddleware:
    """Wraps every request that passes admission control.

    A caller may set the request id. The response and all log lines of the request contain it.
    """

    def __init__(self, app: Application, metrics: Metrics, tracer: Tracer) -> None:
        self._app = app
        self._metrics = metrics
        self._tracer = tracer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get(REQUEST_ID, "")
        request_id = given if _ACCEPTED_ID.fullmatch(given) else uuid.uuid4().hex
        method = str(scope["method"])
        timing = _RequestTiming(method, str(scope["path"]))

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                timing.answered(int(message["status"]))
                others = [(name, value) for name, value in message["headers"] if name.lower() != REQUEST_ID.encode()]
                message = {**message, "headers": [*others, (REQUEST_ID.encode(), request_id.encode())]}
            await send(message)

        with about(request_id=request_id), self._tracer.serving(method, headers.get("traceparent")) as span:
            try:
                await self._app(scope, receive, send_named)
            except Exception:
                timing.answered(500)  # the server will answer with this status
                raise
            finally:
                timing.answered(_CLOSED_BY_CLIENT)
                route = route_of(scope)
                span.rename(f"{method} {route}")
                span.set(**{"http.request.method": method, "http.route": route})
                span.set(**{"http.response.status_code": timing.status})
                self._metrics.http(method, route, timing.status, timing.seconds)
                level = logging.DEBUG if route in _PROBES else logging.INFO
                words = "%s %s %d in %.1f ms"
                limited = rate_limited(f"answer {timing.status}") if timing.status in _MANY else None
                _LOG.log(level, words, method, timing.path, timing.status, timing.seconds * 1000, extra=limited)


class _RequestTiming:
    """Times a request until its response starts, because a stream can stay open for long."""

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        self.status = 0
        self.seconds = 0.0
        self._started = time.perf_counter()

    def answered(self, status: int) -> None:
        """Records the first status only."""
        if not self.status:
            self.status = status
            self.seconds = time.perf_counter() - self._started


def route_of(scope: Message) -> str:
    """Returns the route template, never the path, which is unbounded. Routes without the prefix count as the same."""
    return str(getattr(scope.get("route"), "path", UNMATCHED)).removeprefix(_PREFIX)
