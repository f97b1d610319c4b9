"""Says who holds the bytes of a table: which kind of file, which branch, tag or age of snapshots, or nobody."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tidyberg.model.sizes import GB
from tidyberg.model.table import TableRef

Exactness = Literal["exact", "estimate", "unknown"]


class StoredKind(StrEnum):
    """The kind of a file. The order is that of `observe.reachable.FileKind`, then what only the table itself has."""

    DATA = "data"
    POSITION_DELETES = "position deletes"
    EQUALITY_DELETES = "equality deletes"
    STATISTICS = "statistics"
    MANIFEST = "manifests"
    MANIFEST_LIST = "manifest lists"
    METADATA_JSON = "metadata.json"
    OTHER = "other"

    @property
    def number(self) -> int:
        return list(StoredKind).index(self)

    @property
    def is_metadata(self) -> bool:
        return self not in (
            StoredKind.DATA,
            StoredKind.POSITION_DELETES,
            StoredKind.EQUALITY_DELETES,
            StoredKind.OTHER,
        )


class Holder(StrEnum):
    """The reason why a file is there. Every file has one holder: the first of these that applies."""

    CURRENT = "current"  # the head of main needs it
    REF = "ref"  # the head of exactly one other branch or tag needs it
    SEVERAL_REFS = "several refs"  # the heads of several other branches or tags need it
    HISTORY = "history"  # only older snapshots need it
    TABLE = "table"  # the table itself: metadata.json, current and logged
    ORPHAN = "orphan"  # nothing references it
    UNKNOWN = "unknown"  # nothing that could be read references it, but something could not be read


@dataclass(frozen=True, slots=True)
class StoredBytes:
    files: int = 0
    bytes: int = 0

    def __add__(self, other: "StoredBytes") -> "StoredBytes":
        return StoredBytes(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Holding:
    """Files of one kind with one holder. All holdings of a report together are all files that were listed."""

    holder: Holder
    kind: StoredKind
    stored: StoredBytes
    ref: str = ""  # such as "tag q1", if one ref holds them
    expires_at_ms: int | None = None  # history: the largest age at which expiring frees them; None: it never does


@dataclass(frozen=True, slots=True)
class RefStorage:
    """Counts what the snapshot of a branch or tag references. Ancestors belong to history."""

    ref: str  # such as "branch main"
    snapshot_id: int
    total: StoredBytes
    only: StoredBytes  # no other branch or tag references these


@dataclass(frozen=True, slots=True)
class AgeStorage:
    """Counts what `tidyberg expire --older-than` would delete, with the table's other retention settings."""

    older_than_ms: int
    is_own: bool  # whether it is the table's setting, which `tidyberg expire` takes by default
    snapshots: int
    freed: StoredBytes


@dataclass(frozen=True, slots=True)
class StorageAction:
    """Says what one command would free in the end, and what it adds before that."""

    command: str  # such as "tidyberg expire analytics.events"
    frees_bytes: int | None  # None: unknown. Negative if the table gets larger for good
    adds_bytes: int  # until the snapshots before it expire
    exactness: Exactness
    why: str


@dataclass(frozen=True)
class StorageReport:
    table: TableRef
    total: StoredBytes  # everything below the table's locations
    holdings: tuple[Holding, ...]
    refs: tuple[RefStorage, ...]  # main first, then by what only they hold
    ages: tuple[AgeStorage, ...]  # the smallest age first
    actions: tuple[StorageAction, ...]
    young_orphans: StoredBytes  # part of the orphans; writers at work may be about to commit them
    outside: StoredBytes  # referenced, but not below the table's locations: not in any other figure
    missing: int  # referenced, but not there
    first_missing: str | None
    unreadable: tuple[str, ...]  # what is wrong with manifests and manifest lists that were left out
    dollars_per_gb_month: float

    def dollars(self, size: float) -> float:
        """Returns the price of storing so many bytes for a month."""
        return size / GB * self.dollars_per_gb_month

    def held(self, *holders: Holder, metadata: bool | None = None) -> StoredBytes:
        """The sum over some holders, or over all. `metadata` chooses metadata files, or the others."""
        chosen = (
            one.stored
            for one in self.holdings
            if (not holders or one.holder in holders) and metadata in (None, one.kind.is_metadata)
        )
        return sum(chosen, StoredBytes())

    def of_kind(self, *kinds: StoredKind, holders: tuple[Holder, ...] = ()) -> StoredBytes:
        chosen = (one.stored for one in self.holdings if one.kind in kinds and (not holders or one.holder in holders))
        return sum(chosen, StoredBytes())
