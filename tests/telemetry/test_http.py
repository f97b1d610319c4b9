"""Every request is counted by route, has an id and is traced."""

import asyncio
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders.metrics import value
from tests.builders.tracing import KeepingTracer
from tidyberg.telemetry.context import current_fields
from tidyberg.telemetry.http import Receive, Send, TelemetryMiddleware
from tidyberg.telemetry.metrics import Metrics

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ROUTE = "/jobs/{job_id}"


class Site:
    """An application with one configurable route behind the middleware."""

    def __init__(self, status: int | None = 200, failure: Exception | None = None) -> None:
        self.metrics, self.tracer = Metrics(), KeepingTracer()
        self.seen: dict[str, str] = {}
        self._status, self._failure = status, failure
        self._app = TelemetryMiddleware(self._answer, self.metrics, self.tracer)

    async def _answer(self, scope: MutableMapping[str, Any], _: Receive, send: Send) -> None:
        self.seen = dict(current_fields())
        if scope["path"].startswith("/api"):
            scope["route"] = SimpleNamespace(path=f"/api/v1{ROUTE}")
        elif scope["path"] == "/health":
            scope["route"] = SimpleNamespace(path="/health")
        if self._failure is not None:
            raise self._failure
        if self._status is not None:
            await send({"type": "http.response.start", "status": self._status, "headers": [(b"x-a", b"b")]})
            await send({"type": "http.response.body", "body": b""})

    def ask(self, path: str = "/api/v1/jobs/1", **headers: str) -> dict[str, str]:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        raw = [(name.replace("_", "-").encode(), text.encode("latin-1")) for name, text in headers.items()]
        scope = {"type": "http", "method": "GET", "path": path, "headers": raw}
        asyncio.run(self._app(scope, receive, send))
        return {name.decode(): text.decode() for name, text in sent[0]["headers"]} if sent else {}


def test_requests_are_counted_by_route_not_by_path() -> None:
    site = Site()
    for number in range(3):
        site.ask(f"/api/v1/jobs/{number}")
    site.ask("/nowhere/at/all")
    assert value(site.metrics, "http_requests_total", method="GET", route=ROUTE, status="200") == 3
    assert value(site.metrics, "http_requests_total", method="GET", route="unmatched", status="200") == 1
    assert "nowhere" not in site.metrics.render().decode()


def test_response_and_log_lines_have_the_request_id() -> None:
    site = Site()
    answer = site.ask(x_request_id="abc-1.2:3")
    assert answer == {"x-a": "b", "x-request-id": "abc-1.2:3"}
    assert site.seen == {"request_id": "abc-1.2:3"}


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "é"])
def test_invalid_request_id_is_replaced(given: str) -> None:
    site = Site()
    answered = site.ask(x_request_id=given)["x-request-id"]
    assert answered != given
    assert len(answered) == 32
    assert site.seen == {"request_id": answered}


def test_crash_counts_as_500_and_missing_response_as_499() -> None:
    crashing, silent = Site(failure=RuntimeError("defect")), Site(status=None)
    with pytest.raises(RuntimeError):
        crashing.ask()
    silent.ask()
    assert value(crashing.metrics, "http_requests_total", method="GET", route=ROUTE, status="500") == 1
    assert value(silent.metrics, "http_requests_total", method="GET", route=ROUTE, status="499") == 1


def test_stream_is_measured_until_its_start() -> None:
    class Streaming(Site):
        async def _answer(self, scope: MutableMapping[str, Any], _: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(1.1)

    site = Streaming()
    site.ask()
    assert (value(site.metrics, "http_request_duration_seconds_sum", method="GET", route="unmatched") or 9) < 1


def test_requests_are_logged_at_info_and_probes_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    site = Site(status=404)
    with caplog.at_level("DEBUG", logger="tidyberg.telemetry.http"):
        site.ask("/api/v1/jobs/17")
        site.ask("/health")
    asked, probe = caplog.records
    assert asked.getMessage().startswith("GET /api/v1/jobs/17 404 in ")
    assert (asked.levelname, probe.levelname) == ("INFO", "DEBUG")


def test_request_continues_the_trace_of_the_caller() -> None:
    site = Site(status=404)
    site.ask(traceparent=PARENT)
    [span] = site.tracer.spans
    assert span.name == f"GET {ROUTE}"
    assert span.parent is not None
    assert format(span.parent.span_id, "016x") == PARENT[36:52]
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 404


def test_non_http_scopes_pass_through() -> None:
    site = Site()
    passed: list[str] = []

    async def app(scope: MutableMapping[str, Any], _: Receive, __: Send) -> None:
        passed.append(scope["type"])

    async def nothing(*_: object) -> Any:
        return None

    asyncio.run(TelemetryMiddleware(app, site.metrics, site.tracer)({"type": "lifespan"}, nothing, nothing))
    assert passed == ["lifespan"]
