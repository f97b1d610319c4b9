"""The options of a plan. Sizes are bytes, and names are checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidyberg.errors import BadInput
from tidyberg.model.sizes import MB, format_size


class Strategy(StrEnum):
    SMALL_FILES = "small_files"
    DELETE_FILES = "delete_files"
    DELETES_ONLY = "deletes_only"
    TIME_SERIES = "time_series"
    FULL = "full"
    SORT = "sort"
    AUTO = "auto"

    @classmethod
    def parse(cls, text: str) -> "Strategy":
        try:
            return cls(text.strip().lower().replace("-", "_"))
        except ValueError:
            raise BadInput(
                f"{text!r} is not a strategy.", hint=f"Choose one of {', '.join(s.value for s in cls)}."
            ) from None


class RewriteMode(StrEnum):
    AUTO = "auto"  # copy if it is safe and the row groups are large enough to keep, otherwise encode
    COPY = "copy"  # copy if it is safe, whatever the size of the row groups
    ENCODE = "encode"  # never copy

    @classmethod
    def parse(cls, text: str) -> "RewriteMode":
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise BadInput(
                f"{text!r} is not a way to rewrite.", hint=f"Choose one of {', '.join(m.value for m in cls)}."
            ) from None


class VerifyMode(StrEnum):
    COUNTS = "counts"  # compares rows, null counts and bounds; the default
    FULL = "full"  # also reads the outputs and compares a checksum of their rows
    OFF = "off"

    @classmethod
    def parse(cls, text: str) -> "VerifyMode":
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise BadInput(
                f"{text!r} is not a way to verify.", hint=f"Choose one of {', '.join(m.value for m in cls)}."
            ) from None


TABLE_ORDER = "table"  # this value of `sort` means the table's own sort order
MOST_OUTPUT_FILES = 100_000
MOST_RETENTION_HOURS = 876_600  # a hundred years

_AT_LEAST_ONE = (
    "min_target_file_size",
    "max_output_files",
    "target_file_size",
    "min_file_size",
    "max_file_size",
    "max_group_size",
    "max_files",
    "max_parallelism",
    "commit_every",
    "max_record_batch_rows",
    "inline_delete_size",
    "join_delete_size",
    "small_file_threshold",
    "min_input_files",
    "copy_min_row_group_bytes",
    "max_overlap_depth",
)
ORDERS = ("sort", "zorder", "hilbert")  # options that exclude each other


@dataclass(frozen=True)
class PlanOptions:
    strategy: Strategy = Strategy.AUTO
    branch: str = "main"
    where: str | None = None
    force: bool = False
    rewrite_to_current_spec: bool = False  # False: files of older partition specs keep their spec
    ignore_wap_branches: bool = False  # compact even if another branch can then no longer fast-forward to this one
    mode: RewriteMode = RewriteMode.AUTO
    copy_min_row_group_bytes: int = 8 * MB  # `auto` copies row groups of at least this average size
    # Callers cannot set these two: they are limits of the installation.
    min_target_file_size: int = 1
    max_output_files: int = MOST_OUTPUT_FILES
    # Sizes are in bytes. None means the table's property, or a value derived from the target.
    target_file_size: int | None = None  # default: the table's write.target-file-size-bytes, else 512 MB
    min_file_size: int | None = None  # `full` rewrites smaller files; default 0.75 x target
    max_file_size: int | None = None  # larger files are split; default 1.8 x target
    max_group_size: int | None = None  # default and maximum: 2 x target
    small_file_threshold: int = 32 * MB
    min_input_files: int = 5
    max_files: int | None = None  # the most input files of a job
    max_cost: float | None = None  # the most dollars that a job may cost
    max_parallelism: int | None = None
    commit_every: int | None = None  # groups per commit; None: one commit for all
    max_record_batch_rows: int | None = None
    inline_delete_size: int = 10 * MB  # up to this size, a task carries its deletes; otherwise its worker reads them
    join_delete_size: int = 256 * MB  # equality deletes that would take more memory are joined with the rows first
    max_file_count_per_partition: int = 100
    max_delete_ratio: float = 0.1  # also called fragment_ratio_threshold
    sort: str | None = None  # "table", or an order such as "a desc, bucket(16, id)"; sets the strategy `sort`
    zorder: str | None = None  # columns, as "a, b"
    hilbert: str | None = None
    boundaries: str | None = None  # values of the order's first column: only files that straddle one are sorted
    max_overlap_depth: int = 4  # more files than this that hold the same range of the sort key are sorted again
    hot_window_seconds: int = 600  # the window in which `hot_commits` make a partition hot
    hot_commits: int = 2  # time_series and auto leave the newest files of a hot partition alone
    expire_snapshots: bool = False  # after the compaction, also if there was nothing to rewrite
    snapshot_retention_hours: float | None = None  # younger snapshots stay; default: the table's property, else 5 days
    parquet: Mapping[str, str] = field(default_factory=dict)  # overrides of write.parquet.* without the prefix

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"{name} must be at least 1, not {value}.")
        if self.target_file_size is not None and self.target_file_size < self.min_target_file_size:
            raise BadInput(
                f"target_file_size is {format_size(self.target_file_size)}, below the minimum of "
                f"{format_size(self.min_target_file_size)}.",
                hint="Give a larger one, such as 512MB. The setting limits.min_target_file_size is the minimum.",
            )
        self._check_order()
        if self.max_cost is not None and self.max_cost < 0:
            raise BadInput(f"max_cost must not be negative, not {self.max_cost}.")
        hours = self.snapshot_retention_hours
        if hours is not None and not 0 < hours <= MOST_RETENTION_HOURS:
            raise BadInput(f"snapshot_retention_hours must be above 0 and at most {MOST_RETENTION_HOURS}, not {hours}.")
        if self.max_delete_ratio < 0:
            raise BadInput(f"max_delete_ratio must not be negative, not {self.max_delete_ratio}.")

    def _check_order(self) -> None:
        asked = [name for name in ORDERS if getattr(self, name) is not None]
        if len(asked) > 1:
            raise BadInput(
                f"{' and '.join(asked)} exclude each other.", hint="Rows have one order: choose one of them."
            )
        if self.boundaries is not None and (curves := [name for name in asked if name != "sort"]):
            raise BadInput(
                f"boundaries do not go with {curves[0]}: rows along a curve are not in the order of one column.",
                hint="Sort by the column of the boundaries instead.",
            )
        if self.boundaries is not None and not asked and self.strategy is not Strategy.SORT:
            raise BadInput(
                "boundaries need a sort order, whose first column they are values of.",
                hint='Give one: sort = "table" for the order of the table, or "a, b".',
            )
        if asked and self.strategy not in (Strategy.AUTO, Strategy.SORT):
            raise BadInput(
                f"{asked[0]} does not go with the strategy {self.strategy.value}, which keeps rows as they are.",
                hint="Leave out the strategy, or choose sort.",
            )
        if asked:
            object.__setattr__(self, "strategy", Strategy.SORT)
        elif self.strategy is Strategy.SORT:
            object.__setattr__(self, "sort", TABLE_ORDER)
        if self.strategy is Strategy.SORT and self.rewrite_to_current_spec:
            raise BadInput(
                f"{(asked or ORDERS)[0]} does not go with rewrite_to_current_spec.",
                hint="Move the files first, and sort them with a second job.",
            )


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in dollars for object-store requests, allocated compute and storage."""

    get_per_1000: float = 0.0004
    put_per_1000: float = 0.005
    compute_per_gb_second: float = 0.0000166667
    storage_per_gb_month: float = 0.023


@dataclass(frozen=True, slots=True)
class Calibration:
    """How fast this installation rewrites. Earlier jobs teach it; the defaults were measured on a laptop."""

    jobs: int = 0
    encode_bytes_per_core_second: float = 45 * MB
    seconds_per_job: float = 4.0  # session start, planning, commit
    seconds_per_file: float = 0.01
    output_ratio: float = 1.0  # bytes written per byte read, for encoded groups
    copy_bytes_per_core_second: float = 400 * MB
    sort_bytes_per_core_second: float = 20 * MB  # a sort reads, divides, sorts and encodes
    merge_bytes_per_core_second: float = 20 * MB  # a merge of sorted files; those that fit into memory are sorted


INLINE = "inline"  # the name of the inline engine's resources


@dataclass(frozen=True, slots=True)
class Resources:
    """What the engine allocates while a job runs. The compute price depends on it."""

    cores: int = 2
    memory_gb: float = 4.0
    name: str = "local[2]"


def cores_of_task(cores: int, tasks: int) -> int:
    """Return how many cores each task may use for encoding."""
    return max(1, cores // max(1, tasks))
