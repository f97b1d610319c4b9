"""The result of an audit: whether each replace snapshot kept every row, and what happened to those it did not keep."""

from dataclasses import dataclass
from enum import StrEnum

from tidyberg.model.table import TableRef


class Verdict(StrEnum):
    INTACT = "intact"
    DAMAGED = "damaged"
    NOT_AUDITED = "not-audited"


class Receipt(StrEnum):
    """The result of checking the checksum in the summary of a snapshot that tidyberg made."""

    NONE = "none"  # the snapshot has no checksum
    HOLDS = "holds"  # the added files are those that tidyberg wrote, byte for byte
    FOOTERS_HOLD = "footers-hold"  # the same, but for copied files only size and footer are known
    BROKEN = "broken"
    UNCHECKED = "unchecked"  # the files could not be read


class Harm(StrEnum):
    LOST = "lost"  # the row is no longer in the table's files
    HIDDEN = "hidden"  # the row is still in a file, but a delete that must not apply to it removes it
    CHANGED = "changed"  # the row is gone, and a row that was never in the table replaces it
    CAME_BACK = "came-back"  # the row had been deleted
    DOUBLED = "doubled"  # the row occurs more often than before
    APPEARED = "appeared"  # the row was never in the table
    LINEAGE = "lineage"  # the row is there, but its id or its last updated sequence number is wrong


@dataclass(frozen=True, slots=True)
class Example:
    """The place of a harmed row: before the snapshot if the row is gone, otherwise after it."""

    harm: Harm
    path: str
    position: int
    partition: str


@dataclass(frozen=True, slots=True)
class SnapshotAudit:
    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    made_by: str  # the engine that its summary names
    verdict: Verdict
    reason: str = ""  # why the snapshot could not be audited
    files_before: int = 0  # data files that changed, or whose deletes changed
    files_after: int = 0
    rows_before: int = 0  # live rows in them
    rows_after: int = 0
    harms: tuple[tuple[Harm, int], ...] = ()
    is_exact: bool = True  # False: the numbers of harmed rows are lower bounds
    examples: tuple[Example, ...] = ()
    lineage_compared: bool = False
    receipt: Receipt = Receipt.NONE
    partly_numbered: tuple[str, ...] = ()  # live copied files that readers built on arrow-rs reject


@dataclass(frozen=True)
class AuditReport:
    table: TableRef
    branch: str
    snapshots: tuple[SnapshotAudit, ...]  # newest first
    partly_numbered: tuple[str, ...] = ()  # the same for files whose snapshots have expired
    repair: str = ""  # the command that rewrites those files

    @property
    def is_damaged(self) -> bool:
        return any(
            audited.verdict is Verdict.DAMAGED or audited.receipt is Receipt.BROKEN for audited in self.snapshots
        )
