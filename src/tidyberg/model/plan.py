"""A plan: which files are rewritten together, why, and at what cost. It can be saved as JSON and has a hash."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidyberg.model.sort_key import SortKey
from tidyberg.model.table import TableRef

PLAN_FORMAT = 8

# In the summary of the snapshots of a finished full compaction: the target file size that it packed for.
FULL_TARGET = "tidyberg.full-target-file-size"

# In the summary of the snapshots of a plan that sorts: the key, as `sort_key_text` writes it. The format has no place
# for a curve, nor for an order that is not the table's.
SORT_KEY = "tidyberg.sort-key"

# In the summary of the snapshots of a plan with boundaries: those that were asked for. Some may have been left out.
BOUNDARIES = "tidyberg.boundaries"

# "copy" moves row groups as bytes under a new footer; "encode" decodes the rows and writes them again. "deletes" leaves
# the rows where they are, and merges the deletes that apply to them. "sort" writes the rows in the order of a key, and
# "merge" merges files that are in this order already.
Mode = Literal["copy", "encode", "deletes", "sort", "merge"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """A live data file that a group rewrites."""

    path: str
    size: int
    records: int
    sequence_number: int
    manifest: str  # the path of its manifest at the pinned snapshot
    first_row_id: int | None = None  # v3; None if an upgraded table has not assigned row ids to the file yet


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A live delete file that applies to some input of the plan.

    The files of a group share spec and partition. Within a group, position deletes and DVs apply to a file if
    data.seq <= seq and the reference, if any, names the file. Equality deletes apply if data.seq < seq.
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
        """I5: the path alone is not enough, because several DVs share a Puffin file."""
        return self.path, self.content_offset, self.content_size


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted cost and benefit of a rewrite."""

    input_files: int
    output_files: int
    bytes_read: int
    bytes_written: int
    get_requests: int
    put_requests: int
    seconds: float
    request_dollars: float
    compute_dollars: float
    storage_dollars: float  # for the replaced bytes until their snapshots expire
    file_opens_saved: int  # per full scan
    bytes_saved: int  # per full scan
    payback_scans: int | None  # the full scans after which the rewrite has paid for itself; None: never

    @property
    def dollars(self) -> float:
        """The cost of the job itself. The storage of replaced bytes is not part of it."""
        return self.request_dollars + self.compute_dollars

    @property
    def dollars_per_gb(self) -> float:
        return self.dollars / (self.bytes_read / 1024**3) if self.bytes_read else 0.0


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition and spec that are rewritten together, by one task or, if large, by several.

    A group that only removes deletes that apply to no file has no files.
    """

    group_id: int
    spec_id: int
    partition_path: str
    files: tuple[InputFile, ...]
    outputs: int
    mode: Mode
    score: float
    estimate: Estimate
    output_spec_id: int | None = None  # rows move to this spec; None: outputs keep the spec of the inputs
    deletes: tuple[int, ...] = ()  # positions in the plan's deletes of those that apply to some file
    mode_reason: str = ""  # a short reason for the mode
    tasks: int = 1  # how many tasks divide the group among them; each writes at least one of the outputs
    sort_key: SortKey | None = None  # the order of the rows in and among the outputs; None: any
    # Outputs end at these values of the first field of the key. They are hexadecimal, in the form of single values.
    boundaries: tuple[str, ...] = ()

    @property
    def keeps_data(self) -> bool:
        """The group's files stay in the table. Its outputs replace their deletes."""
        return self.mode == "deletes"

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)


@dataclass(frozen=True, slots=True)
class LayoutForecast:
    """How deep files overlap along a sort key, and what queries read before and after they are sorted.

    A lookup asks for one value of a key column. A range asks for 1 % of the rows. Files are expected values.
    """

    max_depth: int  # the most files that hold rows of the same range of the key; of a curve: that a lookup may read
    unknown_files: int  # files without bounds for the first column, which every query must read
    lookup_files_before: float  # this is also the average depth
    lookup_files_after: float
    lookup_bytes_before: int
    lookup_bytes_after: int
    range_files_before: float
    range_files_after: float
    scratch_bytes: int = 0  # written and read again while rows are on their way to their outputs
    payback_queries: int | None = None  # the lookups after which the rewrite has paid for itself; None: never


@dataclass(frozen=True, slots=True)
class BoundaryForecast:
    """What a query for the rows between two neighbouring boundaries reads of the partitions that are rewritten.

    Files are expected values. With one boundary, a query asks for all rows on one of its sides.
    """

    asked: tuple[str, ...]  # the boundaries, in ascending order, as SQL
    files_before: float = 0.0
    files_after: float = 0.0
    bytes_before: int = 0
    bytes_after: int = 0
    payback_queries: int | None = None  # the queries after which the rewrite has paid for itself; None: never


@dataclass(frozen=True, slots=True)
class Rest:
    """Files of a rewritten partition that are not rewritten, and the reason."""

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
    code: str  # stable: tidy, hot, filtered, too-few-files, other-strategy, group-size, no-gain, budget, limit, ...
    reason: str
    kind: Literal["skip"] = "skip"


Verdict = Rewrite | Skip


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """The numbers of one partition and the plan's decision about it."""

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
    layout: LayoutForecast | None = None  # None: the plan does not look at the order of files


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
    options: Mapping[str, Any]  # resolved; they never contain secrets
    resolved_where: str | None  # the predicate, with functions such as current_date replaced by their values
    target_file_size: int
    health: int
    partitions: tuple[PartitionVerdict, ...]
    groups: tuple[FileGroup, ...]
    estimate: Estimate
    deletes: tuple[DeleteFile, ...] = field(default=())
    left_out: tuple[str, ...] = field(default=())  # messages about what a budget or limit left for another job
    better_inline: bool = False  # one core of this machine would finish before Spark has started
    warnings: tuple[str, ...] = field(default=())  # messages about what the rewrite does not keep
    # The price of rewriting the data files whose deletes the plan merges instead. None: it merges none.
    full_rewrite: Estimate | None = None
    sort_order: str | None = None  # the order that the plan looked at, as text
    layout: LayoutForecast | None = None  # of all partitions that are sorted
    boundaries: BoundaryForecast | None = None  # None: the plan does not look at boundaries
    hash: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.groups

    @property
    def keeps_data(self) -> bool:
        """The plan only merges deletes."""
        return bool(self.groups) and all(group.keeps_data for group in self.groups)

    @property
    def full_target(self) -> int | None:
        """The target file size of a `full` plan that left nothing out. None for every other plan.

        If a limit cut a plan short, the next plan must look at its outputs again.
        """
        return self.target_file_size if self.options.get("strategy") == "full" and not self.left_out else None

    @property
    def asked_boundaries(self) -> str | None:
        """The boundaries that were asked for, as text. The same ones give the same text."""
        return None if self.boundaries is None else ", ".join(self.boundaries.asked)

    @property
    def sort_key(self) -> SortKey | None:
        """The order of all outputs of groups that are sorted. None: no group is."""
        return next((group.sort_key for group in self.groups if group.mode == "sort"), None)

    @property
    def modes(self) -> dict[tuple[Mode, str], int]:
        """The number of groups for each mode and reason."""
        counts = Counter((group.mode, group.mode_reason) for group in self.groups)
        return dict(sorted(counts.items()))
