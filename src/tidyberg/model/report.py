"""Reports, results, and the events of a running job, as `control` returns them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tidyberg.errors import TidybergError
from tidyberg.model.expiry import ExpiryResult
from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.job import CompactionStats, Job, Progress, Stage
from tidyberg.model.left import LeftAlone, Outcome
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef


@dataclass(frozen=True, slots=True)
class Health:
    """A score from 0 (worst) to 100 (best), with the reasons for the lost points."""

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
    partitions: tuple[tuple[str, PartitionStatistics], ...]  # label and numbers, worst partition first
    file_sizes: tuple[int, ...]
    target_file_size: int
    snapshots: int = 0
    manifests: int = 0
    dead_bytes: int = 0  # the bytes of files that only older snapshots refer to
    deletes_old_metadata: bool = False
    metadata_bytes: int | None = None  # the size of metadata.json; None: unknown


@dataclass(frozen=True, slots=True)
class TableSummary:
    table: TableRef
    files: int | None  # from the snapshot's summary; None: it does not say
    bytes: int | None
    records: int | None
    delete_files: int | None
    snapshot_ms: int | None
    error: str | None = None


@dataclass(frozen=True)
class CompactionResult:
    """The result of a finished job. The job's record has `outcome` and `left` too."""

    outcome: Outcome
    job: Job
    plan: Plan
    stats: CompactionStats
    snapshot_id: int | None  # the last one if groups were committed in chunks
    groups_committed: int
    groups_left: tuple[str, ...]  # one reason per group that could not be committed
    sizes_before: tuple[int, ...]
    sizes_after: tuple[int, ...]
    sizes_written: tuple[int, ...] = ()  # the sizes of the files that it committed
    failure: TidybergError | None = None  # the error that ended a partly committed job
    left: tuple[LeftAlone, ...] = ()  # what the plan left alone
    expiry: ExpiryResult | None = None  # of a compaction after which snapshots expired

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
    """A message for the person who watches the job, such as a retry, a conflict or a removed leftover."""

    level: Literal["info", "warning"]
    message: str
    in_result: bool = False  # the result of the job says it too


Event = StageStarted | GroupFinished | Notice
EventSink = Callable[[Event], None]
