"""Jobs through the API: the response formats of the contract, and the life of a job."""

import json
import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.builders.services import until
from tidyberg.api.job_answers import estimated_completion, job_answer
from tidyberg.model.job import Job, JobStatus, Progress, Stage
from tidyberg.model.submission import Limits, Submission
from tidyberg.model.table import TableRef
from tidyberg.service.service import Service

CONTRACT = {
    "catalog": "default",
    "namespace": "public",
    "table": "events",
    "strategy": "small_files",
    "options": {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "id = 1"},
}
REFERENCE = TableRef("default", ("public",), "events")


def submit(client: httpx.Client, **body: Any) -> str:
    answer = client.post("/api/v1/compact", json={"table": "public.events", **body})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


def test_submission_response_follows_the_contract(client: httpx.Client) -> None:
    answer = client.post("/api/v1/compact", json=CONTRACT)
    assert answer.status_code == 202
    body = answer.json()
    assert list(body) == ["job_id", "status", "created_at", "estimated_duration_seconds"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", body["job_id"])
    assert body["status"] == "queued"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["created_at"])
    assert isinstance(body["estimated_duration_seconds"], int), "a guess, as long as there is no plan"
    assert answer.headers["location"] == f"/api/v1/jobs/{body['job_id']}"


def test_job_response_follows_the_contract(client: httpx.Client) -> None:
    job_id = submit(client, **CONTRACT)
    body = client.get(f"/api/v1/jobs/{job_id}").json()
    assert body["job_id"] == job_id
    assert body["status"] == "queued"
    contract = {"partitions_completed", "partitions_total", "files_processed", "bytes_read", "bytes_written"}
    assert contract <= set(body["progress"])
    assert body["started_at"] is None
    assert body["estimated_completion"] is None
    assert (body["catalog"], body["namespace"], body["table"]) == ("default", "public", "events")
    asked = {"target_file_size": 2**30, "max_cost": 10.0, "where": "id = 1", "strategy": "small_files"}
    assert body["options"] == asked


@pytest.mark.parametrize("path", ["/compact", "/api/v1/compact"])
def test_only_the_table_is_required(client: httpx.Client, path: str) -> None:
    body = {"table": "sales", "strategy": "time-series", "options": {"target_file_size": "1GB", "max_cost": 10.0}}
    answer = client.post(path, json=body)
    assert answer.status_code == 202, answer.text
    job = client.get(f"/jobs/{answer.json()['job_id']}").json()
    assert (job["namespace"], job["table"], job["strategy"]) == ("public", "sales", "time_series")


def test_a_task_of_airflow_that_posts_by_itself_submits_a_job(client: httpx.Client) -> None:
    """The HTTP operator of Airflow sends this text with this header."""
    data = json.dumps(
        {"table": "sales", "strategy": "time-series", "options": {"target_file_size": "1GB", "max_cost": 10.0}}
    )
    answer = client.post("/api/v1/compact", content=data, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202, answer.text
    assert answer.json()["job_id"]


def test_option_aliases_are_accepted(client: httpx.Client) -> None:
    options = {
        "force": False,
        "target_file_size_mb": 128,
        "max_files": None,
        "partition_filter": None,
        "min_files_to_compact": 3,
    }
    job = client.get(f"/jobs/{submit(client, options=options)}").json()
    assert job["options"] == {"force": False, "target_file_size": 128 * 2**20, "min_input_files": 3}


def test_same_key_returns_the_same_job_and_refuses_a_different_request(client: httpx.Client) -> None:
    def post(table: str) -> httpx.Response:
        return client.post("/api/v1/compact", json={"table": table}, headers={"Idempotency-Key": "nightly-1"})

    first, again, other = post("public.events"), post("public.events"), post("public.sales")
    assert first.json()["job_id"] == again.json()["job_id"]
    assert other.status_code == 422
    assert other.json()["code"] == "idempotency-mismatch"
    assert len(client.get("/api/v1/jobs").json()["jobs"]) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "ü".encode().decode("latin-1")])
