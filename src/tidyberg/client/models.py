"""Typed responses of the service.

Unknown fields are ignored, because the server may be newer. The models are separate from those of the server, so that
the client needs no server code. `tidyberg.client` exports `RemoteJob` as `Job`, and the others likewise.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidyberg.model.job import CompactionStats, ExpiryTotals, JobStatus, Progress


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class JobCreated(ResponseModel):
    job_id: str
    status: JobStatus
    created_at: datetime
    estimated_duration_seconds: int | None = None


class JobError(ResponseModel):
    code: str | None = None
    message: str


class RemoteLeftAlone(ResponseModel):
    """Partitions that a job left unchanged, for one reason."""

    disposition: str  # waiting or refused
    code: str
    partitions: int
    files: int
    bytes: int
    reason: str
    until: str | None = None
    take_now: dict[str, Any] | None = None


class RemoteJob(ResponseModel):
    job_id: str
    status: JobStatus
    catalog: str
    namespace: str
    table: str
    strategy: str
    kind: str = "compact"
    created_at: datetime
    created_by: str
    tenant: str
    priority: int = 0
    options: dict[str, Any] = Field(default_factory=dict)
    progress: Progress = Progress()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    estimated_completion: datetime | None = None
    estimated_duration_seconds: int | None = None
    waits_until: datetime | None = None
    stage: str | None = None
    attempts: int = 0
    cancel_requested: bool = False
    outcome: str | None = None  # committed, partly, tidy, waiting, refused
    left: list[RemoteLeftAlone] = Field(default_factory=list)
    stats: CompactionStats | None = None
    expired: ExpiryTotals | None = None
    groups_copied: int = 0
    encoded_instead: dict[str, int] = Field(default_factory=dict)
    bytes_moved: int = 0
    bytes_spliced: int = 0
    splices_given_up: dict[str, int] = Field(default_factory=dict)
    files_joined: int = 0
    requests: dict[str, int] = Field(default_factory=dict)
    worker_memory_bytes: int = 0
    snapshot_id: int | None = None
    plan_hash: str | None = None
    cost: float | None = None
    notes: list[str] = Field(default_factory=list)
    error: JobError | None = None

    @property
    def identifier(self) -> str:
        return f"{self.namespace}.{self.table}"

    @property
    def has_ended(self) -> bool:
        return self.status.is_final


class JobPage(ResponseModel):
    jobs: list[RemoteJob]
    next_cursor: str | None = None


class RemoteEvent(ResponseModel):
    """An event of a job. The last event of a stream has the kind "end"."""

    number: int | None
    kind: str
    data: dict[str, Any]


class RemotePlan(ResponseModel):
    plan_hash: str
    catalog: str
    namespace: str
    table: str
    snapshot_id: int | None
    strategy: str
    health: int
    nothing_to_do: bool
    groups: int
    modes: list[dict[str, Any]] = Field(default_factory=list)
    estimate: dict[str, Any]
    full_rewrite: dict[str, Any] | None = None  # if deletes are merged: what a rewrite of the data files would cost
    partitions: list[dict[str, Any]]
    better_inline: bool = False  # starting Spark would take longer than the whole job on one core


class RemoteExpiryPlan(ResponseModel):
    catalog: str
    namespace: str
    table: str
    nothing_to_do: bool
    cutoff_at: datetime
    snapshots_expired: list[int]
    snapshots_kept: int
    refs_removed: list[str]
    files: dict[str, int]
    warnings: list[str]


class RemoteMaintenancePlan(ResponseModel):
    catalog: str
    namespace: str
    table: str
    snapshot_id: int | None
    nothing_to_do: bool
    dollars: float
    dollars_saved_per_month: float
    steps: list[dict[str, Any]]
    policy: dict[str, Any]
    policy_notes: list[str] = []


class RemoteTable(ResponseModel):
    catalog: str
    namespace: str
    table: str
    files: int | None = None
    bytes: int | None = None
    records: int | None = None
    delete_files: int | None = None
    last_commit_at: datetime | None = None
    error: str | None = None


class TableHealth(ResponseModel):
    catalog: str
    namespace: str
    table: str
    score: int
    reasons: list[str]
    files: int
    small_files: int
    bytes: int
    delete_files: int


class RemoteSchedule(ResponseModel):
    schedule_id: str
    cron: str
    table: str
    kind: str = "compact"
    catalog: str | None = None
    strategy: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    timezone: str = "UTC"
    jitter_seconds: int = 0
    missed: Literal["skip", "once", "all"] = "once"
    enabled: bool = True
    tenant: str | None = None
    priority: int = 0
    # Read only: set by the service.
    source: Literal["settings", "api"] = "api"
    last_due: datetime | None = None
    next_due: datetime | None = None


class RemotePause(ResponseModel):
    """A paused table, which gets no jobs."""

    catalog: str
    namespace: str
    table: str
    tenant: str
    paused_by: str
    reason: str
    since: datetime
    until: datetime | None = None


class Readiness(ResponseModel):
    status: Literal["ok", "unavailable"]
    checks: dict[str, str]
