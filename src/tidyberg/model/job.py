"""A job: one run of the pipeline on one table, with its progress, its outcome and its intended outputs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidyberg.model.left import LeftAlone, Outcome
from tidyberg.model.options import Strategy
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
    """The progress of a job, with the names of the REST contract, plus groups."""

    partitions_completed: int = 0
    partitions_total: int = 0
    groups_completed: int = 0
    groups_total: int = 0
    files_processed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class CompactionStats:
    """The `stats` of a finished job, with the names of the REST contract."""

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
    # Not in the contract. None in the records of versions that did not count them.
    delete_files_before: int | None = None
    delete_files_after: int | None = None
    bytes_freed_at_expiry: int | None = None  # the size of the replaced files, which older snapshots still need


@dataclass(frozen=True, slots=True)
class CopyTotals:
    """Totals of the groups that a job copied as bytes, and of those that it had to encode instead."""

    groups: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0  # what the tasks took, added up
    bytes_moved: int = 0  # copied inside the object store, not through a worker
    encoded_instead: Mapping[str, int] = field(default_factory=dict)  # planned as copies, by reason


@dataclass(frozen=True, slots=True)
class SpliceTotals:
    """Totals of the groups that a job spliced: it moved the pages of some columns without decoding them."""

    groups: int = 0
    files: int = 0
    bytes: int = 0  # the size of these files
    bytes_spliced: int = 0  # the size of the moved pages
    bytes_written: int = 0
    seconds: float = 0.0  # what the tasks took, added up
    encoded_instead: Mapping[str, int] = field(default_factory=dict)  # that began to splice, by reason


@dataclass(frozen=True, slots=True)
class OrderTotals:
    """Totals of the groups that a job sorted, or of those whose sorted files it merged in order."""

    groups: int = 0
    files: int = 0
    bytes: int = 0
    tasks: int = 0  # as planned
    seconds: float = 0.0  # what the tasks took, added up; for a sort by a shuffle, those of both stages


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a job. On the same machine, it shows whether the process is still alive."""

    host: str  # the host name and the PID namespace
    pid: int
    started: float  # the start time of the process, because pids are reused


@dataclass(frozen=True)
class Intent:
    """Recorded before a job writes its first byte. Recovery computes every possible output name from it."""

    job_id: str
    sequence_number: int  # of the plan's snapshot; manifests up to it cannot list the outputs of this job
    directories: Mapping[int, str]  # group id -> output directory
    attempts: int  # the most attempts that the engine gives a task
    outputs: Mapping[int, int]  # group id -> the planned number of outputs
    settle_seconds: float  # how long the workers of a dead job may still write
    adopted: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # group id -> outputs of a dead job
    name_mapping: str | None = None  # the table's name mapping, by which files without field ids are read
    parts: Mapping[int, int] = field(default_factory=dict)  # group id -> the number of tasks, if there are several
    joins: Mapping[int, str] = field(default_factory=dict)  # number of a join -> the directory of its temporary files

    @property
    def groups(self) -> frozenset[int]:
        return frozenset(self.directories) | frozenset(self.adopted)

    def only(self, groups: Collection[int]) -> "Intent":
        """Returns the intent of these groups. Joins are not part of it, because other groups may need their files."""

        def part(of: Mapping[int, Any]) -> dict[int, Any]:
            return {group_id: value for group_id, value in of.items() if group_id in groups}

        return replace(
            self,
            directories=part(self.directories),
            outputs=part(self.outputs),
            adopted=part(self.adopted),
            parts=part(self.parts),
            joins={},
        )

    def only_joins(self) -> "Intent":
        return replace(self.only(()), joins=self.joins)


@dataclass(frozen=True, slots=True)
class SentCommit:
    """Recorded before a commit is sent. From then on, only the table shows whether the commit succeeded."""

    chunk: int  # a job commits its groups in one or several chunks, and each chunk is a snapshot
    parent_id: int
    snapshot_id: int
    groups: tuple[int, ...]
    sequence_number: int | None = None  # the snapshot's, if the commit succeeds; format version 1 has none


@dataclass(frozen=True, slots=True)
class ExpiryTotals:
    """Counts what a job did to old snapshots and their files."""

    snapshots_expired: int = 0
    refs_removed: int = 0  # branches and tags
    files_deleted: int = 0
    bytes_deleted: int = 0
    files_refused: int = 0  # that storage did not delete; recovery tries again
    files_outside: int = 0  # expired, but outside of the table's locations, so they stay
    snapshots_kept: int | None = None  # None: another run finished the job after it died
    references_verified: int | None = None  # None: not verified


@dataclass(frozen=True, slots=True)
class ExpiryRecord:
    """Recorded before a job that expires snapshots commits. Recovery finishes the deletion of its files."""

    list_path: str  # the list of files to delete, next to the table's metadata
    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]
    files: int
    bytes: int
    sent_from: str | None = None  # the metadata file on which the last commit attempt was based; None: none was sent


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
    predicted_bytes: int | None = None  # predicted output; the progress has the actual output
    predicted_dollars: float | None = None
    actual_dollars: float | None = None
    snapshot_id: int | None = None  # the snapshot that it committed; the last one if there were several
    task_seconds: float = 0.0  # what its tasks took, added up
    copied: CopyTotals = field(default_factory=CopyTotals)
    spliced: SpliceTotals = field(default_factory=SpliceTotals)
    sorts: OrderTotals = field(default_factory=OrderTotals)
    run_merges: OrderTotals = field(default_factory=OrderTotals)
    files_joined: int = 0  # small files that were joined in memory and read as one
    requests: Mapping[str, int] = field(default_factory=dict)  # storage requests by kind; empty: not counted
    worker_memory_bytes: int = 0  # the most memory of a process that ran tasks; 0: not measured
    cores: int | None = None
    cluster: str | None = None  # the name of the engine's resources; calibration is learned per cluster
    groups_merged: int = 0  # only their deletes were merged
    groups_adopted: int = 0  # rewritten by a job that died and committed by this one
    commit_retries: int = 0  # attempts to commit beyond the first of each chunk
    conflicts: int = 0  # groups whose files other writers changed
    progress: Progress = field(default_factory=Progress)
    stats: CompactionStats | None = None
    error_code: str | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    outcome: Outcome | None = None  # set when the job has finished
    left: tuple[LeftAlone, ...] = ()  # what the plan left alone
    commits: int = 0  # the number of committed chunks
    sent: SentCommit | None = None  # the commit whose outcome is still unknown
    unresolved: bool = False  # it ended with an unknown outcome or with leftovers, so recovery will look at it again
    intent: Intent | None = field(default=None, repr=False)
    submission_id: str | None = None  # the submission that it is an attempt of, if the service runs it
    expiry: ExpiryRecord | None = field(default=None, repr=False)  # of a job that expires snapshots
    expired: ExpiryTotals | None = None  # of a job that expired snapshots, or of a compaction after which they expired

    @property
    def is_compaction(self) -> bool:
        """Jobs of other kinds have the name of their kind as their strategy."""
        return self.strategy in frozenset(Strategy)

    @property
    def is_open(self) -> bool:
        """Returns True if the job is running, or recovery has to look at it."""
        return not self.status.is_final or self.unresolved