def test_invalid_idempotency_keys_are_refused(client: httpx.Client, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = client.post("/compact", json={"table": "public.events"}, headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 422


def test_client_cannot_use_the_key_of_a_schedule(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "schedule:nightly:1700000000000:public.events"}
    assert client.post("/compact", json={"table": "public.events"}, headers=headers).status_code == 422
    assert client.get("/api/v1/jobs").json()["jobs"] == []


def test_jobs_are_filtered_sorted_and_paged(client: httpx.Client, service: Service) -> None:
    events = [submit(client) for _ in range(5)]
    sales = submit(client, table="public.sales")
    client.delete(f"/api/v1/jobs/{events[0]}")

    def found(**parameters: Any) -> list[str]:
        answer = client.get("/api/v1/jobs", params=parameters)
        assert answer.status_code == 200, answer.text
        return [job["job_id"] for job in answer.json()["jobs"]]

    assert found() == [sales, *reversed(events)]
    assert found(sort="created_at") == [*events, sales]
    assert found(table="public.sales") == found(table="sales", namespace="public", catalog="default") == [sales]
    assert found(status="cancelled") == [events[0]]
    assert found(status=["cancelled", "queued"]) == found(status="cancelled,queued") == found()
    assert found(tenant="default") == found()
    assert found(tenant="nobody") == []
    assert found(created_by="local", limit=2) == [sales, events[4]]

    pages, cursor = [], None
    while True:
        page = client.get("/jobs", params={"limit": 4, **({"cursor": cursor} if cursor else {})}).json()
        pages.append([job["job_id"] for job in page["jobs"]])
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == [found()[:4], found()[4:]]


def test_a_queued_job_is_cancelled_at_once(client: httpx.Client) -> None:
    job_id = submit(client)
    assert client.delete(f"/api/v1/jobs/{job_id}").json()["status"] == "cancelled"
    assert client.get(f"/api/v1/jobs/{job_id}").json()["finished_at"] is not None
    assert client.delete(f"/api/v1/jobs/{job_id}").json()["status"] == "cancelled"


def test_running_job_is_marked_for_cancellation(client: httpx.Client, service: Service) -> None:
    job_id = submit(client)
    assert service.records.queue.claim("w", now_ms=service.now_ms(), ttl_ms=60_000, limits=Limits())
    answer = client.delete(f"/api/v1/jobs/{job_id}").json()
    assert (answer["status"], answer["cancel_requested"]) == ("running", True)


def test_cancelling_a_job_that_has_ended_answers_with_its_result(client: httpx.Client, service: Service) -> None:
    service.start()
    job_id = submit(client)
    until(lambda: client.get(f"/api/v1/jobs/{job_id}").json()["finished_at"])
    shown = client.get(f"/api/v1/jobs/{job_id}").json()
    assert shown["snapshot_id"] is not None
    assert client.delete(f"/api/v1/jobs/{job_id}").json() == shown


def submission(**fields: Any) -> Submission:
    return replace(Submission("id", REFERENCE, "auto", {}, created_ms=1000, created_by="local"), **fields)


def run(**fields: Any) -> Job:
    start = Job("id", REFERENCE, "uuid", "main", "auto", {}, JobStatus.RUNNING, Stage.EXECUTE, "inline", 1000)
    return replace(start, **fields)


def test_end_of_a_running_job_is_estimated_from_finished_groups() -> None:
    going = submission(status=JobStatus.RUNNING, started_ms=10_000, estimated_seconds=60.0)
    assert estimated_completion(going, None, 20_000) == 70_000
    assert estimated_completion(going, None, 90_000) == 90_000, "never in the past"
    half = run(started_ms=10_000, progress=Progress(groups_completed=2, groups_total=4))
    assert estimated_completion(going, half, 20_000) == 30_000
    assert estimated_completion(replace(going, estimated_seconds=None), None, 20_000) is None
    assert estimated_completion(submission(estimated_seconds=60.0), None, 20_000) is None, "it waits"


def test_job_that_waits_for_a_retry_shows_why_and_until_when() -> None:
    waits = submission(not_before_ms=5_000, attempts=1, error_code="storage", error="Storage is away.")
    answer = job_answer(waits, None, 2_000).model_dump(mode="json")
    assert answer["waits_until"] == "1970-01-01T00:00:05Z"
    assert answer["error"] == {"code": "storage", "message": "Storage is away."}
    assert job_answer(waits, None, 6_000).waits_until is None


def test_job_shows_the_estimate_of_its_submission(client: httpx.Client) -> None:
    created = client.post("/compact", json={"table": "public.events"}).json()
    assert created["estimated_duration_seconds"] is not None
    job = client.get(f"/jobs/{created['job_id']}").json()
    assert job["estimated_duration_seconds"] == created["estimated_duration_seconds"]
    assert job["estimated_cost"] is None, "which only a plan tells"


def test_estimate_is_in_whole_seconds(client: httpx.Client, service: Service) -> None:
    job_id = submit(client)
    service.records.queue.estimate(job_id, seconds=12.2, dollars=0.5)
    job = client.get(f"/jobs/{job_id}").json()
    assert (job["estimated_duration_seconds"], job["estimated_cost"]) == (13, 0.5)
