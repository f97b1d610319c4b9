"""Authentication and browser protection, over a real socket."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.api.provider import OTHER_RSA_KEY, Provider
from tests.builders.api import bearer, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

VIEWER, OPERATOR, ADMIN, EXPIRED = (new_key() for _ in range(4))
KEYS = [
    {"name": "eve", "hash": hash_key(VIEWER), "role": "viewer"},
    {"name": "otto", "hash": hash_key(OPERATOR), "role": "operator"},
    {"name": "ada", "hash": hash_key(ADMIN), "role": "admin"},
    {"name": "old", "hash": hash_key(EXPIRED), "role": "admin", "expires": "2020-01-01"},
]
OPEN = {"/", "/health", "/health/live", "/health/ready", "/docs", "/openapi.json"}

Start = Callable[..., httpx.Client]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Returns a client of a service with these settings. Tests with equal settings share a service."""
    directory = tmp_path_factory.mktemp("lake")
    started: dict[str, httpx.Client] = {}
    with ExitStack() as stack:
        warehouse = stack.enter_context(Warehouse(directory, name="default"))
        warehouse.create_table("public.events")

        def begin(access: dict[str, Any] | None = None, **more: Any) -> httpx.Client:
            store = {"path": str(directory / f"jobs-{len(started)}.db")}
            given = {"engine": "inline", "catalog": warehouse.properties, "access": access or {}, **more}
            asked = json.dumps(given)
            if asked not in started:
                service = build_service(Settings.model_validate({**given, "store": store}))
                stack.callback(service.stop)
                address = stack.enter_context(serving(create_app(service)))
                started[asked] = stack.enter_context(httpx.Client(base_url=address, timeout=30))
            return started[asked]

        yield begin


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """Yields every method and path of the API, with the short paths, and with parameters filled in."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [(method.upper(), path) for path, operations in paths.items() for method in operations]
    found += [("POST", "/compact"), ("GET", "/jobs"), ("GET", "/jobs/x"), ("DELETE", "/jobs/x"), ("GET", "/metrics")]
    return [(method, path.replace("{", "").replace("}", "")) for method, path in found]


def test_every_route_but_health_needs_a_credential(start: Start) -> None:
    client = start({"api_keys": KEYS})
    asked = routes(client)
    assert len(asked) > 15
    for method, path in asked:
        answer = client.request(method, path)
        if path in OPEN:
            assert answer.status_code in (200, 503), path
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.json()["code"] == "not-authenticated"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_key_is_accepted_in_either_header(start: Start) -> None:
    client = start({"api_keys": KEYS})
    for headers in (bearer(VIEWER), {"X-API-Key": VIEWER}, {"Authorization": f"bearer  {VIEWER}"}):
        assert client.get("/api/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        bearer(new_key()),
        bearer(EXPIRED),
        bearer(VIEWER[:-1]),
        bearer(VIEWER + "x"),
        bearer(VIEWER.swapcase()),
        bearer(hash_key(VIEWER)),
        bearer("tdb_" + "x" * 20_000),
        {"Authorization": "Bearer"},
        bearer("a.b.c"),
        {"Authorization": VIEWER},
        {"Authorization": f"Basic {VIEWER}"},
        {"X-API-Key": ""},
        {"X-API-Key": hash_key(VIEWER)},
        {"X-API-Key": VIEWER, **bearer(VIEWER)},
    ],
)
def test_invalid_credential_is_refused_and_not_repeated(start: Start, headers: dict[str, str]) -> None:
    answer = start({"api_keys": KEYS, "anonymous_role": "viewer"}).get("/api/v1/jobs", headers=headers)
    assert answer.status_code == 401
    assert VIEWER not in answer.text
    assert EXPIRED not in answer.text


def test_two_credentials_of_one_kind_are_refused(start: Start) -> None:
    twice = [("Authorization", f"Bearer {VIEWER}"), ("Authorization", f"Bearer {ADMIN}")]
    assert start({"api_keys": KEYS}).get("/api/v1/jobs", headers=twice).status_code == 401


def test_roles_are_enforced(start: Start) -> None:
    client = start({"api_keys": KEYS})

    def status(key: str, method: str, path: str, **more: Any) -> int:
        return client.request(method, path, headers=bearer(key), **more).status_code

    job = {"table": "public.events"}
    assert [status(key, "POST", "/api/v1/compact", json=job) for key in (VIEWER, OPERATOR, ADMIN)] == [403, 202, 202]
    assert [status(key, "GET", "/api/v1/audit") for key in (VIEWER, OPERATOR, ADMIN)] == [403, 403, 200]
    assert [status(key, "GET", "/api/v1/jobs") for key in (VIEWER, OPERATOR, ADMIN)] == [200, 200, 200]
    assert [status(key, "DELETE", "/api/v1/jobs/x") for key in (VIEWER, OPERATOR, ADMIN)] == [403, 404, 404]


def test_anonymous_access_needs_a_setting(start: Start) -> None:
    client = start({"api_keys": KEYS, "anonymous_role": "viewer"})
    assert client.get("/api/v1/jobs").status_code == 200
    assert client.post("/api/v1/compact", json={"table": "public.events"}).status_code == 403
    client = start({"anonymous_role": "viewer"})
    assert client.post("/api/v1/compact", json={"table": "public.events"}).status_code == 403


def test_settings_decide_who_reads_metrics(start: Start) -> None:
    closed, opened = start({"api_keys": KEYS}), start({"api_keys": KEYS, "open_metrics": True})
    for path in ("/metrics", "/api/v1/metrics"):
        assert closed.get(path).status_code == 401
        assert closed.get(path, headers=bearer(VIEWER)).status_code == 200
        assert opened.get(path).status_code == 200
        assert opened.get(path, headers=bearer("tdb_wrong")).status_code == 401


def test_metrics_need_access_to_all_tenants(start: Start) -> None:
    tenants = {"sales": {"namespaces": ["public"]}}
    collector = new_key()
    keys = [{**KEYS[0], "tenant": "sales"}, {"name": "prometheus", "hash": hash_key(collector), "tenant": "*"}]
    client = start({"api_keys": keys}, tenants=tenants)
    assert client.get("/metrics", headers=bearer(VIEWER)).status_code == 403
    assert client.get("/metrics", headers=bearer(collector)).status_code == 200
    assert client.get("/api/v1/audit", headers=bearer(collector)).status_code == 403


def test_token_of_the_identity_provider_is_accepted(start: Start) -> None:
    provider = Provider()
    client = start({"oidc": {"issuer": provider.issuer, "audience": "tidyberg"}, "api_keys": KEYS})
    try:
        good = client.post(
            "/api/v1/compact", json={"table": "public.events"}, headers=bearer(provider.token(roles=["operator"]))
        )
        assert good.status_code == 202
        entry = client.get("/api/v1/audit", headers=bearer(ADMIN)).json()["entries"][0]
        assert (entry["who"], entry["action"], entry["outcome"]) == ("oidc:alice", "job.submit", "allowed")
        assert client.get("/api/v1/jobs", headers=bearer(provider.token(exp=1))).status_code == 401
        assert client.get("/api/v1/jobs", headers=bearer(provider.token(OTHER_RSA_KEY))).status_code == 401
        assert client.get("/api/v1/jobs", headers=bearer(provider.token(roles=[]))).status_code == 403
        assert client.get("/api/v1/jobs", headers={"X-API-Key": provider.token()}).status_code == 401
        assert client.get("/api/v1/jobs", headers=bearer(VIEWER)).status_code == 200
    finally:
        provider.close()


def test_without_the_provider_keys_still_work(start: Start) -> None:
    provider = Provider()
    token = provider.token()
    provider.close()
    client = start({"oidc": {"issuer": provider.issuer, "audience": "tidyberg"}, "api_keys": KEYS})
    answer = client.get("/api/v1/jobs", headers=bearer(token))
    assert (answer.status_code, answer.json()["code"]) == (503, "identity-provider-down")
    assert int(answer.headers["Retry-After"]) > 0
    assert client.get("/api/v1/jobs", headers=bearer(VIEWER)).status_code == 200


def test_secured_document_has_security_schemes(start: Start) -> None:
    secured, unsecured = (start(access).get("/openapi.json").json() for access in ({"api_keys": KEYS}, {}))
    assert set(secured["components"]["securitySchemes"]) == {"bearer", "apiKey"}
    assert secured["paths"]["/api/v1/compact"]["post"]["security"] == [{"bearer": []}, {"apiKey": []}]
    assert secured["paths"]["/health"]["get"]["security"] == []
    assert "securitySchemes" not in unsecured["components"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:8080", 200), ("localhost:1", 200), ("LOCALHOST", 200), ("[::1]:8080", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example:8080", 421), ("", 421),
        ("10.0.0.1", 421), ("evil@localhost", 421), ("localhost:evil.example", 421), ("[", 421), ("0.0.0.0", 421),
    ],
)  # fmt: skip
def test_foreign_host_names_are_refused(start: Start, host: str, status: int) -> None:
    """A page whose name resolves to 127.0.0.1 (DNS rebinding) must not act as the local user."""
    client = start()
    assert client.get("/api/v1/jobs", headers={"Host": host}).status_code == status


def test_host_names_are_free_with_authentication_unless_settings_restrict_them(start: Start) -> None:
    assert start({"api_keys": KEYS}).get("/api/v1/jobs", headers={"Host": "x", **bearer(VIEWER)}).status_code == 200
    client = start({"api_keys": KEYS, "allowed_hosts": ["lake.example"]})
    assert client.get("/health", headers={"Host": "lake.example:80"}).status_code == 200
    assert client.get("/health").status_code == 200
    assert client.get("/health", headers={"Host": "other.example"}).status_code == 421


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"Origin": "SELF"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "https://console.example"}, True),
    ],
)
def test_pages_of_other_origins_cannot_change_anything(start: Start, headers: dict[str, str], passes: bool) -> None:
    client = start({"cors_origins": ["https://console.example"]})
    ours = str(client.base_url).rstrip("/")
    before = len(client.get("/api/v1/jobs").json()["jobs"])
    sent = {name: value.replace("SELF", ours) for name, value in headers.items()}
    answer = client.post("/api/v1/compact", json={"table": "public.events"}, headers=sent)
    assert answer.status_code == (202 if passes else 403)
    assert passes or answer.json()["code"] == "cross-origin"
    assert len(client.get("/api/v1/jobs").json()["jobs"]) - before == int(passes)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_form_bodies_are_refused(start: Start, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = start().post("/api/v1/compact", content=b'{"table": "public.events"}', headers=headers)
    assert answer.status_code == 415


def test_other_origins_need_a_cors_setting(start: Start) -> None:
    asked = {
        "Origin": "https://console.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    closed = start({"api_keys": KEYS}).options("/api/v1/compact", headers=asked)
    assert "Access-Control-Allow-Origin" not in closed.headers
    client = start({"api_keys": KEYS, "cors_origins": ["https://console.example"]})
    opened = client.options("/api/v1/compact", headers=asked)
    assert opened.headers["Access-Control-Allow-Origin"] == "https://console.example"
    assert "Access-Control-Allow-Credentials" not in opened.headers
    other = client.options("/api/v1/compact", headers={**asked, "Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json", "/api/v1/jobs", "/api/v1/nothing", "/metrics"])
def test_every_response_has_security_headers(start: Start, path: str) -> None:
    for access in ({}, {"api_keys": KEYS}):
        headers = start(access).get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "script-src" not in headers["Content-Security-Policy"]
        assert headers["Cache-Control"].startswith("no-")
        assert "Server" not in headers
        assert "Strict-Transport-Security" not in headers
        assert "Access-Control-Allow-Origin" not in headers
