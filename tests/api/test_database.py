"""POST /database: the sequence of the contract, who may do what, and no way to another tenant."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.api import bearer, running_service
from tests.builders.table_operations import USERS
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

ACME, OTHER, READER, ADMIN = (new_key() for _ in range(4))
TENANTS = 100 if os.environ.get("TEST_LONG") else 10
THREADS = 20
STATISTICS = {"files_before", "files_after", "files_compacted", "files_removed", "bytes_before", "bytes_after",
              "bytes_saved", "snapshots_expired", "compaction_time_ms", "small_files_remaining"}  # fmt: skip

Ask = Callable[..., httpx.Response]


def settings_of(directory: Path, lake: Warehouse, **more: Any) -> Settings:
    values = {
        "engine": "inline",
        "catalog": lake.properties,
        "store": {"path": str(directory / "jobs.db")},
        "operations": {"enabled": True},
        "queue": {"poll_seconds": 0.1},
        **more,
    }
    return Settings.model_validate(values)


@pytest.fixture(scope="module")
def open_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service on the loopback interface, without keys."""
    directory = tmp_path_factory.mktemp("open")
    with (
        Warehouse(directory / "lake", name="default") as lake,
        running_service(settings_of(directory, lake)) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A service with two tenants. One of them owns every namespace by a pattern."""
    directory = tmp_path_factory.mktemp("closed")
    keys = [("ann", ACME, "operator", "acme"), ("bob", OTHER, "operator", "other"), ("cam", READER, "viewer", "acme"),
            ("ada", ADMIN, "admin", None)]  # fmt: skip
    access = {
        "api_keys": [
            {"name": name, "hash": hash_key(key), "role": role, "tenant": tenant} for name, key, role, tenant in keys
        ]
    }
    tenants = {"acme": {"namespaces": ["sales"]}, "other": {"namespaces": ["*"]}}
    with (
        Warehouse(directory / "lake", name="default") as lake,
        running_service(settings_of(directory, lake, access=access, tenants=tenants)) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):

        def call(key: str, operation: str, **fields: Any) -> httpx.Response:
            body = {"operation": operation, "table": "users", **fields}
            return client.post("/database", json=body, headers=bearer(key))

        call.client = client  # type: ignore[attr-defined]
        assert call(ACME, "CREATE_TABLE", schema=USERS).status_code == 200
        assert call(ACME, "WRITE", records=[{"name": "secret", "age": 1}]).status_code == 200
        yield call


def test_the_sequence_of_the_contract_passes(open_client: httpx.Client) -> None:
    def post(**body: Any) -> Any:
        table = {"tenant_id": "test-tenant", "namespace": "default", "table": "test_users"}
        answer = open_client.post("/database", json={**table, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert open_client.get("/health").json()["status"] == "ok"
    assert open_client.post("/database", json={"operation": "HEALTH"}).json()["success"] is True
    post(operation="CREATE_TABLE", schema=USERS, if_not_exists=True)
    answers = [post(operation="WRITE", records=[{"name": f"User-{i}", "age": 20 + i}]) for i in range(1, 6)]
    assert [answer["compaction_recommended"] for answer in answers] == [False] * 4 + [True]
    assert answers[-1]["small_files_count"] == 5
    before = post(operation="QUERY", sql="SELECT * FROM test_users ORDER BY age")["records"]
    answer = post(operation="COMPACT", force=True, expire_snapshots=False)
    assert answer["compacted"] is True
    assert set(answer["stats"]) == STATISTICS
    assert (answer["stats"]["files_before"], answer["stats"]["files_after"]) == (5, 1)
    assert post(operation="QUERY", sql="SELECT * FROM test_users ORDER BY age")["records"] == before
    assert [row["age"] for row in before] == [21, 22, 23, 24, 25]
    nothing = post(operation="COMPACT")
    assert (nothing["compacted"], bool(nothing["message"])) == (False, True)


def test_many_tenants_at_once_never_see_each_other(open_client: httpx.Client) -> None:
    """Every tenant has a table of the same name. TEST_LONG runs a hundred of them."""
    barrier = threading.Barrier(min(TENANTS, THREADS))

    def live(number: int) -> tuple[int, list[int]]:
        def post(**body: Any) -> Any:
            whole = {"tenant_id": f"Tenant-{number}", "namespace": "shop", "table": "orders", **body}
            while (answer := open_client.post("/database", json=whole)).status_code == 503:
                pass
            assert answer.status_code == 200, answer.text
            return answer.json()

        if number < barrier.parties:
            barrier.wait()
        post(operation="CREATE_TABLE", schema={"fields": {"owner": {"type": "integer"}}}, if_not_exists=True)
        for _ in range(3):
            post(operation="WRITE", records=[{"owner": number}])
        if number % 2:
            post(operation="COMPACT", force=True)
        return number, [row["owner"] for row in post(operation="QUERY", columns=["owner"])["records"]]

    with ThreadPoolExecutor(THREADS) as pool:
        for number, owners in pool.map(live, range(TENANTS)):
            assert owners == [number] * 3


@pytest.mark.parametrize("tenant", ["acme", "Acme", "acme.", "../acme", "acme__default", "ａcme", "acme\u200b", "*"])
def test_a_spoofed_tenant_is_refused(ask: Ask, tenant: str) -> None:
    for operation, fields in (
        ("QUERY", {"columns": ["name"]}),
        ("WRITE", {"records": [{"name": "x"}]}),
        ("CREATE_TABLE", {"schema": USERS}),
        ("COMPACT", {"force": True}),
    ):
        answer = ask(OTHER, operation, tenant_id=tenant, **fields)
        assert answer.status_code == 403, answer.text
        assert answer.json()["success"] is False
        assert "secret" not in answer.text


def test_a_namespace_cannot_lead_to_another_tenant(ask: Ask) -> None:
    for namespace in ("tenant_acme__default", "acme__default", "..", "default.x", "../acme", "a/b"):
        answer = ask(OTHER, "QUERY", namespace=namespace, columns=["name"])
        assert answer.status_code in (404, 422), answer.text
    sql = 'SELECT * FROM users, "tenant_acme__default"."users"'
    assert ask(OTHER, "CREATE_TABLE", schema=USERS, if_not_exists=True).status_code == 200
    assert ask(OTHER, "QUERY", sql=sql).status_code == 422


def test_a_pattern_for_all_namespaces_does_not_include_tables_of_other_tenants(ask: Ask) -> None:
    client: httpx.Client = ask.client  # type: ignore[attr-defined]
    path = "/api/v1/tables/default/tenant_acme__default/users/health"
    assert client.get(path, headers=bearer(OTHER)).status_code == 403
    assert client.get(path, headers=bearer(ACME)).status_code == 200
    shown = client.get("/api/v1/tables", headers=bearer(OTHER)).json()["tables"]
    assert "tenant_acme__default" not in {table["namespace"] for table in shown}
    job = {"table": "tenant_acme__default.users"}
    assert client.post("/compact", json=job, headers=bearer(OTHER)).status_code == 403


def test_the_role_decides(ask: Ask) -> None:
    assert ask(READER, "QUERY", columns=["name"]).json()["records"] == [{"name": "secret"}]
    for operation, fields in (
        ("WRITE", {"records": [{"name": "x"}]}),
        ("CREATE_TABLE", {"schema": USERS}),
        ("COMPACT", {}),
    ):
        answer = ask(READER, operation, **fields)
        assert answer.status_code == 403
        assert "viewer" in answer.json()["error"]
    answer = ask(ACME, "COMPACT", expire_snapshots=True, snapshot_retention_hours=168)
    assert (answer.status_code, "expire need an admin" in answer.json()["error"]) == (403, True)


def test_an_admin_names_a_known_tenant(ask: Ask) -> None:
    assert ask(ADMIN, "QUERY", tenant_id="acme", columns=["name"]).json()["row_count"] == 1
    assert "tenant_id" in ask(ADMIN, "QUERY", columns=["name"]).json()["error"]
    assert ask(ADMIN, "CREATE_TABLE", tenant_id="typo", schema=USERS).status_code == 422
    done = ask(ADMIN, "COMPACT", tenant_id="acme", expire_snapshots=True, snapshot_retention_hours=168)
    assert done.status_code == 200, done.text


def test_calls_without_a_key_are_refused_in_the_envelope(ask: Ask) -> None:
    client: httpx.Client = ask.client  # type: ignore[attr-defined]
    answer = client.post("/database", json={"operation": "HEALTH"})
    assert (answer.status_code, answer.json()["success"]) == (401, False)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_changes_are_audited(ask: Ask) -> None:
    client: httpx.Client = ask.client  # type: ignore[attr-defined]
    ask(OTHER, "WRITE", tenant_id="acme", records=[{"name": "x"}])
    entries = client.get("/api/v1/audit", headers=bearer(ADMIN), params={"limit": 100}).json()["entries"]
    found = {(entry["action"], entry["who"], entry["outcome"]) for entry in entries}
    assert {("table.create", "ann", "allowed"), ("table.write", "ann", "allowed")} <= found
    assert ("table.write", "bob", "denied") in found


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b'{"operation": "WRITE", "records": [{"a": NaN}]}', 400),
        (b'{"operation": "WRITE", "records": [{"a": 1' + b"0" * 400 + b"}]}", 400),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", 400),
        (b"[]", 422),
        (b'{"operation": "NOPE"}', 422),
        (b'{"a": "' + b"x" * 2_000_000 + b'"}', 413),
        (b"", 422),
    ],
    ids=str,
)
def test_a_wrong_body_is_refused_in_the_envelope(open_client: httpx.Client, content: bytes, status: int) -> None:
    answer = open_client.post("/database", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()["success"] is False
    assert answer.json()["error"]


def test_a_text_body_is_refused_in_the_envelope(open_client: httpx.Client) -> None:
    answer = open_client.post("/database", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["success"]) == (415, False)
    answer = open_client.post("/database?x=1", json={"operation": "HEALTH"})
    assert (answer.status_code, answer.json()["success"]) == (422, False)


def test_a_service_without_the_setting_has_no_table_operations(shared_client: httpx.Client) -> None:
    answer = shared_client.post("/database", json={"operation": "HEALTH"})
    assert (answer.status_code, answer.json()["success"]) == (404, False)
    assert "operations.enabled" in answer.json()["error"]


def test_a_compaction_that_takes_too_long_answers_with_its_job(tmp_path: Path) -> None:
    with Warehouse(tmp_path / "lake", name="default") as lake:
        settings = settings_of(
            tmp_path, lake, queue={"workers": 0}, operations={"enabled": True, "compact_wait_seconds": 0.2}
        )
        with running_service(settings) as address, httpx.Client(base_url=address, timeout=60) as client:
            table = {"tenant_id": "acme", "table": "users"}
            client.post("/database", json={"operation": "CREATE_TABLE", **table, "schema": USERS})
            answer = client.post("/database", json={"operation": "COMPACT", **table})
            assert (answer.status_code, answer.json()["compacted"]) == (202, False)
            job = client.get(f"/api/v1/jobs/{answer.json()['job_id']}").json()
            assert job["status"] == "queued"
