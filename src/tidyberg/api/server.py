"""uvicorn as the service needs it: streams end when it stops, and clients that send slowly do not stay."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidyberg.api.context import Context
from tidyberg.errors import BadInput
from tidyberg.settings.serving import Server

MOST_HEAD_BYTES = 64 * 1024  # of a request line with its headers
_GRACE_SECONDS = 10  # for requests under way when the server stops
_BACKLOG = 2048


class ApiServer(uvicorn.Server):
    """Serves until it is asked to stop by a signal or `should_exit`. It ends without raising the signal again."""

    def __init__(self, app: FastAPI, **tls: Any) -> None:
        context: Context = app.state.context
        self._stopping = context.stopping
        seconds = context.server.request_timeout_seconds
        protocol = type("Protocol", (ImpatientProtocol,), {"head_seconds": seconds})
        config = uvicorn.Config(
            app,
            http=protocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=context.server.max_connections,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            **tls,
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again when it is done, which would end the process before its jobs have stopped."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class ImpatientProtocol(HttpToolsProtocol):
    """Closes connections whose request line and headers are too long, or too long in coming."""

    head_seconds = 30.0
    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MOST_HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._head_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def listen(server: Server) -> socket.socket:
    """The socket to serve on, before anything else is started."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        return socket.create_server((server.host, server.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {server.host}:{server.port}: {os.strerror(error.errno) if error.errno else error}.",
            hint="Choose another port with --port, or stop what listens there.",
        ) from None
