"""Response models for jobs. The field names are part of the REST contract."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from tidyberg.model.job import CompactionStats, ExpiryTotals, JobStatus, Progress, Stage

# Milliseconds since 1970 in Python, `2024-01-15T10:00:00Z` in JSON.
Moment = Annotated[
    int,
    PlainSerializer(lambda moment: moment_text(moment), return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2024-01-15T10:00:00Z"]}),
]


def moment_text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class JobCreatedAnswer(BaseModel):
    """A job that was queued."""

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
        description="Estimated from a plan, earlier jobs or the newest snapshot; null if there is no estimate."
    )


class JobErrorAnswer(BaseModel):
    """Why a job failed, or why it waits for another attempt."""

    code: str | None = Field(description="A stable code for programs.")
    message: str


class LeftAnswer(BaseModel):
    """Partitions that a job left unchanged, for one reason."""

    disposition: Literal["waiting", "refused"]
    code: str = Field(description="A stable code, as in the verdicts of a plan.", examples=["hot", "too-few-files"])
    partitions: int
    files: int
    bytes: int = Field(description="Size of these partitions.")
    reason: str = Field(description="The reason for the partition with the most files.")
    until: str | None = Field(description="When a job will rewrite it; null: when the reason no longer holds.")
    take_now: dict[str, Any] | None = Field(
        description="Options that make a job rewrite it now; null if there are none."
    )


class JobAnswer(BaseModel):
    """A job: the request, the progress and the result."""

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
    kind: str = Field(description="What the job does.", examples=["compact", "expire"])
    status: JobStatus
    progress: Progress
    created_at: Moment
    started_at: Moment | None
    estimated_completion: Moment | None = Field(description="Estimated end of a running job; null if unknown.")
    estimated_duration_seconds: int | None
    finished_at: Moment | None
    catalog: str
    namespace: str = Field(description="The levels of the namespace, joined by dots.")
    table: str
    strategy: str = Field(description="The strategy of a compaction; the kind of any other job.")
    options: dict[str, Any] = Field(description="The options of the request.")
    tenant: str
    created_by: str = Field(description="A principal, `schedule:<id>` or `auto`.")
    priority: int
    verify: str | None
    plan_hash: str | None = Field(description="The plan that the job applies, or the plan that it made.")
    stage: Stage | None = Field(description="The current or last stage of the newest attempt.")
    attempts: int
    run_id: str | None = Field(description="Id of the newest attempt; the names of its output files contain it.")
    waits_until: Moment | None = Field(description="When a queued job is tried again.")
    cancel_requested: bool
    outcome: Literal["committed", "partly", "tidy", "waiting", "refused", "nothing"] | None = Field(
        description="`committed`: the job committed all its work. `partly`: it failed after its first commit."
        " The others did not commit. `tidy`: there is nothing to do. `waiting`: files will be rewritten later."
        " `refused`: files cannot or must not be rewritten. `left` says which files, and why. `nothing`: an earlier"
        " version ran the job and recorded no reason."
    )
    left: list[LeftAnswer] = Field(description="Files that the job left unchanged, also if it committed others.")
    stats: CompactionStats | None = Field(description="Statistics of a finished compaction.")
    expired: ExpiryTotals | None = Field(
        description="What the job did to old snapshots; null if it did not expire any."
    )
    groups_copied: int = Field(description="Groups whose row groups were copied without decoding.")
    encoded_instead: dict[str, int] = Field(description="Groups planned as copies that had to be encoded, by reason.")
    bytes_moved: int = Field(description="Bytes that the object store copied itself, without a worker.")
    bytes_spliced: int = Field(description="Bytes of pages copied without decoding into encoded files.")
    splices_given_up: dict[str, int] = Field(description="Groups whose splice was given up, by reason.")
    files_joined: int = Field(description="Tiny files that were read together, as one file in memory.")
    requests: dict[str, int] = Field(description="Storage requests of the tasks, by kind; empty if not counted.")
    worker_memory_bytes: int = Field(
        description="The most memory of a process that ran tasks; 0 if it was not measured."
    )
    snapshot_id: int | None = Field(
        description="The snapshot that the job committed; the last one if there are several."
    )
    estimated_cost: float | None = Field(description="Dollars.")
    cost: float | None = Field(description="Dollars.")
    notes: list[str]
    error: JobErrorAnswer | None


class JobPageAnswer(BaseModel):
    jobs: list[JobAnswer]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")
