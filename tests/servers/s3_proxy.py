"""A proxy in front of the S3 server. It counts requests and bytes, and makes some requests fail, as networks do."""

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers.server import ClosedAtExit

SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # with the query
    number: int  # of all requests so far
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.path.partition("?")[0].lstrip("/").partition("/")[2]


@dataclass(frozen=True)
class Error:
    """The proxy answers with this error itself. The server does not get the request."""

    status: int
    code: str
    message: str = "made up"


@dataclass(frozen=True)
class Break:
    """The proxy closes the connection before it forwards the request, after that, or in the middle of the answer."""

    when: str  # before | after | within


@dataclass(frozen=True)
class Delay:
    seconds: float


Fault = Error | Break | Delay | None


class S3Proxy(ClosedAtExit):
    """A proxy that keeps connections open, as most stores do."""

    def __init__(self, port: int, fault: Callable[[Asked], Fault] = lambda _: None) -> None:
        self.fault = fault
        self.sent = Counter[str]()  # bytes of bodies to the server, by key
        self.received = Counter[str]()  # and from it
        self.answers = Counter[int]()
        self.held = 0  # requests that were delayed
        self._released = threading.Event()
        self._port = port
        self._count = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing."""

            def do_GET(self) -> None:
                proxy._serve(self)

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        return Handler

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        with self._lock:
            self._count += 1
            headers = {name.lower(): value for name, value in handler.headers.items()}
            asked = Asked(handler.command, handler.path, self._count, headers)
        fault = self.fault(asked)
        if isinstance(fault, Delay):
            self.held += 1
            self._released.wait(fault.seconds)
        if isinstance(fault, Error):
            said = f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>".encode()
            self._answer(handler, fault.status, {"content-type": "application/xml"}, said)
            return
        if fault == Break("before"):
            handler.close_connection = True
            return
        status, answer_headers, content = self._ask(handler, body)
        with self._lock:
            self.sent[asked.key] += len(body)
            self.received[asked.key] += len(content)
        if fault == Break("after"):
            handler.close_connection = True
            return
        self._answer(handler, status, answer_headers, content, broken=fault == Break("within"))

    def _ask(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in ("connection", "expect", "transfer-encoding", "content-length"):
                    connection.putheader(name, value)
            if body or handler.command in ("PUT", "POST"):
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def _answer(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        headers: dict[str, str],
        content: bytes,
        broken: bool = False,
    ) -> None:
        with self._lock:
            self.answers[status] += 1
        handler.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                handler.send_header(name, value)
        length = headers.get("Content-Length", "0") if handler.command == "HEAD" else str(len(content))
        handler.send_header("Content-Length", length)
        handler.end_headers()
        if broken and content:
            content = content[: len(content) // 2]
            handler.close_connection = True
        if handler.command != "HEAD":
            handler.wfile.write(content)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("transfer-encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    chunks = []
    while length := int(handler.rfile.readline().split(b";")[0], 16):
        chunks.append(handler.rfile.read(length))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass
    return b"".join(chunks)
