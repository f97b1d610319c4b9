"""A plan: which files become which, why, and for how much. It is a document: JSON out, JSON in, hashed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.model.table import TableRef

PLAN_FORMAT = 5

# Row groups moved as bytes under a new footer, or rows decoded and written anew.
Mode = Literal["copy", "encode"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A live data file that a group replaces."""

    path: str
    size: int
    records: int
    sequence_number: int
    manifest: str  # path of the manifest that lists it at the pinned snapshot
    first_row_id: int | None = None  # v3; None also where an upgraded table has not given the file's rows ids yet


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A live delete file that applies to some input of the plan.

    Within a group, whose files share spec and partition, its sequence number and `referenced_data_file` tell to which:
    positions and DVs where data.seq <= seq and the reference, if any, is the file; equality where data.seq < seq.
    """

    path: str
    kind: Literal["position", "equality", "dv"]
    size: int
    records: int
    sequence_number: int
    manifest: str
    referenced_data_file: str | None = None
    equality_ids: tuple[int, ...] = ()
    content_offset: int | None = None
    content_size: int | None = None

    @property
    def identity(self) -> tuple[str, int | None, int | None]:
        """I5: a DV is a piece of a Puffin file that many share."""
        return self.path, self.content_offset, self.content_size


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a rewrite will take and give; dollars are apart for requests, compute and storage until expiry."""

    input_files: int
    output_files: int
    bytes_read: int
    bytes_written: int
    get_requests: int
    put_requests: int
    seconds: float
    request_dollars: float
    compute_dollars: float
    storage_dollars: float  # of the replaced bytes until snapshots expire
    file_opens_saved: int  # per full scan
    bytes_saved: int  # per full scan
    payback_scans: int | None  # full scans after which the rewrite has paid for itself; None: never

    @property
    def dollars(self) -> float:
        """What the job itself costs; the storage of replaced bytes is shown apart."""
        return self.request_dollars + self.compute_dollars

    @property
    def dollars_per_gb(self) -> float:
        return self.dollars / (self.bytes_read / 1024**3) if self.bytes_read else 0.0


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition and spec that are rewritten together, by one task or, if they are large, by several."""

    group_id: int
    spec_id: int
    partition_path: str
    files: tuple[InputFile, ...]
    outputs: int
    mode: Mode
    score: float
    estimate: Estimate
    output_spec_id: int | None = None  # rows move to their partitions of this spec; None: outputs stay with the inputs
    deletes: tuple[int, ...] = ()  # positions in the plan's deletes: those that apply to some of the files
    mode_reason: str = ""  # why this mode, in a few words that many groups share
    tasks: int = 1  # how many tasks divide the group among them; each writes at least one of the outputs

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)


@dataclass(frozen=True, slots=True)
class Rest:
    """Files of a rewritten partition that wait, or cannot be rewritten."""

    code: str  # as of a skip
    files: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    reason: str
    groups: tuple[int, ...]
    files: int
    outputs: int
    dollars: float
    rest: tuple[Rest, ...] = ()
    kind: Literal["rewrite"] = "rewrite"


@dataclass(frozen=True, slots=True)
class Skip:
    code: str  # stable: tidy, hot, filtered, too-few-files, other-strategy, no-gain, budget, delete-format, ...
    reason: str
    kind: Literal["skip"] = "skip"


Verdict = Rewrite | Skip


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """One partition's numbers and what the plan makes of them."""

    spec_id: int
    partition_path: str
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int
    deleted_rows: int
    fragment_ratio: float
    score: float
    last_write_ms: int | None
    last_compaction_ms: int | None
    recent_commits: int
    verdict: Verdict


@dataclass(frozen=True)
class Plan:
    format: int
    tool_version: str
    table: TableRef
    table_uuid: str
    format_version: int
    branch: str
    snapshot_id: int | None
    sequence_number: int
    snapshot_ms: int | None
    schema_id: int
    created_ms: int
    options: Mapping[str, Any]  # as resolved; secrets never get here
    resolved_where: str | None  # the predicate with current_date and the like made literal
    target_file_size: int
    health: int
    partitions: tuple[PartitionVerdict, ...]
    groups: tuple[FileGroup, ...]
    estimate: Estimate
    deletes: tuple[DeleteFile, ...] = field(default=())
    left_out: tuple[str, ...] = field(default=())  # what a budget or limit left for another time, in words
    better_inline: bool = False  # Spark would take longer to start than one core of this machine to do all of it
    warnings: tuple[str, ...] = field(default=())  # what the rewrite does not keep, in words
    hash: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.groups

    @property
    def modes(self) -> dict[tuple[Mode, str], int]:
        """How many groups are rewritten in each mode, for each reason."""
        counts = Counter((group.mode, group.mode_reason) for group in self.groups)
        return dict(sorted(counts.items()))
