"""A job has one trace from its request on, is counted once, and every log line has its id."""

import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest

from tests.builders.metrics import value, values
from tests.builders.services import ended, settings_of, submit, untidy_table
from tests.builders.tracing import KeepingTracer
from tidyberg.app import build_service
from tidyberg.model.job import JobStatus
from tidyberg.model.principal import LOCAL, Principal, Role
from tidyberg.model.submission import Submission
from tidyberg.service.access import Access
from tidyberg.service.service import Service
from tidyberg.settings.access import Tenant
from tidyberg.settings.telemetry import Telemetry
from tidyberg.telemetry.context import about
from tidyberg.telemetry.logs import set_up_logs
from tidyberg.testing import Warehouse

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def run_one(service: Service) -> Submission:
    """Runs a job that a traced request submitted."""
    with service.control.tracer.serving("POST /api/v1/compact", PARENT), about(request_id="r1"):
        asked = submit(service)
    service.start()
    return ended(service, asked.job_id)


def test_a_job_is_one_trace_from_its_request_to_its_tasks(warehouse: Warehouse, service: Service) -> None:
    untidy_table(warehouse)
    tracer = service.control.tracer = KeepingTracer()
    job = run_one(service)
    assert job.status is JobStatus.SUCCEEDED
    assert {
        ("POST /api/v1/compact", "elsewhere"),
        ("compact_table", "POST /api/v1/compact"),
        ("planning", "compact_table"),
        ("execution", "compact_table"),
        ("task", "execution"),
        ("commit", "compact_table"),
    } <= tracer.tree()
    [whole] = tracer.named("compact_table")
    assert whole.context is not None
    assert whole.attributes is not None
    assert format(whole.context.trace_id, "032x") == PARENT[3:35]
    assert (whole.attributes["job_id"], whole.attributes["run_id"]) == (job.job_id, job.run_id)
    assert whole.attributes["tenant"] == job.tenant


def test_a_job_is_counted_once_with_its_files_and_dollars(warehouse: Warehouse, service: Service) -> None:
    untidy_table(warehouse, files=6)
    job = run_one(service)
    service.stop()  # waits until the worker has counted the job
    found = values(service.metrics)
    assert found["compaction_jobs_total", (("status", "success"),)] == 1
    assert found["compaction_jobs_submitted_total", (("source", "api"),)] == 1
    assert found["files_compacted_total", ()] == 6
    assert found["file_size_distribution_bytes_count", ()] == 1
    assert found["compaction_cost_dollars_total", ()] == pytest.approx(job.dollars)
    assert found["compaction_duration_seconds_count", ()] == found["compaction_queue_wait_seconds_count", ()] == 1
    assert found["compaction_actual_to_predicted_ratio_count", (("quantity", "bytes"),)] == 1


def test_scrape_shows_queued_jobs(warehouse: Warehouse, service: Service) -> None:
    untidy_table(warehouse)
    submit(service)
    assert value(service.metrics, "pending_compactions") == 1
    assert value(service.metrics, "active_compactions") == 0
    assert value(service.metrics, "tidyberg_store_up") == 1


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "tidyberg")]
    before = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    yield
    logging.captureWarnings(False)
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.mark.usefixtures("_logs_as_before")
def test_every_log_line_of_a_job_has_its_id(warehouse: Warehouse, make_service: Callable[..., Service]) -> None:
    untidy_table(warehouse)
    stream = io.StringIO()
    set_up_logs(settings_of(warehouse), log_format="json", stream=stream)
    service = make_service()
    job = run_one(service)
    service.stop()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    of_job = [line for line in lines if line["logger"] in ("tidyberg.jobs", "tidyberg.service.attempt")]
    assert any("commit" in line["message"] for line in of_job)
    assert {(line.get("job_id"), line.get("tenant"), line.get("table")) for line in of_job} == {
        (job.job_id, job.tenant, "lab.db.events")
    }


def test_calibration_hides_tables_of_other_tenants(warehouse: Warehouse, service: Service) -> None:
    untidy_table(warehouse)
    job = run_one(service)
    reported = service.calibration(LOCAL)
    assert [each.job.submission_id for each in reported.newest] == [job.job_id]
    assert reported.calibration.jobs == 1
    service.access = Access({"sales": Tenant(namespaces=("sales",))})
    reported = service.calibration(Principal("eve", Role.VIEWER, "sales"))
    assert reported.newest == ()
    assert {each.jobs for each in reported.accuracy} == {0}
    assert reported.calibration.jobs == 1  # speeds are shared by all tenants


def test_metrics_have_a_limited_number_of_tenant_labels(warehouse: Warehouse) -> None:
    settings = settings_of(warehouse).model_copy(
        update={
            "tenants": {name: Tenant(namespaces=(name,)) for name in ("a", "b", "c")},
            "telemetry": Telemetry(max_tenant_labels=3),
        }
    )
    service = build_service(settings)
    try:
        labels = [service.metrics.tenant_label(name) for name in ("default", "a", "b", "c")]
    finally:
        service.stop()
    assert labels == ["default", "a", "b", "other"]
