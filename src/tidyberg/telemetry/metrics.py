"""The Prometheus metrics of a service: one registry per process, no globals, no unbounded labels."""

import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from tidyberg._version import __version__
from tidyberg.model.accuracy import accuracies
from tidyberg.model.expiry import EXPIRE
from tidyberg.model.job import Job, JobStatus
from tidyberg.model.sizes import GB, MB
from tidyberg.model.submission import COMPACT, DEFAULT_TENANT, Submission
from tidyberg.record.queue import JobQueue
from tidyberg.telemetry.exposition import as_text
from tidyberg.telemetry.store_gauges import StoreGauges

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER_TENANTS: Final = "other"
UNMATCHED: Final = "unmatched"  # the route label of a request that matches no route

_STATUS_LABEL: Mapping[JobStatus, str] = {
    JobStatus.SUCCEEDED: "success",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELLED: "cancelled",
}
_OUTCOMES = ("committed", "partly", "tidy", "waiting", "refused")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_DURATIONS = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
_WAITS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400)
_FILE_SIZES = (1 * MB, 8 * MB, 32 * MB, 64 * MB, 128 * MB, 256 * MB, 384 * MB, 512 * MB, 768 * MB, 1 * GB, 2 * GB)
_COMPRESSIONS = (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
_RATIOS = (0.1, 0.25, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10)
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


_M = TypeVar("_M", Counter, Histogram)


def _of(metric: _M, table: tuple[str, ...]) -> _M:
    return metric.labels(*table) if table else metric


class Metrics:
    """Metrics of a service. Safe to call from any thread. With `table_labels`, job metrics have a table label."""

    def __init__(
        self,
        *,
        table_labels: bool = False,
        tenants: Iterable[str] = (DEFAULT_TENANT,),
        kinds: Iterable[str] = (COMPACT, EXPIRE),
    ) -> None:
        """`tenants` get their own label value. All other tenants share `other`. `kinds` are those of jobs."""
        self.registry = CollectorRegistry(auto_describe=False)
        self._tenants = frozenset(tenants)
        self._kinds = tuple(kinds)
        self._table_labels = table_labels
        self._define_jobs(("table",) if table_labels else ())
        self._define_tenants()
        self._define_kinds()
        self._define_service()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def _define_jobs(self, table: tuple[str, ...]) -> None:
        def counter(name: str, description: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, description, labels, registry=self.registry)

        def histogram(name: str, description: str, buckets: Iterable[float], labels: tuple[str, ...] = ()) -> Histogram:
            return Histogram(name, description, labels, buckets=tuple(buckets), registry=self.registry)

        self._jobs = counter("compaction_jobs_total", "Total number of compaction jobs", ("status", *table))
        self._duration = histogram("compaction_duration_seconds", "Compaction job duration", _DURATIONS, table)
        self._files = counter("files_compacted_total", "Total files compacted", table)
        self._bytes_read = counter("compaction_bytes_read_total", "Bytes of the files that jobs read", table)
        self._bytes_written = counter("compaction_bytes_written_total", "Bytes of the files that jobs wrote", table)
        self._cost = counter("compaction_cost_dollars_total", "Dollars that jobs cost: requests and compute", table)
        self._groups = counter("compaction_groups_total", "Rewritten file groups, by mode", ("mode",))
        self._group_bytes = counter(
            "compaction_group_bytes_total", "Bytes of the files in rewritten groups, by mode", ("mode",)
        )
        self._moved = counter("compaction_bytes_moved_total", "Bytes that the object store copied itself")
        self._spliced = counter(
            "compaction_bytes_spliced_total", "Bytes of pages copied without decoding into encoded files"
        )
        self._requests = counter("compaction_storage_requests_total", "Storage requests of jobs, by kind", ("kind",))
        self._succeeded = counter("compactions_succeeded_total", "Compaction jobs that succeeded")
        self._failed = counter("compactions_failed_total", "Compaction jobs that failed")
        self._outcomes = counter("compaction_outcomes_total", "Jobs that succeeded, by outcome", ("outcome",))
        self._submitted = counter(
            "compaction_jobs_submitted_total", "Submitted compaction jobs, by source", ("source",)
        )
        self._sizes = histogram("file_size_distribution_bytes", "Sizes of the files that jobs wrote", _FILE_SIZES)
        self._compression = histogram(
            "compression_ratio", "Bytes read per byte written, of jobs that committed", _COMPRESSIONS
        )
        self._accuracy = histogram(
            "compaction_actual_to_predicted_ratio",
            "Actual divided by predicted, per job",
            _RATIOS,
            ("quantity",),
        )
        self._wait = histogram("compaction_queue_wait_seconds", "Seconds that jobs waited before they started", _WAITS)
        self._retries = counter(
            "compaction_retries_total", "Runs that failed with a transient error and were queued again"
        )
        self._takeovers = counter("compaction_takeovers_total", "Jobs taken over from a worker that stopped responding")
        self._claims_lost = counter(
            "compaction_claims_lost_total", "Jobs whose claim this process lost to another worker"
        )
        self._commit_retries = counter("compaction_commit_retries_total", "Commit attempts that lost a race")
        self._conflicts = counter(
            "compaction_conflicts_total", "File groups dropped because other writers changed their files"
        )
        if not table:
            for status in _STATUS_LABEL.values():
                self._jobs.labels(status)  # starts at 0, so that a rate includes the first job
        for mode in ("copy", "encode"):
            self._groups.labels(mode)
            self._group_bytes.labels(mode)
        for outcome in _OUTCOMES:
            self._outcomes.labels(outcome)
        for source in ("api", "schedule", "auto"):
            self._submitted.labels(source)

    def _define_tenants(self) -> None:
        """Defines separate metrics per tenant, so that the others keep their labels."""

        def counter(name: str, description: str, *more: str) -> Counter:
            return Counter(f"compaction_tenant_{name}", description, ("tenant", *more), registry=self.registry)

        self._tenant_jobs = counter("jobs_total", "Jobs that ended, by tenant", "status")
        self._tenant_cost = counter("cost_dollars_total", "Dollars that jobs cost, by tenant")
        self._tenant_read = counter("bytes_read_total", "Bytes that jobs read, by tenant")

    def _define_kinds(self) -> None:
        """Defines metrics of all kinds of jobs. Those with "compaction" in their names do not count other kinds."""

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"tidyberg_{name}", description, labels, registry=self.registry)

        self._kind_jobs = counter("jobs_total", "Jobs that ended, by kind and status", "kind", "status")
        self._kind_seconds = Histogram(
            "tidyberg_job_duration_seconds",
            "Job duration, by kind",
            ("kind",),
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self._expired = counter("snapshots_expired_total", "Snapshots that jobs expired")
        self._deleted_files = counter("files_deleted_total", "Files of expired snapshots that jobs deleted")
        self._deleted_bytes = counter("bytes_deleted_total", "Bytes of the files that jobs deleted")
        for kind in self._kinds:
            for status in _STATUS_LABEL.values():
                self._kind_jobs.labels(kind, status)

    def tenant_label(self, tenant: str) -> str:
        return tenant if tenant in self._tenants else OTHER_TENANTS

    def _define_service(self) -> None:
        registry = self.registry
        self._http = Counter(
            "http_requests_total", "HTTP requests answered", ("method", "route", "status"), registry=registry
        )
        self._http_seconds = Histogram(
            "http_request_duration_seconds",
            "Seconds until the response started",
            ("method", "route"),
            buckets=_REQUESTS,
            registry=registry,
        )
        self._connections = Gauge("http_connections", "Open connections", registry=registry)
        self._streams = Gauge("http_streams", "Open event streams", registry=registry)
        self._shed = Counter(
            "http_connections_shed_total",
            "Idle connections that were closed (idle), and requests that were refused before they were read",
            ("reason",),
            registry=registry,
        )
        for reason in ("idle", "address", "full", "lag", "wait"):
            self._shed.labels(reason)
        self._fired = Counter(
            "compaction_schedules_fired_total", "Due times of schedules that were handled", registry=registry
        )
        self._missed = Counter(
            "compaction_schedules_missed_total", "Due times of schedules that were missed", registry=registry
        )
        self._starved = Counter(
            "compaction_schedules_starved_total",
            "Jobs of schedules and auto that left a table waiting, like several before them",
            registry=registry,
        )
        self._paused_jobs = Counter(
            "compaction_schedules_paused_total",
            "Due times of schedules that were skipped because the table is paused",
            registry=registry,
        )
        self._store_errors = Counter("tidyberg_store_errors_total", "Failed calls of the job store", registry=registry)
        self._notices = Counter(
            "tidyberg_notifications_total",
            "Notifications to webhooks, by outcome",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("sent", "failed", "dropped"):
            self._notices.labels(outcome)
        self._skew = Gauge(
            "tidyberg_clock_skew_seconds",
            "Seconds that the local clock is ahead of the clock of the shared store",
            registry=registry,
        )
        build = Gauge("tidyberg_build_info", "The running version", ("version", "python"), registry=registry)
        build.labels(__version__, platform.python_version()).set(1)

    def watch(
        self,
        queue: JobQueue,
        check_write: Callable[[], None] = lambda: None,
        paused: Callable[[], int] | None = None,
    ) -> None:
        """Adds gauges that are read from the store: queued, running and paused work, and whether it accepts writes."""
        self.registry.register(
            StoreGauges(queue, check_write=check_write, paused=paused, tenant_label=self.tenant_label)
        )

    def render(self) -> bytes:
        return as_text(self.registry)

    def job_submitted(self, submission: Submission) -> None:
        """Counts a new compaction, not a repeated idempotency key."""
        if submission.kind != COMPACT:
            return
        source = submission.created_by.partition(":")[0]
        self._submitted.labels(source if source in ("schedule", "auto") else "api").inc()

    def job_started(self, submission: Submission) -> None:
        """Records the waiting time when a worker claims a job for the first time."""
        if submission.attempts <= 1 and submission.started_ms is not None:
            self._wait.observe(max(0, submission.started_ms - submission.created_ms) / 1000)

    def job_ended(self, submission: Submission, run: Job | None = None, sizes: Iterable[int] = ()) -> None:
        """Counts a job that ended in this process, with its last run and the sizes of the committed files."""
        status, tenant = _STATUS_LABEL[submission.status], self.tenant_label(submission.tenant)
        self._kind_jobs.labels(submission.kind, status).inc()
        self._tenant_jobs.labels(tenant, status).inc()
        seconds = None
        if submission.started_ms is not None and submission.finished_ms is not None:
            seconds = max(0, submission.finished_ms - submission.started_ms) / 1000
            self._kind_seconds.labels(submission.kind).observe(seconds)
        if run is not None:
            self._tenant_cost.labels(tenant).inc(run.actual_dollars or 0.0)
            self._tenant_read.labels(tenant).inc(run.progress.bytes_read)
            if run.expired is not None:
                self._expired.inc(run.expired.snapshots_expired)
                self._deleted_files.inc(run.expired.files_deleted)
                self._deleted_bytes.inc(run.expired.bytes_deleted)
        if submission.kind == COMPACT:
            self._compaction_ended(submission, run, sizes, seconds)

    def _compaction_ended(
        self, submission: Submission, run: Job | None, sizes: Iterable[int], seconds: float | None
    ) -> None:
        table = (f"{submission.table.catalog}.{submission.table}",) if self._table_labels else ()
        self._jobs.labels(_STATUS_LABEL[submission.status], *table).inc()
        if submission.status is JobStatus.SUCCEEDED:
            self._succeeded.inc()
            if submission.outcome in _OUTCOMES:
                self._outcomes.labels(submission.outcome).inc()
        elif submission.status is JobStatus.FAILED:
            self._failed.inc()
        if seconds is not None:
            _of(self._duration, table).observe(seconds)
        for size in sizes:
            self._sizes.observe(size)
        if run is not None:
            self._count_run(run, table)

    def _count_run(self, run: Job, table: tuple[str, ...]) -> None:
        if run.commits and run.stats is not None:
            _of(self._files, table).inc(run.stats.files_compacted)
        _of(self._bytes_read, table).inc(run.progress.bytes_read)
        _of(self._bytes_written, table).inc(run.progress.bytes_written)
        _of(self._cost, table).inc(run.actual_dollars or 0.0)
        self._count_modes(run)
        if run.commits and run.progress.bytes_written:
            self._compression.observe(run.progress.bytes_read / run.progress.bytes_written)
        self._commit_retries.inc(run.commit_retries)
        self._conflicts.inc(run.conflicts)
        for accuracy in accuracies(run):
            self._accuracy.labels(accuracy.quantity).observe(accuracy.ratio)

    def _count_modes(self, run: Job) -> None:
        progress, copied = run.progress, run.copied
        self._groups.labels("copy").inc(copied.groups)
        self._groups.labels("encode").inc(progress.groups_completed - copied.groups)
        self._group_bytes.labels("copy").inc(copied.bytes)
        # Bytes of copied files were read only if the store did not copy them itself.
        self._group_bytes.labels("encode").inc(max(0, progress.bytes_read - (copied.bytes - copied.bytes_moved)))
        self._moved.inc(copied.bytes_moved)
        self._spliced.inc(run.spliced.bytes_spliced)
        for kind, number in run.requests.items():
            self._requests.labels(kind).inc(number)

    def job_retried(self) -> None:
        self._retries.inc()

    def job_taken_over(self) -> None:
        self._takeovers.inc()

    def claim_lost(self) -> None:
        self._claims_lost.inc()

    def http(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request. `route` is a template such as /jobs/{job_id}, never the path."""
        known = method if method in _METHODS else "OTHER"
        self._http.labels(known, route, str(status)).inc()
        self._http_seconds.labels(known, route).observe(seconds)

    def count_connections(self, number: Callable[[], int]) -> None:
        """Sets the function that returns the number of open connections."""
        self._connections.set_function(number)

    def count_streams(self, number: Callable[[], int]) -> None:
        self._streams.set_function(number)

    def connection_shed(self, reason: str) -> None:
        self._shed.labels(reason).inc()

    def schedule_fired(self, times: int = 1) -> None:
        self._fired.inc(times)

    def schedule_missed(self, times: int = 1) -> None:
        self._missed.inc(times)

    def schedule_starved(self) -> None:
        self._starved.inc()

    def paused(self) -> None:
        """Counts a job that was not submitted because its table is paused."""
        self._paused_jobs.inc()

    def notified(self, outcome: str) -> None:
        self._notices.labels(outcome).inc()

    def clock_differs(self, seconds: float) -> None:
        self._skew.set(seconds)

    def store_failed(self) -> None:
        self._store_errors.inc()
