"""Expiring snapshots: what is asked for, what is decided, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.errors import TidybergError
from tidyberg.model.job import Job
from tidyberg.model.table import TableRef

EXPIRE = "expire"  # the strategy of such a job in the history

ExpiryOutcome = Literal["nothing", "planned", "expired", "partly"]


@dataclass(frozen=True, slots=True)
class ExpiryBounds:
    """The snapshots and refs that a plan found to expire. `apply` may expire fewer, and no others."""

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """None means: the property of the table, or else Iceberg's default."""

    older_than_ms: int | None = None  # an age
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()  # expire these too, whatever their age
    clean_metadata: bool = False  # also remove schemas and partition specs that nothing uses
    verify: bool | None = None  # None: only if the manifests are small enough
    bounds: ExpiryBounds | None = None  # expire nothing else

    def as_options(self) -> dict[str, Any]:
        """For the record of the job."""
        named = {
            "older_than_ms": self.older_than_ms,
            "retain_last": self.retain_last,
            "snapshot_ids": list(self.snapshot_ids) or None,
            "clean_metadata": self.clean_metadata or None,
            "verify": self.verify,
            "planned_snapshots": len(self.bounds.snapshot_ids) if self.bounds is not None else None,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RefInfo:
    """A branch or a tag, with its own retention settings."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None

    def __str__(self) -> str:
        return f"{'branch' if self.is_branch else 'tag'} {self.name}"


@dataclass(frozen=True)
class ExpiryDecision:
    """Says which snapshots and refs leave the table."""

    snapshot_ids: tuple[int, ...]  # oldest first
    refs: tuple[RefInfo, ...]  # too old, or their snapshot does not exist
    retained: Mapping[int, tuple[str, ...]]  # snapshot id -> what keeps it, such as "branch main"
    cutoff_ms: int  # of branches without a retention of their own
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Files by kind. The kinds are those of Iceberg's own procedure."""

    data_files: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0
    bytes: int = 0  # without manifest lists, whose sizes are not recorded anywhere

    @property
    def files(self) -> int:
        return (
            self.data_files
            + self.position_delete_files
            + self.equality_delete_files
            + self.manifests
            + self.manifest_lists
            + self.statistics_files
        )


@dataclass(frozen=True)
class ExpiryResult:
    table: TableRef
    outcome: ExpiryOutcome
    decision: ExpiryDecision
    snapshots_before: int
    files: FileCounts  # deleted; with "planned", the files that would be deleted
    schemas_removed: tuple[int, ...] = ()
    specs_removed: tuple[int, ...] = ()
    outside: int = 0  # expired files that lie outside of the table's locations, and are never deleted
    first_outside: str | None = None
    refused: int = 0  # files that storage did not delete; the next run or `tidyberg recover` tries again
    first_refused: str | None = None
    verified: int | None = None  # how many references of retained snapshots were checked; None: not verified
    recovered: tuple[str, ...] = ()  # what was done about earlier runs that had not finished
    failure: TidybergError | None = None
    job: Job | None = field(default=None, repr=False)  # None: nothing was recorded

    @property
    def snapshots_expired(self) -> int:
        return len(self.decision.snapshot_ids)
