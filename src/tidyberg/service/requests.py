"""What callers of the service give and get: requests, the view of a job, and whether the service is ready."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidyberg.model.job import Job
from tidyberg.model.submission import Submission


@dataclass(frozen=True)
class SubmitRequest:
    """A table to compact, or to plan for; what is not given comes from the settings."""

    table: str  # "name" or "namespace.name"
    catalog: str | None = None
    namespace: str | None = None
    strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # in any spelling of the contract
    priority: int = 0
    verify: str | None = None
    tenant: str | None = None  # for whom; whoever asks may have to be an admin to name another


@dataclass(frozen=True)
class JobView:
    """A job as the API shows it: what was submitted, and its newest run once there is one."""

    submission: Submission
    run: Job | None = None


@dataclass(frozen=True)
class ReadinessReport:
    """Whether jobs can be taken and run now; each check says "ok" or what is wrong."""

    ok: bool
    checks: Mapping[str, str]


@dataclass(frozen=True)
class ScheduleTimes:
    last_due_ms: int | None  # None: it has not come yet
    next_due_ms: int | None  # None: it is paused
