"""Stands before a REST catalog, and forwards reports of metrics to another server. Both get the bytes of the client."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.servers.server import ClosedAtExit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class MetricsForwarder(ClosedAtExit):
    def __init__(self, catalog: str, reports: str) -> None:
        self.reports: list[tuple[str, bytes, int]] = []  # path, body, and the status of the answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, catalog, reports))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="metrics-forwarder")
        self._thread.start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(forwarder: MetricsForwarder, catalog: str, reports: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            is_report = self.path.endswith("/metrics")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(urlsplit(reports if is_report else catalog).netloc, timeout=30)
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in {*_HOP_BY_HOP, "host"}
            }
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
            if is_report:
                forwarder.reports.append((self.path, body, answer.status))
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815  # names of http.server

        def log_message(self, *_: object) -> None:
            return None

    return Handler
