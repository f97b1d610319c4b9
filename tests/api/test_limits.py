"""Bad input and overload get clear errors, and the service continues."""

import json
import socket
import threading
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.builders.api import Serve, code_of
from tidyberg.api.json_body import MOST_LEVELS, parse
from tidyberg.api.rate_limits import RateLimiter
from tidyberg.api.refusals import MalformedRequest, RateLimited
from tidyberg.model.sizes import MB
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b'{"table": "a\\u0000b"}',
        b'{"table": "\\ud800"}',
        b'{"table": "a", "table": "b"}',
        b'{"table": "a", "options": {"max_cost": NaN}}',
        b'{"table": "a", "options": {"max_cost": 1e999}}',
        b'{"table": "a", "options": {"max_files": 9223372036854775808}}',
        b'{"table": "a", "options": {"max_files": ' + b"9" * 5000 + b"}}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * (MOST_LEVELS + 1) + b"1" + b"}" * (MOST_LEVELS + 1),
    ],
)
def test_invalid_json_is_malformed(shared_client: httpx.Client, body: bytes) -> None:
    assert code_of(shared_client.post("/api/v1/compact", content=body, headers=JSON)) == (400, "malformed-request")


@pytest.mark.parametrize("body", [b"null", b"[]", b'"text"', b"1", b"{}", b"", b'{"table": null}', b'{"table": 7}'])
def test_json_with_wrong_types_is_bad_input(shared_client: httpx.Client, body: bytes) -> None:
    assert code_of(shared_client.post("/api/v1/compact", content=body, headers=JSON)) == (422, "bad-input")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "text/json"])
def test_body_must_be_declared_as_json(shared_client: httpx.Client, content_type: str) -> None:
    """A page of another origin cannot make a browser send this content type."""
    answer = shared_client.post(
        "/compact", content=b'{"table": "public.events"}', headers={"Content-Type": content_type}
    )
    assert code_of(answer) == (415, "unsupported-media-type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
def test_every_json_media_type_is_accepted(shared_client: httpx.Client, content_type: str) -> None:
    answer = shared_client.post(
        "/compact", content=b'{"table": "public.events"}', headers={"Content-Type": content_type}
    )
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"tabel": "events"}, "tabel", "did you mean 'table'?"),
        ({"options": {"target_file_sise": "1GB"}}, "options.target_file_sise", "did you mean 'target_file_size'?"),
        ({"options": {"target_file_size": "huge"}}, "options.target_file_size", "is not a size"),
        ({"options": {"max_cost": -1}}, "options.max_cost", "greater than or equal to 0"),
        ({"strategy": "magic"}, "strategy", "is not a strategy"),
        ({"priority": 101}, "priority", "less than or equal to 100"),
        ({"verify": "maybe"}, "verify", "should be 'counts', 'full' or 'off'"),
        ({"options": {"hot_window_seconds": 10**12}}, "options.hot_window_seconds", "less than or equal to"),
        ({"options": {"target_file_size": "9" * 400}}, "options.target_file_size", "is too large for a size"),
        ({"options": []}, "options", "'options' should be an object with keys and values."),
        ({"table": ""}, "table", "'table' should have at least 1 character."),
        ({"table": "a\nb"}, "table", "'table' should match pattern"),
        ({"odd[name": 1}, "odd[name", "is not known"),
    ],
)
def test_invalid_field_is_named(shared_client: httpx.Client, body: dict[str, Any], field: str, words: str) -> None:
    answer = shared_client.post("/api/v1/compact", json={"table": "public.events", **body})
    assert code_of(answer) == (422, "bad-input")
    (found,) = (error for error in answer.json()["errors"] if error["field"] == field)
    assert found["location"] == "body"
    assert words in found["message"]


@pytest.mark.parametrize("body", [[], "x", 1, None])
def test_body_that_is_not_an_object_is_refused(shared_client: httpx.Client, body: Any) -> None:
    answer = shared_client.post("/api/v1/compact", content=json.dumps(body), headers=JSON)
    assert code_of(answer) == (422, "bad-input")
    assert answer.json()["detail"].endswith("The document should be an object with keys and values.")


