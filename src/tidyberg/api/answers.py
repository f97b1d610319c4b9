"""What the API answers about jobs; field names are the REST contract's."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tidyberg.model.job import CompactionStats, JobStatus, Progress, Stage

# Milliseconds since 1970 inside, `2024-01-15T10:00:00Z` outside.
Moment = Annotated[
    int,
    PlainSerializer(lambda moment: moment_text(moment), return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2024-01-15T10:00:00Z"]}),
]


def moment_text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class JobCreatedAnswer(BaseModel):
    """A job that waits."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "job_id": "550e8400-e29b-41d4-a716-446655440000",
                    "status": "queued",
                    "created_at": "2024-01-15T10:00:00Z",
                    "estimated_duration_seconds": 300,
                }
            ]
        }
    )

    job_id: str
    status: JobStatus
    created_at: Moment
    estimated_duration_seconds: int | None = Field(
        description="From a plan, earlier jobs or the newest snapshot; null where nothing is known."
    )


class JobErrorAnswer(BaseModel):
    """Why a job failed, or why it waits for another attempt."""

    code: str | None = Field(description="Stable; programs may rely on it.")
    message: str


class LeftAnswer(BaseModel):
    """Partitions that a job left for one reason."""

    disposition: Literal["waiting", "refused"]
    code: str = Field(description="As in a plan's verdicts; stable.", examples=["hot", "too-few-files"])
    partitions: int
    files: int
    bytes: int = Field(description="Of the partitions.")
    reason: str = Field(description="Of the partition with the most files.")
    until: str | None = Field(description="When it is taken; null: not before the reason is gone.")
    take_now: dict[str, Any] | None = Field(description="Options of a job that takes it at once, where there are any.")


class JobAnswer(BaseModel):
    """A job: what was asked, how far it is, and what came of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "job_id": "550e8400-e29b-41d4-a716-446655440000",
                    "status": "running",
                    "progress": {
                        "partitions_completed": 5,
                        "partitions_total": 10,
                        "files_processed": 150,
                        "bytes_read": 5368709120,
                        "bytes_written": 1073741824,
                    },
                    "started_at": "2024-01-15T10:00:05Z",
                    "estimated_completion": "2024-01-15T10:05:00Z",
                }
            ]
        }
    )

    job_id: str
    status: JobStatus
    progress: Progress
    created_at: Moment
    started_at: Moment | None
    estimated_completion: Moment | None = Field(description="Of a running job, as far as it can be told.")
    estimated_duration_seconds: int | None
    finished_at: Moment | None
    catalog: str
    namespace: str = Field(description="Its levels joined by dots.")
    table: str
    strategy: str
    options: dict[str, Any] = Field(description="As asked for.")
    tenant: str
    created_by: str = Field(description="A principal, `schedule:<id>` or `auto`.")
    priority: int
    verify: str | None
    plan_hash: str | None = Field(description="The plan that was to be applied, or the one that was made.")
    stage: Stage | None = Field(description="What the newest attempt does, or did last.")
    attempts: int
    run_id: str | None = Field(description="The newest attempt's; names of files it wrote contain it.")
    waits_until: Moment | None = Field(description="Of a queued job: when it is tried again.")
    cancel_requested: bool
    outcome: Literal["committed", "partly", "tidy", "waiting", "refused", "nothing"] | None = Field(
        description="`committed`; `partly`: it failed after its first commit; without a commit `tidy`: nothing was"
        " worth a rewrite, `waiting`: there is something, which is taken later, `refused`: there is something that"
        " cannot or must not be touched. `left` says what. `nothing`: of an earlier version, which did not tell why."
    )
    left: list[LeftAnswer] = Field(description="What it found and did not take, also where it committed the rest.")
    stats: CompactionStats | None = Field(description="Of a job that ended.")
    groups_copied: int = Field(description="Groups whose row groups were moved as they are.")
    encoded_instead: dict[str, int] = Field(description="Groups that were to be copied and could not be, by reason.")
    bytes_moved: int = Field(description="Copied inside the object store, never through a worker.")
    bytes_spliced: int = Field(description="Pages moved as they are, undecoded, into files that were encoded.")
    splices_given_up: dict[str, int] = Field(description="Groups that began to be spliced and could not be, by reason.")
    files_joined: int = Field(description="Tiny files that were read many at once, as one file in memory.")
    requests: dict[str, int] = Field(description="Storage requests of its tasks, by kind; empty: not counted.")
    snapshot_id: int | None = Field(description="What it committed; the last one of several.")
    estimated_cost: float | None = Field(description="Dollars.")
    cost: float | None = Field(description="Dollars.")
    notes: list[str]
    error: JobErrorAnswer | None


class JobPageAnswer(BaseModel):
    jobs: list[JobAnswer]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")
