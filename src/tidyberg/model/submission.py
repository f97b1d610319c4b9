"""What someone asked the service for: it waits in a queue, is run (again, when a run dies) and ends exactly once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.model.job import JobStatus
from tidyberg.model.left import Outcome
from tidyberg.model.principal import DEFAULT_TENANT as DEFAULT_TENANT
from tidyberg.model.table import TableRef

MIN_PRIORITY, MAX_PRIORITY = -100, 100


@dataclass(frozen=True, slots=True)
class Claim:
    """Which worker has a submission. The token grows with every claim: who holds an older one may change nothing."""

    worker: str
    token: int
    expires_ms: int


@dataclass(frozen=True)
class Submission:
    """A job as the API shows it. Each attempt is a run with a record of its own, `Job`, in the job store."""

    job_id: str
    table: TableRef
    strategy: str
    options: Mapping[str, Any]  # as asked for, checked; settings fill in the rest when it runs
    created_ms: int
    created_by: str  # a principal's name, "schedule:<id>" or "auto"
    tenant: str = DEFAULT_TENANT
    priority: int = 0  # higher ones of a tenant go first
    verify: str | None = None
    plan_hash: str | None = None  # run this very plan, which the store keeps
    status: JobStatus = JobStatus.QUEUED
    not_before_ms: int = 0  # it waits until then, after a failure that may pass
    started_ms: int | None = None
    finished_ms: int | None = None
    estimated_seconds: float | None = None
    estimated_dollars: float | None = None  # None: nothing was planned yet, and the seconds are a guess
    attempts: int = 0
    run_id: str | None = None  # the newest attempt's
    claim: Claim | None = None
    cancel_requested: bool = False
    outcome: Outcome | Literal["nothing"] | None = None  # "nothing": an earlier version did not tell why
    dollars: float | None = None  # what it cost, when it ran
    error_code: str | None = None
    error: str | None = None  # why it failed, or why it waits
    trace: str | None = None  # the trace of the request that asked for it, as W3C's traceparent


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A step of a job for people who watch; numbered from 1 within its job."""

    number: int
    at_ms: int
    kind: Literal["status", "stage", "progress", "notice"]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobNews:
    """How a job is, and its events since one that is known."""

    status: JobStatus
    events: tuple[JobEvent, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may run at once, over all replicas."""

    running: int = 2
    running_per_tenant: int | None = None
    of_tenant: Mapping[str, int] = field(default_factory=dict)  # tenants with a limit of their own

    def for_tenant(self, tenant: str) -> int:
        own = self.of_tenant.get(tenant, self.running_per_tenant)
        return self.running if own is None else min(own, self.running)


@dataclass(frozen=True)
class Query:
    """Which submissions, newest first or oldest first; `cursor` is a page's `next`."""

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
    """A plan that was shown to someone and may be applied by its hash."""

    plan_hash: str
    table: TableRef
    tenant: str
    created_ms: int
    document: str


@dataclass(frozen=True)
class Schedule:
    """When to submit what. Times are those of `timezone`; the table's name may hold wildcards."""

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


@dataclass(frozen=True, slots=True)
class Pause:
    """A table that takes no jobs for a time."""

    table: TableRef
    tenant: str
    paused_by: str
    reason: str
    since_ms: int
    until_ms: int | None = None  # None: until someone resumes it

    def holds_at(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who changed what, when; appended, never changed."""

    number: int  # given by the store
    at_ms: int
    who: str
    tenant: str
    action: str  # such as "job.submit"
    target: str
    outcome: Literal["allowed", "denied", "failed"]
    details: Mapping[str, Any] = field(default_factory=dict)
