"""What the control room tells its callers: reports, results and the events of a running job."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tidyberg.errors import TidybergError
from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.job import CompactionStats, Job, Progress, Stage
from tidyberg.model.left import LeftAlone, Outcome
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class Health:
    """0 (untidy) to 100 (tidy), with the reasons for every point lost."""

    score: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class HealthReport:
    table: TableRef
    branch: str
    snapshot_id: int | None
    snapshot_ms: int | None
    health: Health
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int
    partitions: tuple[tuple[str, PartitionStatistics], ...]  # label, numbers; worst first
    file_sizes: tuple[int, ...]
    target_file_size: int
    snapshots: int = 0
    manifests: int = 0
    dead_bytes: int = 0  # of files that only older snapshots refer to
    deletes_old_metadata: bool = False
    metadata_bytes: int | None = None  # of metadata.json; None: it cannot be looked up


@dataclass(frozen=True, slots=True)
class TableSummary:
    table: TableRef
    files: int | None  # from the snapshot's summary; None where it does not say
    bytes: int | None
    records: int | None
    delete_files: int | None
    snapshot_ms: int | None
    error: str | None = None


@dataclass(frozen=True)
class CompactionResult:
    """A finished job; `outcome` and what was left are in its record too."""

    outcome: Outcome
    job: Job
    plan: Plan
    stats: CompactionStats
    snapshot_id: int | None  # the last one, when groups were committed in chunks
    groups_committed: int
    groups_left: tuple[str, ...]  # groups that could not be committed, each with its reason
    sizes_before: tuple[int, ...]
    sizes_after: tuple[int, ...]
    sizes_written: tuple[int, ...] = ()  # of the files that it committed
    failure: TidybergError | None = None  # what ended a job that is committed partly
    left: tuple[LeftAlone, ...] = ()  # what it found and did not take

    @property
    def has_committed(self) -> bool:
        return self.outcome in ("committed", "partly")


@dataclass(frozen=True, slots=True)
class StageStarted:
    stage: Stage
    message: str = ""


@dataclass(frozen=True, slots=True)
class GroupFinished:
    group_id: int
    partition: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth a line for the person who watches: a retry, a conflict, a leftover removed."""

    level: Literal["info", "warning"]
    message: str


Event = StageStarted | GroupFinished | Notice
EventSink = Callable[[Event], None]
