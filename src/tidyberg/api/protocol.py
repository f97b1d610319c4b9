"""The HTTP protocol of one connection. It always answers probes, and closes idle, slow and surplus connections."""

import asyncio
import time

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidyberg.api.admission import overloaded
from tidyberg.api.connections import Connections, Shed
from tidyberg.api.problems import PreparedProblem
from tidyberg.api.refusals import Overloaded, RateLimited

MOST_HEAD_BYTES = 64 * 1024  # request line and headers
LIVENESS_PATHS = (b"/health", b"/health/live")
_RETRY_SECONDS = 2


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers are too long or too slow.

    uvicorn creates the instances, so a subclass provides `connections_open`.
    """

    connections_open: Connections
    head_seconds = 10.0
    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        self.connections_open.opened(self, self.client[0] if self.client else "")

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MOST_HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        self.connections_open.busy(self)
        self.app = self.config.loaded_app
        # Liveness probes need an answer above all when the service is overloaded.
        method = self.parser.get_method().decode("ascii")
        is_probe = self.url.partition(b"?")[0] in LIVENESS_PATHS
        if not is_probe and (why := self.connections_open.refusal(self, method)) is not None:
            self.app = _REFUSED[why]
        self.scope["state"] |= {"abort": self.transport.abort, "arrived": time.monotonic()}
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._head_bytes = 0
        if not self.pipeline:
            self.connections_open.idle(self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self.connections_open.closed(self)
        super().connection_lost(exc)

    def close_idle(self) -> None:
        self.transport.close()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


_REFUSED: dict[Shed, ASGIApp] = {
    Shed.LAG: overloaded(1),
    Shed.FULL: PreparedProblem(Overloaded("All connections are in use.", hint="Try again in a moment."), closes=True),
    Shed.ADDRESS: PreparedProblem(
        RateLimited(
            "This address has too many connections.",
            hint="Close some, or raise server.max_connections_per_address for a load balancer.",
            retry_after_seconds=_RETRY_SECONDS,
        ),
        closes=True,
    ),
}


class ProbesOnly:
    """Serves only the probe routes, and accepts any `Host` header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["path"].startswith("/health") else "/health/none"
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope = {**scope, "path": path, "raw_path": path.encode(), "headers": [(b"host", b"localhost"), *headers]}
        await self._app(scope, receive, send)
