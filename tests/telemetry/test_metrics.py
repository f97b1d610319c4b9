"""What the metrics count, and that a scrape always works."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.job_records import RUN, SUBMISSION, FixedQueue, as_queue, submission
from tests.builders.metrics import value, values
from tidyberg.model.job import CopyTotals, JobStatus, Progress, SpliceTotals
from tidyberg.model.sizes import MB
from tidyberg.telemetry.metrics import Metrics
from tidyberg.telemetry.store_gauges import StoreGauges


def test_jobs_are_counted_by_status() -> None:
    metrics = Metrics()
    for status in (JobStatus.SUCCEEDED, JobStatus.SUCCEEDED, JobStatus.FAILED):
        metrics.job_ended(submission(status))
    assert value(metrics, "compaction_jobs_total", status="success") == 2
    assert value(metrics, "compaction_jobs_total", status="failed") == 1
    assert value(metrics, "compaction_jobs_total", status="cancelled") == 0
    assert value(metrics, "compactions_succeeded_total") == 2
    assert value(metrics, "compactions_failed_total") == 1


def test_text_matches_the_contract() -> None:
    metrics = Metrics()
    metrics.job_ended(SUBMISSION)
    lines = metrics.render().decode().splitlines()
    assert "# HELP compaction_jobs_total Total number of compaction jobs" in lines
    assert "# TYPE compaction_jobs_total counter" in lines
    assert 'compaction_jobs_total{status="success"} 1' in lines
    assert "# TYPE compaction_duration_seconds histogram" in lines
    assert 'compaction_duration_seconds_bucket{le="60"} 0' in lines
    assert 'compaction_duration_seconds_bucket{le="300"} 1' in lines
    assert 'compaction_duration_seconds_bucket{le="600"} 1' in lines
    assert 'compaction_duration_seconds_bucket{le="+Inf"} 1' in lines
    assert not any("_created" in line for line in lines)


def test_run_counts_files_bytes_dollars_and_prediction_accuracy() -> None:
    metrics = Metrics()
    metrics.job_ended(SUBMISSION, RUN, sizes=(10 * MB, 600 * MB))
    found = values(metrics)
    assert found["files_compacted_total", ()] == 10
    assert found["compaction_bytes_read_total", ()] == 1000
    assert found["compaction_bytes_written_total", ()] == 500
    assert found["compaction_cost_dollars_total", ()] == 0.01
    assert found["compression_ratio_sum", ()] == 2
    assert found["file_size_distribution_bytes_count", ()] == 2
    assert found["file_size_distribution_bytes_sum", ()] == 610 * MB
    for quantity, ratio in (("seconds", 2.0), ("bytes", 1.0), ("dollars", 0.5)):
        assert found["compaction_actual_to_predicted_ratio_sum", (("quantity", quantity),)] == ratio


def test_groups_are_counted_by_mode_and_requests_by_kind() -> None:
    metrics = Metrics()
    assert value(metrics, "compaction_groups_total", mode="copy") == 0  # so that a rate includes the first group
    copied = CopyTotals(groups=2, files=4, bytes=700, bytes_moved=600)
    run = replace(RUN, progress=Progress(1, 1, 5, 5, 10, 1000, 500), copied=copied, requests={"get": 3, "part_copy": 2})
    run = replace(run, spliced=SpliceTotals(groups=1, bytes_spliced=50))
    for _ in range(2):
        metrics.job_ended(SUBMISSION, run)
    assert value(metrics, "compaction_groups_total", mode="copy") == 4
    assert value(metrics, "compaction_groups_total", mode="encode") == 6
    assert value(metrics, "compaction_group_bytes_total", mode="copy") == 1400
    assert value(metrics, "compaction_group_bytes_total", mode="encode") == 2 * (1000 - 100)
    assert value(metrics, "compaction_bytes_moved_total") == 1200
    assert value(metrics, "compaction_bytes_spliced_total") == 100
    assert value(metrics, "compaction_storage_requests_total", kind="part_copy") == 4


def test_only_the_first_claim_counts_as_waiting() -> None:
    metrics = Metrics()
    metrics.job_started(SUBMISSION)
    metrics.job_started(submission(attempts=2))
    assert value(metrics, "compaction_queue_wait_seconds_count") == 1
    assert value(metrics, "compaction_queue_wait_seconds_sum") == 4


def test_jobs_are_counted_by_source() -> None:
    metrics = Metrics()
    for who in ("ada", "schedule:nightly", "auto", "scheduler-fan"):
        metrics.job_submitted(submission(created_by=who))
    for source, count in (("api", 2), ("schedule", 1), ("auto", 1)):
        assert value(metrics, "compaction_jobs_submitted_total", source=source) == count


def test_table_label_is_optional() -> None:
    plain, labelled = Metrics(), Metrics(table_labels=True)
    for metrics in (plain, labelled):
        metrics.job_ended(SUBMISSION, RUN)
    assert "events" not in plain.render().decode()
    assert value(labelled, "compaction_jobs_total", status="success", table="lake.db.events") == 1
    assert value(labelled, "files_compacted_total", table="lake.db.events") == 10


def test_unknown_methods_share_a_label() -> None:
    metrics = Metrics()
    for method in ("GET", "BREW", "WHEN"):
        metrics.http(method, "/health", 200, 0.01)
    assert value(metrics, "http_requests_total", method="OTHER", route="/health", status="200") == 2
    assert value(metrics, "http_request_duration_seconds_count", method="GET", route="/health") == 1


def test_two_registries_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.claim_lost()
    assert value(one, "compaction_claims_lost_total") == 1
    assert value(other, "compaction_claims_lost_total") == 0


def test_process_and_build_metrics_exist() -> None:
    found = {name for name, _ in values(Metrics())}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "tidyberg_build_info"} <= found


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.http("GET", 'a"b\\c\nd', 200, 0.1)
    assert value(metrics, "http_requests_total", method="GET", route='a"b\\c\nd', status="200") == 1


def test_queued_and_running_jobs_come_from_the_store() -> None:
    queue = FixedQueue(
        [
            submission(JobStatus.QUEUED, created_ms=int(time.time() * 1000) - 60_000),
            submission(JobStatus.QUEUED, tenant="b", created_ms=int(time.time() * 1000)),
            submission(JobStatus.RUNNING),
            submission(finished_ms=5_000),
        ]
    )
    metrics = Metrics()
    metrics.watch(as_queue(queue))
    assert queue.asked == 0
    found = values(metrics)
    assert found["pending_compactions", ()] == 2
    assert found["active_compactions", ()] == 1
    assert found["last_compaction_timestamp_seconds", ()] == 5
    assert found["oldest_pending_compaction_age_seconds", ()] == pytest.approx(60, abs=30)
    assert found["tidyberg_store_up", ()] == 1


def test_store_is_read_at_most_once_a_second() -> None:
    now = [10.0]
    queue = FixedQueue()
    gauges = StoreGauges(as_queue(queue), clock=lambda: now[0])
    for _ in range(5):
        list(gauges.collect())
    assert queue.asked == 1
    now[0] += 1.5
    list(gauges.collect())
    assert queue.asked == 2


def test_scrape_works_while_the_store_is_down() -> None:
    metrics = Metrics()
    metrics.watch(as_queue(FixedQueue(failure=ConnectionError("gone"))))
    metrics.job_ended(SUBMISSION)
    found = values(metrics)
    assert found["tidyberg_store_up", ()] == 0
    assert ("pending_compactions", ()) not in found
    assert found["compaction_jobs_total", (("status", "success"),)] == 1


def test_scrape_does_not_wait_for_a_store_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.telemetry.store_gauges._PATIENCE_SECONDS", 0.05)
    answer = threading.Event()

    class Hanging(FixedQueue):
        def counts(self) -> Any:
            self.asked += 1
            answer.wait(30)
            return {}

    queue = Hanging()
    gauges = StoreGauges(as_queue(queue))
    try:
        for _ in range(3):
            assert [family.samples[0].value for family in gauges.collect() if family.name == "tidyberg_store_up"] == [0]
        assert queue.asked == 1  # threads do not pile up
    finally:
        answer.set()


def test_number_of_tenant_labels_is_limited() -> None:
    metrics = Metrics(tenants=("a", "b"))
    waiting = [submission(JobStatus.QUEUED, tenant=tenant) for tenant in ("a", "a", "b", "c", "d")]
    metrics.watch(as_queue(FixedQueue([*waiting, submission(JobStatus.RUNNING, tenant="d")])))
    for number in range(100):
        metrics.job_ended(submission(JobStatus.SUCCEEDED, tenant=f"tenant-{number}"), RUN)
    metrics.job_ended(submission(JobStatus.FAILED, tenant="a"))
    assert value(metrics, "compaction_tenant_jobs_total", tenant="other", status="success") == 100
    assert value(metrics, "compaction_tenant_jobs_total", tenant="a", status="failed") == 1
    assert value(metrics, "compaction_tenant_bytes_read_total", tenant="other") == 100 * RUN.progress.bytes_read
    assert value(metrics, "tenant_pending_compactions", tenant="a") == 2
    assert value(metrics, "tenant_pending_compactions", tenant="other") == 2
    assert value(metrics, "tenant_active_compactions", tenant="other") == 1
    reported = {dict(labels)["tenant"] for _, labels in values(metrics) if "tenant" in dict(labels)}
    assert reported == {"a", "b", "other"}
