"""A request to the service: it waits in a queue, runs (again, if a run dies), and ends exactly once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.model.job import JobStatus
from tidyberg.model.left import Outcome
from tidyberg.model.principal import DEFAULT_TENANT as DEFAULT_TENANT
from tidyberg.model.table import TableRef

MIN_PRIORITY, MAX_PRIORITY = -100, 100
COMPACT = "compact"  # the kind of jobs that rewrite files


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a worker on a submission. Tokens grow, and the queue rejects changes by an older token."""

    worker: str
    token: int
    expires_ms: int


@dataclass(frozen=True)
class Submission:
    """A job as the API shows it. Each attempt is a run that has its own record, `Job`, in the job store."""

    job_id: str
    table: TableRef
    strategy: str  # of other kinds than compact: the name of the kind
    options: Mapping[str, Any]  # the requested ones, checked; the settings add the rest when it runs
    created_ms: int
    created_by: str  # a principal's name, "schedule:<id>" or "auto"
    tenant: str = DEFAULT_TENANT
    priority: int = 0  # higher priorities of a tenant run first
    verify: str | None = None
    plan_hash: str | None = None  # run exactly this stored plan
    status: JobStatus = JobStatus.QUEUED
    not_before_ms: int = 0  # after a transient failure it waits until then
    started_ms: int | None = None
    finished_ms: int | None = None
    estimated_seconds: float | None = None
    estimated_dollars: float | None = None  # None: not planned yet, and the seconds are a guess
    attempts: int = 0
    run_id: str | None = None  # the newest attempt
    claim: Claim | None = None
    cancel_requested: bool = False
    outcome: Outcome | Literal["nothing"] | None = None  # "nothing": written by an earlier version
    dollars: float | None = None  # the actual cost
    error_code: str | None = None
    error: str | None = None  # why it failed or waits
    trace: str | None = None  # the W3C traceparent of the request
    kind: str = COMPACT  # what the job does to the table; service/kinds has them


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of a job for people who watch it. Numbers start at 1 within a job."""

    number: int
    at_ms: int
    kind: Literal["status", "stage", "progress", "notice"]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobNews:
    """The status of a job, and its events after a known one."""

    status: JobStatus
    events: tuple[JobEvent, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits how many jobs may run at once, counted over all replicas."""

    running: int = 2
    running_per_tenant: int | None = None
    of_tenant: Mapping[str, int] = field(default_factory=dict)  # tenants that have their own limit

    def for_tenant(self, tenant: str) -> int:
        own = self.of_tenant.get(tenant, self.running_per_tenant)
        return self.running if own is None else min(own, self.running)


@dataclass(frozen=True)
class Query:
    """Selects submissions. `cursor` is the `next` of the previous page."""

    tenants: frozenset[str] | None = None  # None: all
    statuses: frozenset[JobStatus] | None = None
    table: TableRef | None = None
    created_by: str | None = None
    created_from_ms: int | None = None
    newest_first: bool = True
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True)
class SubmissionPage:
    submissions: tuple[Submission, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan that the API returned. It can be applied by its hash."""

    plan_hash: str
    table: TableRef
    tenant: str
    created_ms: int
    document: str


@dataclass(frozen=True)
class Schedule:
    """Submits jobs at the times of a cron line in `timezone`. The table may be a pattern with wildcards."""

    schedule_id: str
    cron: str
    catalog: str | None
    table: str  # "namespace.name", or a pattern
    strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    timezone: str = "UTC"
    jitter_seconds: int = 0
    missed: Literal["skip", "once", "all"] = "once"
    enabled: bool = True
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    source: Literal["settings", "api"] = "api"
    created_ms: int = 0
    updated_ms: int = 0
    kind: str = COMPACT
    has_own_options: bool = True  # False: of an entry under `tables:`, whose options a job reads when it runs


@dataclass(frozen=True, slots=True)
class Pause:
    """A table on which no job may run for some time."""

    table: TableRef
    tenant: str
    paused_by: str
    reason: str
    since_ms: int
    until_ms: int | None = None  # None: until somebody resumes it

    def holds_at(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log: who did what, and when. Entries are never changed."""

    number: int  # the store assigns it
    at_ms: int
    who: str
    tenant: str
    action: str  # such as "job.submit"
    target: str
    outcome: Literal["allowed", "denied", "failed"]
    details: Mapping[str, Any] = field(default_factory=dict)
