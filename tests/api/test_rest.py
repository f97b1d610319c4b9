"""Plans, tables, schedules, the audit log, metrics and health through the API."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.builders.api import serving
from tests.servers.server import free_port
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.model.principal import LOCAL
from tidyberg.service.service import Service
from tidyberg.settings.sections import Catalog
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse


def test_a_plan_is_shown_and_applied_by_its_hash(client: httpx.Client) -> None:
    plan = client.post("/api/v1/plan", json={"table": "public.events", "options": {"target_file_size": "64MB"}}).json()
    assert (plan["table"], plan["nothing_to_do"], plan["groups"]) == ("events", False, 1)
    assert (plan["estimate"]["input_files"], plan["estimate"]["output_files"]) == (12, 1)
    (partition,) = plan["partitions"]
    assert (partition["verdict"], partition["files"], partition["output_files"]) == ("rewrite", 12, 1)
    applied = client.post(f"/api/v1/plans/{plan['plan_hash']}/apply")
    assert applied.status_code == 202
    job = client.get(applied.headers["location"]).json()
    assert (job["plan_hash"], job["table"]) == (plan["plan_hash"], "events")
    again = client.post(f"/api/v1/plans/{plan['plan_hash']}/apply", json={"priority": 5})
    assert client.get(again.headers["location"]).json()["priority"] == 5


def test_a_plan_with_boundaries_has_a_forecast(client: httpx.Client) -> None:
    options = {"sort": "id", "boundaries": [50, "25"], "small_file_threshold": "1B"}
    plan = client.post("/api/v1/plan", json={"table": "public.events", "options": options}).json()
    assert plan["boundaries"]["asked"] == ["25", "50"]
    assert plan["sort_order"] == "id"
    wrong = client.post("/api/v1/plan", json={"table": "public.events", "options": {**options, "boundaries": ["x"]}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad-sort-order")
    alone = client.post("/api/v1/plan", json={"table": "public.events", "options": {"boundaries": "1"}})
    assert (alone.status_code, alone.json()["code"]) == (422, "bad-input")


def test_plan_shows_why_there_is_nothing_to_do(client: httpx.Client) -> None:
    plan = client.post("/api/v1/plan", json={"table": "public.sales"}, params={"partitions": 0}).json()
    assert plan["nothing_to_do"] is True
    assert (plan["partitions"], plan["partitions_total"]) == ([], 1)


def test_plan_shows_that_starting_spark_takes_longer(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"table": "public.events"}
    assert client.post("/api/v1/plan", json=asked).json()["better_inline"] is False, "it runs inline anyway"
    make = service.control.plan
    monkeypatch.setattr(service.control, "plan", lambda *args: replace(make(*args), better_inline=True))
    assert client.post("/api/v1/plan", json=asked).json()["better_inline"] is True


def test_only_known_plans_can_be_applied(client: httpx.Client) -> None:
    answer = client.post(f"/api/v1/plans/{'0' * 64}/apply")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-plan")


def test_tables_are_listed_with_their_health(client: httpx.Client) -> None:
    tables = client.get("/api/v1/tables").json()
    assert [(one["namespace"], one["table"], one["files"]) for one in tables["tables"]] == [
        ("public", "events", 12),
        ("public", "sales", 3),
    ]
    assert client.get("/api/v1/tables", params={"limit": 1}).json()["total"] == 2
    health = client.get("/api/v1/tables/default/public/events/health").json()
    assert health["score"] < 100
    assert health["small_files"] == health["files"] == 12
    assert "-13: 12 of 12 files are below 32 MB" in health["reasons"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/tables/nowhere/public/events/health", "unknown-catalog"),
        ("/api/v1/tables/default/nowhere/events/health", "unknown-namespace"),
        ("/api/v1/tables/default/public/nothing/health", "unknown-table"),
        ("/api/v1/tables?catalog=nowhere", "unknown-catalog"),
        ("/api/v1/jobs/550e8400-e29b-41d4-a716-446655440000", "unknown-job"),
        ("/api/v1/jobs/550e8400-e29b-41d4-a716-446655440000/events", "unknown-job"),
        ("/api/v1/schedules/nothing", "unknown-schedule"),
    ],
)
def test_unknown_resources_are_not_found(client: httpx.Client, path: str, code: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_schedules_are_created_replaced_and_deleted(client: httpx.Client) -> None:
    body: dict[str, Any] = {"schedule_id": "nightly", "cron": "0 2 * * *", "table": "public.*"}
    created = client.post("/api/v1/schedules", json={**body, "options": {"target_file_size_mb": 256}})
    assert created.status_code == 201, created.text
    assert created.headers["location"] == "/api/v1/schedules/nightly"
    kept = client.get("/api/v1/schedules/nightly").json()
    assert kept == created.json()
    assert (kept["options"], kept["missed"], kept["timezone"]) == ({"target_file_size": 2**28}, "once", "UTC")
    taken = client.post("/api/v1/schedules", json=body)
    assert (taken.status_code, taken.json()["code"]) == (409, "conflict")

    del body["schedule_id"]
    changed = client.put("/api/v1/schedules/nightly", json={**body, "enabled": False, "timezone": "Europe/Berlin"})
    assert (changed.json()["enabled"], changed.json()["options"]) == (False, {})
    made_up = client.post("/api/v1/schedules", json=body).json()["schedule_id"]
    listed = [one["schedule_id"] for one in client.get("/api/v1/schedules").json()["schedules"]]
    assert sorted(listed) == sorted(["nightly", made_up])

    assert client.delete("/api/v1/schedules/nightly").status_code == 204
    assert client.delete("/api/v1/schedules/nightly").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [{"cron": "61 * * * *"}, {"cron": "hourly"}, {"timezone": "Mars/Olympus"}, {"missed": "maybe"}, {"table": ""}],
)
def test_invalid_schedules_are_refused(client: httpx.Client, wrong: dict[str, str]) -> None:
    answer = client.post("/api/v1/schedules", json={"cron": "0 2 * * *", "table": "public.events", **wrong})
    assert answer.status_code == 422, answer.text


def test_the_audit_log_is_read_page_by_page(client: httpx.Client) -> None:
    for _ in range(3):
        client.post("/api/v1/compact", json={"table": "public.events"})
    page = client.get("/api/v1/audit", params={"limit": 2}).json()
    assert [(entry["who"], entry["action"]) for entry in page["entries"]] == [("local", "job.submit")] * 2
    rest = client.get("/api/v1/audit", params={"before": page["next_before"]}).json()
    assert len(rest["entries"]) == 1
    assert rest["next_before"] is None


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/metrics"])
def test_metrics_have_the_contracts_names(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE compaction_jobs_total counter" in answer.text
    for bound in (60, 300, 600):
        assert f'compaction_duration_seconds_bucket{{le="{bound}"}}' in answer.text


def test_calibration_works_before_the_first_job(client: httpx.Client) -> None:
    answer = client.get("/api/v1/calibration").json()
    assert (answer["engine"], answer["speed"]["jobs"], answer["newest"]) == ("inline", 0, [])


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_load_balancers_can_read_health(client: httpx.Client, path: str) -> None:
    assert client.get(path).json()["status"] == "ok"
    assert client.head(path).status_code == 200


@contextmanager
def client_of(settings: Settings) -> Iterator[httpx.Client]:
    service = build_service(settings)
    try:
        with serving(create_app(service)) as url, httpx.Client(base_url=url, timeout=60) as client:
            yield client
    finally:
        service.stop()


def is_unavailable(answer: httpx.Response, code: str) -> bool:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    return bool(answer.json()["code"] == code)


def test_catalog_outage_affects_only_calls_that_need_it(settings: Settings) -> None:
    away = Catalog(type="rest", uri=f"http://127.0.0.1:{free_port()}")
    with client_of(settings.model_copy(update={"catalog": away})) as client:
        assert is_unavailable(client.get("/api/v1/tables"), "catalog-unreachable")
        assert is_unavailable(client.post("/api/v1/plan", json={"table": "public.events"}), "catalog-unreachable")
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"], ready.json()["checks"]["store"]) == (200, "ok", "ok")
        assert ready.json()["checks"]["catalog default"] != "ok"
        assert client.get("/health/live").status_code == 200
        waiting = client.post("/compact", json={"table": "public.events"})
        assert waiting.status_code == 202, "it waits until the catalog is back"
        assert client.get(waiting.headers["location"]).json()["status"] == "queued"


def test_settings_can_make_the_catalog_count_for_readiness(settings: Settings) -> None:
    away = Catalog(type="rest", uri=f"http://127.0.0.1:{free_port()}")
    strict = settings.server.model_copy(update={"ready_needs_catalog": True})
    with client_of(settings.model_copy(update={"catalog": away, "server": strict})) as client:
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")


def test_redis_outage_is_reported(settings: Settings) -> None:
    store = settings.store.model_copy(update={"url": SecretStr(f"redis://:hunter22@127.0.0.1:{free_port()}/0")})
    with client_of(settings.model_copy(update={"store": store})) as client:
        for answer in (
            client.get("/api/v1/jobs"),
            client.get("/api/v1/jobs/x"),
            client.post("/compact", json={"table": "public.events"}),
            client.get("/api/v1/audit"),
        ):
            assert is_unavailable(answer, "store-unreachable")
            assert "hunter22" not in answer.text, "I12"
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["checks"]["catalog default"]) == (503, "ok")
        assert ready.json()["checks"]["store"] != "ok"
        assert client.get("/api/v1/tables").status_code == 200
        assert client.get("/metrics").status_code == 200
        assert client.get("/health/live").status_code == 200


def test_storage_outage_is_reported(client: httpx.Client, warehouse: Warehouse) -> None:
    files = warehouse.directory / "warehouse"
    files.rename(files.with_name("away"))
    answer = client.get("/api/v1/tables/default/public/events/health")
    assert answer.status_code in (500, 503), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/api/v1/jobs").status_code == 200


def test_unexpected_error_is_answered_without_details(
    client: httpx.Client, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("postgres://admin:hunter22@db/ broke")

    monkeypatch.setattr(service, "job", broken)
    answer = client.get("/api/v1/jobs/x")
    assert answer.status_code == 500
    problem = answer.json()
    assert "broke" not in json.dumps(problem)
    assert problem["instance"] in caplog.text
    assert "broke" in caplog.text
    assert "hunter22" not in caplog.text, "I12"


def test_local_service_needs_no_credential(client: httpx.Client, warehouse: Warehouse) -> None:
    job_id = client.post("/compact", json={"table": "public.events"}).json()["job_id"]
    assert client.get(f"/jobs/{job_id}").json()["created_by"] == LOCAL.name
