"""Telemetry over HTTP: metrics by route, request ids, traces and calibration."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.builders.api import Serve
from tests.builders.tracing import KeepingTracer
from tidyberg.model.principal import LOCAL
from tidyberg.service.service import Service

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def counted(client: httpx.Client) -> dict[tuple[str, str, str], float]:
    text = client.get("/metrics").text
    return {
        (sample.labels["method"], sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "http_requests_total"
    }


def test_requests_are_counted_by_template(client: httpx.Client) -> None:
    for number in range(3):
        assert client.get(f"/api/v1/jobs/none-{number}").status_code == 404
    client.get("/jobs/the-short-way")
    client.get("/surely/not/here")
    client.get("/health/live")
    found = counted(client)
    assert found["GET", "/jobs/{job_id}", "404"] == 4
    assert found["GET", "unmatched", "404"] == 1
    assert found["GET", "/health/live", "200"] == 1
    assert counted(client)["GET", "/metrics", "200"] == 1


def test_metrics_are_prometheus_text_under_both_paths(client: httpx.Client) -> None:
    for path in ("/metrics", "/api/v1/metrics"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'compaction_jobs_total{status="success"} 0' in answer.text.splitlines()
        assert 'compaction_duration_seconds_bucket{le="600"} 0' in answer.text.splitlines()
        assert "pending_compactions 0" in answer.text.splitlines()


def test_response_has_the_request_id(client: httpx.Client) -> None:
    assert client.get("/health/live", headers={"X-Request-ID": "mine"}).headers["x-request-id"] == "mine"
    assert len(client.get("/nowhere").headers["x-request-id"]) == 32


def test_a_job_keeps_the_trace_of_its_request(service: Service, serve: Serve) -> None:
    tracer = service.control.tracer = KeepingTracer()
    answer = serve().post("/api/v1/compact", json={"table": "public.events"}, headers={"traceparent": PARENT})
    trace = service.job(answer.json()["job_id"], LOCAL).submission.trace
    [span] = tracer.named("POST /compact")
    assert span.context is not None
    assert trace == f"00-{PARENT[3:35]}-{span.context.span_id:016x}-01"


def test_the_calibration_is_shown(client: httpx.Client) -> None:
    reported = client.get("/api/v1/calibration").json()
    assert reported["engine"] == "inline"
    assert reported["speed"]["jobs"] == 0
    assert [each["quantity"] for each in reported["accuracy"]] == ["seconds", "bytes", "dollars"]
    assert reported["newest"] == []


def test_calibration_compares_finished_jobs(service: Service, client: httpx.Client) -> None:
    service.start()
    job_id = client.post("/api/v1/compact", json={"table": "public.events"}).json()["job_id"]
    with client.stream("GET", f"/api/v1/jobs/{job_id}/events") as events:
        for _ in events.iter_lines():  # ends with the job
            pass
    [job] = client.get("/api/v1/calibration").json()["newest"]
    service.stop()
    assert (job["job_id"], job["table"]) == (job_id, "public.events")
    assert {each["quantity"] for each in job["compared"]} == {"seconds", "bytes", "dollars"}
