"""Orphan files: what is asked for, what was found, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.errors import TidybergError
from tidyberg.model.job import Job
from tidyberg.model.table import TableRef

ORPHANS, RESTORE, PURGE = "orphans", "orphans restore", "orphans purge"  # strategies of jobs in the history
DAY_MS = 86_400_000
LEAST_AGE_MS = DAY_MS  # a younger file may belong to a writer that has not committed yet
SIGHTING_GAP_MS = DAY_MS // 2  # between the two runs that see a file as an orphan; a nightly run has twice as much

PrefixMismatch = Literal["error", "ignore", "delete"]
OrphanVerdict = Literal["delete", "wait", "nothing"]
OrphanOutcome = Literal["nothing", "waiting", "deleted", "quarantined", "partly"]


@dataclass(frozen=True, slots=True)
class OrphanOptions:
    older_than_ms: int = 3 * DAY_MS  # an age
    newer_than_ms: int | None = None  # a moment: files written before it stay
    now: bool = False  # delete what this run sees for the first time too
    quarantine: bool = False  # move instead of delete
    force: str | None = None  # the reason for an age below a day
    prefix_mismatch: PrefixMismatch = "error"
    equal_schemes: tuple[tuple[str, ...], ...] = (("s3", "s3a", "s3n"), ("gs", "gcs"))
    equal_authorities: tuple[tuple[str, ...], ...] = ()
    locations: tuple[str, ...] = ()  # look only here; empty: the table's location
    dropped_tables: tuple[str, ...] = ()  # ids of tables that no longer exist, and whose files are orphans
    dead_metadata: tuple[str, ...] = ()  # metadata files that nobody uses, and whose files are orphans

    def as_options(self) -> dict[str, Any]:
        """For the record of the job."""
        named = {
            "older_than_ms": self.older_than_ms,
            "newer_than_ms": self.newer_than_ms,
            "now": self.now or None,
            "quarantine": self.quarantine or None,
            "force": self.force,
            "prefix_mismatch": self.prefix_mismatch if self.prefix_mismatch != "error" else None,
            "equal_authorities": [list(group) for group in self.equal_authorities] or None,
            "locations": list(self.locations) or None,
            "dropped_tables": list(self.dropped_tables) or None,
            "dead_metadata": list(self.dead_metadata) or None,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class OrphanCounts:
    """Orphans by kind, as far as their names tell it."""

    data_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    metadata_files: int = 0
    statistics_files: int = 0
    other_files: int = 0
    bytes: int = 0

    @property
    def files(self) -> int:
        return (
            self.data_files
            + self.manifests
            + self.manifest_lists
            + self.metadata_files
            + self.statistics_files
            + self.other_files
        )


@dataclass(frozen=True)
class OrphanPlan:
    """Says which files a run would delete now. Planning changes nothing."""

    table: TableRef
    verdict: OrphanVerdict
    reason: str
    files: OrphanCounts  # that would be deleted
    dollars_per_month: float  # what storage of them costs
    waiting: OrphanCounts  # orphans that no earlier run has seen, or not long enough ago
    listed: int
    kept: Mapping[str, int]  # files that no snapshot references, by the reason why they stay
    cutoff_ms: int
    not_checked: tuple[str, ...] = ()  # what the search for tables that share the location did not see
    other_states: tuple[str, ...] = ()  # metadata files that the table does not know and that keep files
    first: tuple[str, ...] = ()  # some of the orphans


@dataclass(frozen=True)
class OrphanResult:
    plan: OrphanPlan
    outcome: OrphanOutcome
    files: OrphanCounts  # deleted, or moved to quarantine
    referenced_meanwhile: int = 0  # a commit took them while the run worked, so they stayed
    refused: int = 0  # that storage did not delete; the next run tries again
    first_refused: str | None = None
    quarantine: str | None = None  # the directory that they were moved to
    failure: TidybergError | None = None
    job: Job | None = field(default=None, repr=False)

    @property
    def table(self) -> TableRef:
        return self.plan.table


@dataclass(frozen=True)
class QuarantineResult:
    """The files that `restore` brought back, or that `purge` deleted."""

    table: TableRef
    outcome: Literal["nothing", "restored", "purged", "partly"]
    jobs: tuple[str, ...]  # the runs that had moved the files
    files: int
    bytes: int
    already_there: int = 0  # files whose place another file has; the quarantined ones stay
    refused: int = 0
    first_refused: str | None = None
    failure: TidybergError | None = None
    job: Job | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TableLocations:
    table: TableRef
    table_uuid: str
    roots: tuple[str, ...]


@dataclass(frozen=True)
class CatalogLocations:
    """The directories in which the tables of a catalog put their files."""

    tables: tuple[TableLocations, ...]
    not_checked: tuple[str, ...] = ()  # tables that could not be loaded, or why the catalog could not be listed


@dataclass(frozen=True, slots=True)
class SharedLocation:
    """Two tables, one of which has files in a directory of the other."""

    table: TableRef
    location: str
    other: TableRef
    other_location: str
