"""`POST /api/v1/events`: the shapes that it takes, who may send them, and the job that follows."""

import time
from typing import Any

import httpx
import pytest

from tests.builders.api import bearer, code_of, running_service, serving
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.settings.access import AccessSettings, hash_key, new_key
from tidyberg.settings.scheduling import Auto, Events, SchedulerSettings
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "uri:iceberg-catalog-service:host",
    "type": "updateTable",
    "tabular-type": "table",
    "warehouse-id": "w",
    "namespace": "public",
    "name": "events",
}
TAKEN, AGAIN = {"accepted": 1, "duplicates": 0, "ignored": []}, {"accepted": 0, "duplicates": 1, "ignored": []}


@pytest.fixture
def listening(settings: Settings) -> Settings:
    scheduler = SchedulerSettings(
        auto=Auto(max_dollars_per_day=1.0, max_payback_scans=10**9), events=Events(enabled=True, debounce_seconds=0)
    )
    options = settings.compaction.model_copy(update={"min_input_files": 2})
    return settings.model_copy(update={"scheduler": scheduler, "compaction": options})


def test_an_event_in_any_shape_is_taken_and_leads_to_one_job(listening: Settings, warehouse: Warehouse) -> None:
    location = warehouse.catalog.load_table("public.events").metadata_location
    with running_service(listening) as address, httpx.Client(base_url=address, timeout=30) as client:
        structured = {"Content-Type": "application/cloudevents+json"}

        def post(document: Any, headers: dict[str, str] | None = None) -> Any:
            answer = client.post("/api/v1/events", json=document, headers=headers)
            assert answer.status_code == 202, answer.text
            return answer.json()

        assert post(EVENT, structured) == TAKEN
        assert post({}, {f"ce-{name}": value for name, value in EVENT.items()}) == AGAIN
        batch = {"Content-Type": "application/cloudevents-batch+json"}
        assert post([EVENT, {**EVENT, "id": "2", "type": "dropView"}], batch)["ignored"] == [
            "its type 'dropView' does not report a commit"
        ]
        bucket, _, key = location.removeprefix("file:///").partition("/")
        record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
        assert post({"Records": [record]}) == TAKEN
        give_up = time.monotonic() + 60
        while not (jobs := client.get("/api/v1/jobs").json()["jobs"]):
            assert time.monotonic() < give_up
            time.sleep(0.2)
        (job,) = jobs
        assert (job["created_by"], job["namespace"], job["table"]) == ("auto", "public", "events")


def test_senders_are_authenticated_and_need_a_role(listening: Settings) -> None:
    keys = {role: new_key() for role in ("viewer", "operator")}
    access = AccessSettings.model_validate(
        {"api_keys": [{"name": role, "role": role, "hash": hash_key(key)} for role, key in keys.items()]}
    )
    service = build_service(listening.model_copy(update={"access": access}))
    with serving(create_app(service)) as address, httpx.Client(base_url=address, timeout=30) as client:

        def post(role: str, **body: Any) -> httpx.Response:
            headers = bearer(keys[role]) if role else {}
            return client.post("/api/v1/events", headers=headers, **(body or {"json": EVENT}))

        assert code_of(post(""))[0] == 401
        assert code_of(post("viewer"))[0] == 403
        assert post("operator").json() == TAKEN
        assert code_of(post("operator", json={"hello": 1}))[0] == 422
        assert code_of(post("operator", content=b"{"))[0] in (400, 415)
        assert code_of(post("operator", content=b" " * 2**21))[0] == 413
    service.stop()


def test_a_service_takes_no_events_by_default(settings: Settings) -> None:
    service = build_service(settings)
    with serving(create_app(service)) as address:
        answer = httpx.post(f"{address}/api/v1/events", json=EVENT, timeout=30)
    assert code_of(answer)[0] == 403
    assert "scheduler.events.enabled" in answer.text
    service.stop()
