"""Every call that changes something leaves an audit entry."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.builders.api import bearer, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.service.service import Service
from tidyberg.settings.access import hash_key, new_key
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

VIEWER, OPERATOR, ADMIN = (new_key() for _ in range(3))
JOB = {"table": "public.events"}
SCHEDULE = {"cron": "0 2 * * *", "table": "public.events"}
# Changes only the plans that the service keeps.
ONLY_LOOK = {("POST", "/api/v1/plan"), ("POST", "/api/v1/expire/plan"), ("POST", "/api/v1/maintain/plan")}
NEW_TABLE = {"operation": "CREATE_TABLE", "table": "users", "schema": {"fields": {"name": {"type": "string"}}}}
REPORT = {"report-type": "scan-report", "table-name": "t", "snapshot-id": 1, "filter": True, "metrics": {}}
EVENT = {"specversion": "1.0", "source": "catalog", "type": "updateTable", "namespace": "public", "name": "events"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("lake")
    keys = [("eve", VIEWER, "viewer"), ("otto", OPERATOR, "operator"), ("ada", ADMIN, "admin")]
    access = {
        "api_keys": [{"name": name, "hash": hash_key(key), "role": role} for name, key, role in keys],
        "job_roles": {"expire": "operator", "maintain": "operator"},
    }
    with Warehouse(directory / "lake", name="default") as warehouse:
        warehouse.append_files(warehouse.create_table("public.events"), 3, 5)
        warehouse.create_table("public.quiet")
        scheduler = {"auto": {"max_dollars_per_day": 5.0}, "events": {"enabled": True}}
        given = {"engine": "inline", "catalog": warehouse.properties, "access": access, "scheduler": scheduler}
        given["operations"] = {"enabled": True}
        service = build_service(Settings.model_validate({**given, "store": {"path": str(directory / "jobs.db")}}))
        yield service
        service.stop()


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        address = stack.enter_context(serving(create_app(service)))
        yield stack.enter_context(httpx.Client(base_url=address, timeout=30))


Trail = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def trail(client: httpx.Client) -> Trail:
    """Returns the entries since the start of the test, the oldest first."""

    def entries() -> list[dict[str, Any]]:
        answer = client.get("/api/v1/audit", headers=bearer(ADMIN), params={"limit": 1000})
        found: list[dict[str, Any]] = answer.json()["entries"]
        return found[::-1]

    before = len(entries())
    return lambda: entries()[before:]


def _job(client: httpx.Client) -> str:
    return str(client.post("/api/v1/compact", json=JOB, headers=bearer(OPERATOR)).json()["job_id"])


def _plan(client: httpx.Client) -> str:
    return str(client.post("/api/v1/plan", json=JOB, headers=bearer(OPERATOR)).json()["plan_hash"])


PAUSE = {"table": "public.quiet", "reason": "migration"}


def _paused(client: httpx.Client) -> str:
    assert client.post("/api/v1/pauses", json=PAUSE, headers=bearer(OPERATOR)).is_success
    return "/api/v1/pauses?table=public.quiet"


def _schedule(client: httpx.Client) -> str:
    return str(client.post("/api/v1/schedules", json=SCHEDULE, headers=bearer(OPERATOR)).json()["schedule_id"])


# For each changing route: the name of the action, a request that succeeds, and one that fails. Events cannot fail:
# those that lead to nothing are accepted and ignored.
CALLS: dict[tuple[str, str], tuple[str, Callable[[httpx.Client], tuple[str, Any]], tuple[str, Any] | None]] = {
    ("POST", "/api/v1/compact"): (
        "job.submit", lambda client: ("/api/v1/compact", JOB), ("/api/v1/compact", {"table": "public.nothing"})),
    ("POST", "/api/v1/expire"): (
        "job.submit", lambda client: ("/api/v1/expire", JOB), ("/api/v1/expire", {"table": "public.nothing"})),
    ("POST", "/api/v1/maintain"): (
        "job.submit", lambda client: ("/api/v1/maintain", JOB), ("/api/v1/maintain", {"table": "public.nothing"})),
    ("POST", "/compact"): (
        "job.submit", lambda client: ("/compact", JOB), ("/compact", {"table": "public.nothing"})),
    ("DELETE", "/api/v1/jobs/{job_id}"): (
        "job.cancel", lambda client: (f"/api/v1/jobs/{_job(client)}", None), ("/api/v1/jobs/nothing", None)),
    ("DELETE", "/jobs/{job_id}"): (
        "job.cancel", lambda client: (f"/jobs/{_job(client)}", None), ("/jobs/nothing", None)),
    ("POST", "/api/v1/plans/{plan_hash}/apply"): (
        "plan.apply", lambda client: (f"/api/v1/plans/{_plan(client)}/apply", None),
        (f"/api/v1/plans/{'0' * 64}/apply", None)),
    ("POST", "/api/v1/schedules"): (
        "schedule.save", lambda client: ("/api/v1/schedules", SCHEDULE),
        ("/api/v1/schedules", {**SCHEDULE, "cron": "61 * * * *"})),
    ("PUT", "/api/v1/schedules/{schedule_id}"): (
        "schedule.save", lambda client: ("/api/v1/schedules/mine", SCHEDULE),
        ("/api/v1/schedules/mine", {**SCHEDULE, "timezone": "Nowhere"})),
    ("DELETE", "/api/v1/schedules/{schedule_id}"): (
        "schedule.delete", lambda client: (f"/api/v1/schedules/{_schedule(client)}", None),
        ("/api/v1/schedules/nothing", None)),
    ("POST", "/api/v1/pauses"): (
        "table.pause", lambda client: ("/api/v1/pauses", PAUSE),
        ("/api/v1/pauses", {**PAUSE, "until": "2020-01-01T00:00:00Z"})),
    ("DELETE", "/api/v1/pauses"): (
        "table.resume", lambda client: (_paused(client), None), ("/api/v1/pauses?table=public.events", None)),
    ("POST", "/api/v1/events"): (
        "event.receive", lambda client: ("/api/v1/events", {**EVENT, "id": "1"}), None),
    ("POST", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"): (
        "scan.report", lambda client: ("/v1/default/namespaces/public/tables/events/metrics", REPORT),
        ("/v1/default/namespaces/public/tables/nothing/metrics", REPORT)),
    ("POST", "/v1/namespaces/{namespace}/tables/{table}/metrics"): (
        "scan.report", lambda client: ("/v1/namespaces/public/tables/quiet/metrics", REPORT),
        ("/v1/namespaces/public/tables/quiet/metrics", {"report-type": "scan-report"})),
    ("POST", "/database"): (
        "table.create", lambda client: ("/database", {**NEW_TABLE, "if_not_exists": True}),
        ("/database", {**NEW_TABLE, "partition_by": ["nothing"]})),
}  # fmt: skip


def changing_routes(client: httpx.Client) -> set[tuple[str, str]]:
    app = client.get("/openapi.json").json()
    found = {(method.upper(), path) for path, operations in app["paths"].items() for method in operations}
    # The OpenAPI document does not contain the short paths of the contract.
    found |= {(method, path.removeprefix("/api/v1")) for method, path in found if "/compact" in path or "/jobs" in path}
    return {(method, path) for method, path in found if method not in ("GET", "HEAD")}


def test_every_changing_route_is_covered(client: httpx.Client) -> None:
    assert changing_routes(client) - ONLY_LOOK == set(CALLS)


@pytest.mark.parametrize("route", CALLS, ids=" ".join)
def test_allowed_call_leaves_an_entry(client: httpx.Client, service: Service, route: Any) -> None:
    action, prepare, _ = CALLS[route]
    path, body = prepare(client)
    before = service.records.ledger.audit(limit=1)
    answer = client.request(route[0], path, json=body, headers=bearer(OPERATOR))
    assert answer.is_success, answer.text
    (entry,) = _since(service, before)
    assert (entry.who, entry.tenant, entry.action, entry.outcome) == ("otto", "default", action, "allowed")
    assert entry.target


@pytest.mark.parametrize("route", CALLS, ids=" ".join)
def test_denied_call_leaves_an_entry(client: httpx.Client, service: Service, route: Any) -> None:
    action, prepare, _ = CALLS[route]
    path, body = prepare(client)
    before = service.records.ledger.audit(limit=1)
    assert client.request(route[0], path, json=body, headers=bearer(VIEWER)).status_code == 403
    (entry,) = _since(service, before)
    assert (entry.who, entry.action, entry.outcome) == ("eve", action, "denied")
    assert entry.details["error"] == "access-denied"


@pytest.mark.parametrize("route", [route for route, call in CALLS.items() if call[2]], ids=" ".join)
def test_failed_call_leaves_an_entry(client: httpx.Client, service: Service, route: Any) -> None:
    action, _, failing = CALLS[route]
    assert failing is not None
    path, body = failing
    before = service.records.ledger.audit(limit=1)
    assert client.request(route[0], path, json=body, headers=bearer(OPERATOR)).is_client_error
    (entry,) = _since(service, before)
    assert (entry.who, entry.action, entry.outcome) == ("otto", action, "failed")


def test_existing_schedule_leaves_an_entry(client: httpx.Client, trail: Trail) -> None:
    body = {**SCHEDULE, "schedule_id": "twice"}
    answers = [client.post("/api/v1/schedules", json=body, headers=bearer(OPERATOR)).status_code for _ in range(2)]
    assert answers == [201, 409]
    assert [entry["outcome"] for entry in trail()] == ["allowed", "failed"]


def _since(service: Service, before: list[Any]) -> list[Any]:
    number = before[0].number if before else 0
    return [entry for entry in service.records.ledger.audit(limit=100) if entry.number > number]


def test_unexpected_error_leaves_an_entry(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("hunter2")

    before = service.records.ledger.audit(limit=1)
    monkeypatch.setattr(service.records.queue, "submit", broken)
    answer = client.post("/api/v1/compact", json=JOB, headers=bearer(OPERATOR))
    assert answer.status_code == 500
    (entry,) = _since(service, before)
    assert (entry.action, entry.outcome) == ("job.submit", "failed")
    assert "hunter2" not in repr(entry) + answer.text


def test_only_admins_read_the_audit_log_and_no_one_changes_it(client: httpx.Client, trail: Trail) -> None:
    _job(client)
    written = trail()
    assert len(written) == 1
    for key in (VIEWER, OPERATOR):
        assert client.get("/api/v1/audit", headers=bearer(key)).status_code == 403
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/api/v1/audit", f"/api/v1/audit/{written[0]['number']}"):
            assert client.request(method, path, headers=bearer(ADMIN)).status_code in (404, 405)
    assert trail() == written


def test_audit_log_has_pages_newest_first(client: httpx.Client) -> None:
    for _ in range(5):
        _job(client)
    numbers, before = [], None
    while True:
        params = {"limit": 2, **({"before": before} if before else {})}
        page = client.get("/api/v1/audit", headers=bearer(ADMIN), params=params).json()
        numbers += [entry["number"] for entry in page["entries"]]
        if (before := page["next_before"]) is None:
            break
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers) >= 5


def test_entries_contain_only_names_of_the_request(client: httpx.Client, trail: Trail) -> None:
    secret = "hunter2-in-a-filter"
    client.post("/api/v1/compact", headers=bearer(OPERATOR), json={**JOB, "options": {"where": f"name = '{secret}'"}})
    assert len(trail()) == 1
    assert secret not in json.dumps(trail())