def test_target_of_one_byte_is_refused_with_a_hint(shared_client: httpx.Client) -> None:
    asked = {"table": "public.events", "options": {"target_file_size": 1, "force": True}}
    for path in ("/api/v1/compact", "/api/v1/plan"):
        answer = shared_client.post(path, json=asked)
        assert code_of(answer) == (422, "bad-input")
        assert "target_file_size is 1 B, below the minimum of 1 MB" in answer.json()["detail"]
        assert "Give a larger one, such as 512MB" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs?status=done",
        "/api/v1/jobs?limit=0",
        "/api/v1/jobs?limit=99999999999999999999999",
        "/api/v1/jobs?sort=cost",
        "/api/v1/jobs?cursor=%27%3B%20drop%20table%20submissions--",
        "/api/v1/jobs?cursor=bm9uc2Vuc2U",
        "/api/v1/jobs?nonsense=1",
        "/api/v1/jobs/..%2f..%2fetc%2fpasswd",
        "/api/v1/jobs/a b",
        "/api/v1/jobs/x/events?after=-1",
        "/api/v1/audit?before=0",
        "/api/v1/tables/default/public/a%2Fb/health",
        "/api/v1/jobs/%00",
        "/api/v1/jobs?table=%00",
        "/api/v1/tables?catalog=",
    ],
)
def test_bad_parameters_are_refused(shared_client: httpx.Client, path: str) -> None:
    status, _ = code_of(shared_client.get(path))
    assert status in (400, 404, 422)


