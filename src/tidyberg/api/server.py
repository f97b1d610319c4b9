"""The uvicorn server with our connection limits, a separate listener for probes and a graceful stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.server import ServerState

from tidyberg.api.connections import Connections, affordable
from tidyberg.api.context import Context
from tidyberg.api.event_loop_lag import LoopLag
from tidyberg.api.protocol import BoundedProtocol, ProbesOnly
from tidyberg.errors import BadInput
from tidyberg.settings.serving import Server

_GRACE_SECONDS = 10  # for open requests when the server stops
_BACKLOG = 2048
_MOST_PROBES = 64  # connections to the listener for probes
_PROBE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class ApiServer(uvicorn.Server):
    """Serves until a signal or `should_exit` stops it. It does not raise the signal again."""

    def __init__(self, app: FastAPI, *, probes: socket.socket | None = None, **tls: Any) -> None:
        context: Context = app.state.context
        server = context.server
        self._stopping, self._draining = context.stopping, context.draining
        self._service = context.service
        self._drain_seconds = server.drain_seconds
        self._drained_at: float | None = None
        self._app = app
        self._probes = probes
        metrics = context.service.metrics
        most = affordable(server.max_connections)
        if most < server.max_connections:
            _log.warning(
                "only %d connections can be open at the same time: raise the limit of open files (ulimit -n)", most
            )
        self._lag = LoopLag()
        context.admission.lag = self._lag.seconds
        connections = Connections(
            most,
            server.max_connections_per_address,
            metrics.connection_shed,
            lambda method: self._lag.is_beyond(server.max_wait_seconds, method),
        )
        metrics.count_connections(lambda: len(connections))
        super().__init__(
            _config(
                app,
                connections,
                min(server.header_timeout_seconds, server.request_timeout_seconds),
                server.keep_alive_seconds,
                **tls,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._lag.start()
        if self._probes is not None:
            self.servers.append(await self._listen_for_probes(self._probes))

    async def _listen_for_probes(self, listener: socket.socket) -> asyncio.base_events.Server:
        """Listens in the same event loop, so that an answer proves that it runs. Probes use no TLS."""
        open_probes = Connections(_MOST_PROBES, _MOST_PROBES)
        config = _config(ProbesOnly(self._app), open_probes, _PROBE_SECONDS, _PROBE_SECONDS)
        config.load()
        state = ServerState()

        def protocol() -> asyncio.Protocol:
            return config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]

        return await asyncio.get_running_loop().create_server(protocol, sock=listener, backlog=_MOST_PROBES)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first SIGTERM starts draining, so that load balancers notice. A second one, or Ctrl-C, stops at once."""
        if sig == signal.SIGTERM and self._drained_at is None and self._drain_seconds and not self.should_exit:
            self._drained_at = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._drained_at is not None:
            if not self._draining.is_set():
                self._draining.set()
                _log.info("draining: no longer ready, requests are answered for another %g s", self._drain_seconds)
                self._service.claim_no_more()
            self.should_exit |= time.monotonic() >= self._drained_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Overrides uvicorn, which raises the signal again and would end the process before its jobs stop."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _config(
    app: Any, connections: Connections, head_seconds: float, keep_alive_seconds: float, **tls: Any
) -> uvicorn.Config:
    protocol = type("Protocol", (BoundedProtocol,), {"connections_open": connections, "head_seconds": head_seconds})
    return uvicorn.Config(
        app,
        http=protocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_seconds,  # type: ignore[arg-type]  # uvicorn also accepts fractions
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **tls,
    )


def listen(server: Server, port: int | None = None) -> socket.socket:
    """Opens the socket before anything else starts, so that a port in use fails early."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    port = server.port if port is None else port
    try:
        return socket.create_server((server.host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {server.host}:{port}: {os.strerror(error.errno) if error.errno else error}.",
            hint="Choose another port with --port, or stop the program that uses it.",
        ) from None
