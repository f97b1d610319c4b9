"""A proxy in front of a REST catalog that breaks answers to commits or to loads of a table, and no others."""

import http.client
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers.server import ClosedAtExit

_TABLE = re.compile(r"/v1/namespaces/[^/]+/tables/[^/?]+(\?.*)?")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Fault:
    """What happens to one request instead of being passed on and answered.

    With `forward` the server gets it, after `hold_seconds` or when the test releases it, and works on it; the
    client gets `status`, or sees the connection drop when that is None, after `delay_seconds` more.
    """

    forward: bool
    status: int | None
    hold_seconds: float = 0.0
    delay_seconds: float = 0.0
    until_released: bool = False


class FaultProxy(ClosedAtExit):
    def __init__(self, upstream_port: int) -> None:
        self.commit_answers: list[int] = []  # what the server said to each commit it got
        self.commits_asked = 0  # what clients sent
        self._faults: dict[str, deque[Fault]] = {"POST": deque(), "GET": deque()}
        self._always: dict[str, Fault | None] = {"POST": None, "GET": None}
        self._spoil_loads_after_commit: Fault | None = None
        self._lock = threading.Lock()
        self._busy = 0
        self._changed = threading.Condition(self._lock)
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, upstream_port))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fault-proxy")
        self._thread.start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.release()
        self.wait_until_idle()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def spoil_commits(self, *faults: Fault, always: Fault | None = None) -> None:
        """The next commits, one fault each; then `always`, or no more."""
        self._set("POST", faults, always)

    def spoil_loads(self, *faults: Fault, always: Fault | None = None) -> None:
        self._set("GET", faults, always)

    def spoil_loads_after_commit(self, fault: Fault) -> None:
        """Loads are right until the first commit was sent, and spoilt from then on."""
        self._spoil_loads_after_commit = fault

    def heal(self) -> None:
        self._spoil_loads_after_commit = None
        self._set("POST", (), None)
        self._set("GET", (), None)

    def release(self) -> None:
        """Let go of requests that are held until released."""
        self._released.set()

    def wait_for_commit(self, seconds: float = 120.0) -> None:
        with self._lock:
            assert self._changed.wait_for(lambda: self.commits_asked > 0, seconds), "no commit came"

    def wait_until_idle(self, seconds: float = 30.0) -> None:
        """Until every request that was held or delayed has been dealt with."""
        with self._lock:
            assert self._changed.wait_for(lambda: self._busy == 0, seconds), "the proxy is still holding requests"

    def hold(self, fault: Fault) -> None:
        if fault.until_released:
            self._released.wait()
        time.sleep(fault.hold_seconds)

    def _set(self, method: str, faults: tuple[Fault, ...], always: Fault | None) -> None:
        with self._lock:
            self._faults[method] = deque(faults)
            self._always[method] = always

    def begin(self, method: str, path: str) -> Fault | None:
        """Called for every request; the fault that it meets."""
        with self._lock:
            self._busy += 1
            if method not in self._faults or not _TABLE.fullmatch(path):
                return None
            if method == "POST":
                self.commits_asked += 1
                self._changed.notify_all()
                if self._spoil_loads_after_commit is not None:
                    self._always["GET"] = self._spoil_loads_after_commit
            waiting = self._faults[method]
            return waiting.popleft() if waiting else self._always[method]

    def answered(self, method: str, path: str, status: int) -> None:
        if method == "POST" and _TABLE.fullmatch(path):
            with self._lock:
                self.commit_answers.append(status)

    def end(self) -> None:
        with self._lock:
            self._busy -= 1
            self._changed.notify_all()


def _handler(proxy: FaultProxy, upstream_port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.begin(self.command, self.path)
            try:
                if fault is None:
                    self.send_back(*self.forward(body))
                else:
                    self.spoil(fault, body)
            except ConnectionError:
                self.close_connection = True  # the client gave up first
            finally:
                proxy.end()

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):  # how the base class asks for the handler of a method
                return self.handle_any
            raise AttributeError(name)

        def spoil(self, fault: Fault, body: bytes) -> None:
            proxy.hold(fault)
            if fault.forward:
                self.forward(body)
            time.sleep(fault.delay_seconds)
            if fault.status is None:
                self.close_connection = True
                return
            kind = "CommitFailedException" if fault.status == 409 else "SpoiltAnswer"
            said = f'{{"error": {{"message": "spoilt", "type": "{kind}", "code": {fault.status}}}}}'
            self.send_back(fault.status, [("Content-Type", "application/json")], said.encode())

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upstream = http.client.HTTPConnection("127.0.0.1", upstream_port, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
                upstream.request(self.command, self.path, body or None, headers)
                answer = upstream.getresponse()
                content = answer.read()
                proxy.answered(self.command, self.path, answer.status)
                return answer.status, answer.getheaders(), content
            finally:
                upstream.close()

        def send_back(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Handler
