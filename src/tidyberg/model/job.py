"""A job: one run of the pipeline over one table, with its progress, its outcome and what it intended to write."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidyberg.model.left import LeftAlone, Outcome
from tidyberg.model.table import TableRef


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


class Stage(StrEnum):
    RECOVER = "recover"
    OBSERVE = "observe"
    PLAN = "plan"
    EXECUTE = "execute"
    VERIFY = "verify"
    COMMIT = "commit"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, in the REST contract's words, plus groups."""

    partitions_completed: int = 0
    partitions_total: int = 0
    groups_completed: int = 0
    groups_total: int = 0
    files_processed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class CompactionStats:
    """The `stats` of a finished job, as the REST contract names them."""

    files_before: int
    files_after: int
    files_compacted: int
    files_removed: int
    bytes_before: int
    bytes_after: int
    bytes_saved: int
    snapshots_expired: int
    compaction_time_ms: float
    small_files_remaining: int
    # Of tidyberg; None in records of jobs that did not count them.
    delete_files_before: int | None = None
    delete_files_after: int | None = None
    bytes_freed_at_expiry: int | None = None  # of the replaced files, which older snapshots still need


@dataclass(frozen=True, slots=True)
class CopyTotals:
    """What a job moved as bytes instead of writing it anew, and what it meant to."""

    groups: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0  # what the tasks took, added up
    bytes_moved: int = 0  # inside the store, never through a worker
    encoded_instead: Mapping[str, int] = field(default_factory=dict)  # groups planned as copies, by what forbade it


@dataclass(frozen=True, slots=True)
class SpliceTotals:
    """Groups that a job encoded in part: of some columns it moved the pages as they are."""

    groups: int = 0
    files: int = 0
    bytes: int = 0  # of these files
    bytes_spliced: int = 0  # of the pages that were moved
    bytes_written: int = 0
    seconds: float = 0.0  # what the tasks took, added up
    encoded_instead: Mapping[str, int] = field(default_factory=dict)  # groups that began to splice, by what forbade it


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a job; enough to tell on the same machine whether it still lives."""

    host: str  # and what else tells where process numbers mean the same
    pid: int
    started: float  # the process's start time, so that a reused pid is not mistaken for it


@dataclass(frozen=True)
class Intent:
    """Recorded before the first byte is written: from it every name the job may have used can be computed."""

    job_id: str
    sequence_number: int  # of the plan's snapshot: manifests up to it cannot list what this job writes
    directories: Mapping[int, str]  # group id -> output directory
    attempts: int  # task attempts the engine may make
    outputs: Mapping[int, int]  # group id -> the number of outputs the plan promised
    settle_seconds: float  # how long workers of a dead job may go on writing
    adopted: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # group id -> outputs of a dead job
    name_mapping: str | None = None  # the table's, by which files without field ids are read
    parts: Mapping[int, int] = field(default_factory=dict)  # group id -> the number of tasks, where there are several

    @property
    def groups(self) -> frozenset[int]:
        return frozenset(self.directories) | frozenset(self.adopted)

    def only(self, groups: Collection[int]) -> "Intent":
        def part(of: Mapping[int, Any]) -> dict[int, Any]:
            return {group_id: value for group_id, value in of.items() if group_id in groups}

        return replace(
            self,
            directories=part(self.directories),
            outputs=part(self.outputs),
            adopted=part(self.adopted),
            parts=part(self.parts),
        )


@dataclass(frozen=True, slots=True)
class SentCommit:
    """Recorded before a commit is sent: from then on its outcome may be unknown until the table tells."""

    chunk: int  # a job commits its groups in one chunk or in several, each a snapshot of its own
    parent_id: int
    snapshot_id: int
    groups: tuple[int, ...]
    sequence_number: int | None = None  # that the snapshot would get; format version 1 has none


@dataclass(frozen=True)
class Job:
    job_id: str
    table: TableRef
    table_uuid: str
    branch: str
    strategy: str
    options: Mapping[str, Any]
    status: JobStatus
    stage: Stage
    engine: str
    created_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    heartbeat_ms: int | None = None
    owner: Owner | None = None
    plan_hash: str | None = None
    predicted_seconds: float | None = None
    predicted_bytes: int | None = None  # to be written; what was written is in the progress
    predicted_dollars: float | None = None
    actual_dollars: float | None = None
    snapshot_id: int | None = None  # the snapshot it committed; the last one when there were several
    task_seconds: float = 0.0  # what its tasks took, added up
    copied: CopyTotals = field(default_factory=CopyTotals)
    spliced: SpliceTotals = field(default_factory=SpliceTotals)
    files_joined: int = 0  # tiny files that were read many at once, as one file in memory
    requests: Mapping[str, int] = field(default_factory=dict)  # to storage by its tasks, by kind; empty: not counted
    cores: int | None = None
    cluster: str | None = None  # what the engine ran on, by its name: speed is learned for each
    groups_adopted: int = 0  # rewritten by a job that died, and only committed by this one
    commit_retries: int = 0  # attempts to commit beyond the first of each chunk
    conflicts: int = 0  # groups that other writers had changed meanwhile
    progress: Progress = field(default_factory=Progress)
    stats: CompactionStats | None = None
    error_code: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    outcome: Outcome | None = None  # of a job that came to its end
    left: tuple[LeftAlone, ...] = ()  # what it found and did not take
    commits: int = 0  # how many chunks it committed
    sent: SentCommit | None = None  # the commit whose outcome is not settled yet
    unresolved: bool = False  # ended without knowing its outcome, or with leftovers: recovery looks again
    intent: Intent | None = field(default=None, repr=False)
    submission_id: str | None = None  # what it is an attempt of, when the service runs it

    @property
    def is_open(self) -> bool:
        """Whether it runs, claims to, or is for recovery to look at."""
        return not self.status.is_final or self.unresolved