def test_sql_in_a_filter_is_only_text(shared_client: httpx.Client) -> None:
    shared_client.post("/compact", json={"table": "public.events"})
    before = len(shared_client.get("/api/v1/jobs").json()["jobs"])
    for text in ("' or 1=1 --", "x'; drop table submissions; --"):
        answer = shared_client.get("/api/v1/jobs", params={"tenant": text, "created_by": text})
        assert (answer.status_code, answer.json()["jobs"]) == (200, [])
    assert len(shared_client.get("/api/v1/jobs").json()["jobs"]) == before > 0


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/api/v1/compact/", "//api/v1/jobs", "/api/v2/jobs", "/../x"])
def test_unknown_paths_are_not_found(shared_client: httpx.Client, path: str) -> None:
    assert code_of(shared_client.get(path)) in ((404, "not-found"), (405, "method-not-allowed"))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/v1/compact", "POST"),
        ("PATCH", "/api/v1/jobs/x", "DELETE, GET"),
        ("DELETE", "/jobs", "GET"),
        ("POST", "/api/v1/schedules/x", "DELETE, GET, PUT"),
        ("POST", "/health", "GET, HEAD"),
        ("TRACE", "/api/v1/jobs", "GET"),
        ("OPTIONS", "/api/v1/jobs", "GET"),
    ],
)
def test_wrong_method_gets_the_allowed_methods(
    shared_client: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = shared_client.request(method, path)
    assert code_of(answer) == (405, "method-not-allowed")
    assert answer.headers["allow"] == allowed


def test_body_size_is_limited(serve: Serve) -> None:
    client = serve(Server(max_request_size=1000))
    body = b'{"table": "public.events", "namespace": "' + b"x" * 1000 + b'"}'
    assert code_of(client.post("/compact", content=body, headers=JSON)) == (413, "body-too-large")

    def in_pieces() -> Any:
        yield from (body[start : start + 100] for start in range(0, len(body), 100))

    assert code_of(client.post("/compact", content=in_pieces(), headers=JSON)) == (413, "body-too-large")
    assert client.post("/compact", json={"table": "public.events"}).status_code == 202


def test_too_many_requests_are_refused_for_a_while(serve: Serve) -> None:
    client = serve(Server(requests_per_second=0.01, burst=3))
    answers = [client.get("/api/v1/jobs") for _ in range(4)]
    assert [answer.status_code for answer in answers[:3]] == [200] * 3
    assert code_of(answers[3]) == (429, "rate-limited")
    assert 40 < int(answers[3].headers["retry-after"]) <= 100, "the four requests took less than a minute"
    assert client.get("/health").status_code == 200, "load balancers are not limited"


def test_refused_caller_learns_when_the_next_request_is_accepted() -> None:
    now = 0.0
    rates = RateLimiter(0.5, 3, clock=lambda: now)
    for _ in range(3):
        rates.take("a")
    with pytest.raises(RateLimited) as refused:
        rates.take("a")
    assert refused.value.retry_after_seconds == 2
    now = 2.0
    rates.take("a")


def test_each_caller_has_its_own_bucket_which_refills() -> None:
    now = 0.0
    rates = RateLimiter(2, 4, clock=lambda: now)
    for _ in range(4):
        rates.take("a")
    rates.take("b")
    with pytest.raises(RateLimited):
        rates.take("a")
    now = 1.0
    rates.take("a")
    rates.take("a")
    with pytest.raises(RateLimited):
        rates.take("a")


def test_slow_client_is_disconnected(serve: Serve) -> None:
    client = serve(Server(request_timeout_seconds=0.3))
    address = (client.base_url.host, int(client.base_url.port or 0))
    head = b"POST /compact HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection(address) as slow_body, socket.create_connection(address) as slow_head:
        slow_body.sendall(head + b'{"table"')
        slow_head.sendall(head[:40])
        for one in (slow_body, slow_head):
            one.settimeout(10)
        assert b" 408 " in slow_body.recv(4096)
        assert slow_head.recv(4096) == b"", "it was closed"
    assert client.get("/health").status_code == 200


def test_endless_headers_are_cut_off(shared_client: httpx.Client) -> None:
    address = (shared_client.base_url.host, int(shared_client.base_url.port or 0))
    sent = 0
    with socket.create_connection(address) as endless, suppress(OSError):
        endless.settimeout(10)
        endless.sendall(b"GET /health HTTP/1.1\r\n")
        while sent < 50 * MB:
            sent += endless.send(b"X-Filler: " + b"x" * 1000 + b"\r\n")
    assert sent < 50 * MB
    assert shared_client.get("/health").status_code == 200


def test_hanging_calls_do_not_block_others(serve: Serve, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(Server(threads=1))
    let_go = threading.Event()
    monkeypatch.setattr(service, "tables", lambda *_: let_go.wait(30) and [])
    hanging = [threading.Thread(target=client.get, args=("/api/v1/tables",)) for _ in range(3)]
    for thread in hanging:
        thread.start()
    try:
        assert client.post("/compact", json={"table": "public.events"}).status_code == 202
        assert client.get("/api/v1/jobs").status_code == 200
        assert client.get("/health/live").status_code == 200
    finally:
        let_go.set()
        for thread in hanging:
            thread.join()


def test_calls_beyond_the_queue_limit_are_refused(
    serve: Serve, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(service, "tables", lambda *_: let_go.wait(30) and [])
    monkeypatch.setattr("tidyberg.api.app._MOST_WAITING", 1)
    client = serve(Server(threads=1))
    hanging = [threading.Thread(target=client.get, args=("/api/v1/tables",)) for _ in range(2)]
    for thread in hanging:
        thread.start()
    try:
        # One of the calls waits, so the next one finds no place.
        answers = [answer for _ in range(3) if (answer := _answer_at_once(client)) is not None]
        assert code_of(answers[-1]) == (503, "overloaded")
    finally:
        let_go.set()
        for thread in hanging:
            thread.join()


def _answer_at_once(client: httpx.Client) -> httpx.Response | None:
    """Returns None if the call was queued."""
    try:
        return client.get("/api/v1/tables", timeout=0.5)
    except httpx.ReadTimeout:
        return None


def test_numbers_up_to_64_bits_are_read() -> None:
    assert parse(b'{"a": 9223372036854775807, "b": -9223372036854775808, "c": 1.5}')["a"] == 2**63 - 1
    with pytest.raises(MalformedRequest):
        parse(b"-9223372036854775809")
