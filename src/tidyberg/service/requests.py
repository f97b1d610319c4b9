"""Arguments and results of the service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidyberg.model.job import Job
from tidyberg.model.submission import COMPACT, Submission


@dataclass(frozen=True)
class SubmitRequest:
    """A table to compact, to plan for or to maintain. Missing values come from the settings."""

    table: str  # "name" or "namespace.name"
    catalog: str | None = None
    namespace: str | None = None
    strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # with any option names of the contract
    priority: int = 0
    verify: str | None = None
    tenant: str | None = None  # only admins may name another tenant
    kind: str = COMPACT


@dataclass(frozen=True)
class JobView:
    """A job as the API shows it: the submission and its newest run."""

    submission: Submission
    run: Job | None = None


@dataclass(frozen=True)
class ReadinessReport:
    """The result of the readiness checks. Each check is "ok" or says what is wrong."""

    ok: bool
    checks: Mapping[str, str]


@dataclass(frozen=True)
class ScheduleTimes:
    last_due_ms: int | None  # None before the first due time
    next_due_ms: int | None  # None if disabled
