"""What an audit says of replace snapshots: whether they kept every row, and if not, what became of which."""

from dataclasses import dataclass
from enum import StrEnum

from tidyberg.model.table import TableRef


class Verdict(StrEnum):
    INTACT = "intact"
    DAMAGED = "damaged"
    NOT_AUDITED = "not-audited"


class Receipt(StrEnum):
    """What became of the checksum that a snapshot of ours carries."""

    NONE = "none"  # it carries none
    HOLDS = "holds"  # the files it added are those that were written, byte for byte
    FOOTERS_HOLD = "footers-hold"  # the same, but of copied files only size and footer are known
    BROKEN = "broken"
    UNCHECKED = "unchecked"  # it carries one, but its files could not be read


class Harm(StrEnum):
    LOST = "lost"  # gone from the table's files
    HIDDEN = "hidden"  # in a file still, but deleted by a delete that must not apply to it
    CHANGED = "changed"  # gone, and as many others came that never were in the table
    CAME_BACK = "came-back"  # deleted before
    DOUBLED = "doubled"  # more often there than before
    APPEARED = "appeared"  # never were in the table
    LINEAGE = "lineage"  # the row is there, but not its id or the number of its last update


@dataclass(frozen=True, slots=True)
class Example:
    """Where a harmed row is, in the state that holds it: before the snapshot if it is gone, else after it."""

    harm: Harm
    path: str
    position: int
    partition: str


@dataclass(frozen=True, slots=True)
class SnapshotAudit:
    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    made_by: str  # the engine its summary names
    verdict: Verdict
    reason: str = ""  # why it could not be audited
    files_before: int = 0  # data files that differ, or whose deletes differ
    files_after: int = 0
    rows_before: int = 0  # live rows in them
    rows_after: int = 0
    harms: tuple[tuple[Harm, int], ...] = ()
    is_exact: bool = True  # else the numbers of harmed rows are the least there are
    examples: tuple[Example, ...] = ()
    lineage_compared: bool = False
    receipt: Receipt = Receipt.NONE
    partly_numbered: tuple[str, ...] = ()  # copied files that readers built on arrow-rs refuse, still in the table


@dataclass(frozen=True)
class AuditReport:
    table: TableRef
    branch: str
    snapshots: tuple[SnapshotAudit, ...]  # newest first
    partly_numbered: tuple[str, ...] = ()  # the same of live files whose snapshots are expired
    repair: str = ""  # the command that rewrites files which some readers refuse

    @property
    def is_damaged(self) -> bool:
        return any(
            audited.verdict is Verdict.DAMAGED or audited.receipt is Receipt.BROKEN for audited in self.snapshots
        )
