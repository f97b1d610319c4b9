"""Connection limits: probes are answered, idle connections are closed, busy ones stay."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from benchmarks.idle import is_open

from tests.builders.api import Ended, Serve, code_of
from tidyberg.api.app import create_app
from tidyberg.api.connections import Connections, Shed
from tidyberg.api.server import ApiServer, listen
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server
from tidyberg.telemetry.log_rate_limit import LINES, WINDOW_SECONDS, LogRateLimit


@contextmanager
def idle_connections(client: httpx.Client, number: int) -> Iterator[list[socket.socket]]:
    address = (client.base_url.host, int(client.base_url.port or 0))
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(number)]


def test_idle_connections_do_not_block_new_ones(serve: Serve) -> None:
    client = serve(Server(max_connections=40, max_connections_per_address=40))
    with idle_connections(client, 60):
        for _ in range(5):
            assert httpx.get(f"{client.base_url}/health/live").status_code == 200
        time.sleep(1.1)  # now they are idle, not new
        for _ in range(5):
            assert httpx.get(f"{client.base_url}/api/v1/jobs").status_code == 200


def test_longest_idle_connection_is_closed_to_make_room(serve: Serve) -> None:
    client = serve(Server(max_connections=3, max_connections_per_address=3))
    with idle_connections(client, 3) as idle:
        time.sleep(1.1)
        assert httpx.get(f"{client.base_url}/api/v1/jobs").status_code == 200
        assert [is_open(one) for one in idle] == [False, True, True]


def test_only_liveness_is_answered_if_all_connections_are_busy(serve: Serve, service: Service) -> None:
    client = serve(Server(max_connections=3, max_connections_per_address=3))
    job = Ended(service, client)
    client.close()
    url = f"{client.base_url}/api/v1/jobs"
    with ExitStack() as stack:
        for _ in range(3):
            stream = stack.enter_context(httpx.stream("GET", f"{url}/{job.job_id}/events", timeout=30))
            assert stream.status_code == 200
        refused = httpx.get(url)
        assert code_of(refused) == (429, "rate-limited")
        assert int(refused.headers["retry-after"]) > 0
        assert refused.headers["connection"] == "close"
        for path in ("/health", "/health/live", "/health/live?probe=1"):
            assert httpx.get(f"{client.base_url}{path}").status_code == 200
    shed = service.metrics.render().decode()
    assert 'http_connections_shed_total{reason="address"}' in shed


def test_silent_connections_are_closed_early(serve: Serve) -> None:
    client = serve(Server(header_timeout_seconds=1.0, keep_alive_seconds=1.0))
    with idle_connections(client, 2) as (silent, quiet):
        quiet.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in quiet.recv(4096)
        for one in (silent, quiet):
            assert one.recv(4096) == b"", "it was closed"


def test_probes_have_their_own_port(service: Service) -> None:
    server = Server(port=0, max_connections=1, tls_cert=None)
    app = create_app(service, server=server)
    with listen(server) as socket_, listen(server, 0) as probes:
        api = ApiServer(app, probes=probes)
        thread = threading.Thread(target=api.run, kwargs={"sockets": [socket_]})
        thread.start()
        try:
            while not api.started:
                time.sleep(0.005)
            url = f"http://127.0.0.1:{probes.getsockname()[1]}"
            kubelet = {"Host": "10.1.2.3:8081"}  # the address of a pod, which is in no setting
            assert httpx.get(f"{url}/health/live", headers=kubelet).status_code == 200
            assert httpx.get(f"{url}/health/ready", headers=kubelet).status_code == 200
            for path in ("/api/v1/jobs", "/docs", "/metrics", "/openapi.json"):
                assert httpx.get(f"{url}{path}", headers=kubelet).status_code == 404
        finally:
            api.should_exit = True
            thread.join(30)


class _Open:
    closed = False

    def close_idle(self) -> None:
        self.closed = True


def test_address_over_its_limit_loses_only_its_own_connections() -> None:
    now = 0.0
    shed: list[Shed] = []
    connections = Connections(10, 2, shed.append, clock=lambda: now)
    other, *mine = (_Open() for _ in range(4))
    connections.opened(other, "other")
    for number, one in enumerate(mine):
        now = 10.0 * (number + 1)
        connections.opened(one, "mine")
    assert [one.closed for one in (other, *mine)] == [False, True, False, False]
    assert shed == [Shed.IDLE]
    assert len(connections) == 3
    connections.busy(mine[1])
    connections.busy(mine[2])
    late = _Open()
    connections.opened(late, "mine")
    assert connections.refusal(late) is Shed.ADDRESS
    connections.closed(mine[1])
    assert connections.refusal(late) is None, "there is room now"


def test_log_lines_that_clients_cause_are_limited_and_counted() -> None:
    now = 0.0
    limit = LogRateLimit(clock=lambda: now)

    def line(name: str, text: str, level: int = logging.WARNING) -> logging.LogRecord:
        return logging.LogRecord(name, level, __file__, 1, text, (), None)

    passed = [limit.filter(line("uvicorn.error", "Invalid HTTP request received.")) for _ in range(LINES + 30)]
    assert sum(passed) == LINES
    assert limit.filter(line("uvicorn.error", "Something else."))
    assert all(limit.filter(line("tidyberg.jobs", "the job failed")) for _ in range(LINES + 30))
    now = WINDOW_SECONDS
    later = line("uvicorn.error", "Invalid HTTP request received.")
    assert limit.filter(later)
    assert "30 lines like this one were left out" in later.getMessage()


@pytest.mark.parametrize("path", ["/health/live", "/api/v1/jobs"])
def test_many_requests_on_one_connection_are_answered(serve: Serve, path: str) -> None:
    client = serve(Server(max_connections=1))
    assert [client.get(path).status_code for _ in range(3)] == [200] * 3
