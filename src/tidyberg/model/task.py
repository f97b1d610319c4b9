"""The tasks and results that engines and workers exchange. It is shipped, so it needs only the standard library."""

import re
from dataclasses import dataclass, field
from typing import Any

from tidyberg.model.manifest import CountedFileRule, ManifestInfo
from tidyberg.model.shuffle import ScratchMapResult, ScratchMapTask, ScratchReduceResult, ScratchReduceTask
from tidyberg.model.sort_key import SortKey
from tidyberg.model.task_input import NanFacts as NanFacts
from tidyberg.model.task_input import Share as Share
from tidyberg.model.task_input import TaskInput as TaskInput

KEY_MEMORY_BYTES = 256 * 1024 * 1024  # the most that a task which only reads spends on a look-up of deleted keys


@dataclass(frozen=True, slots=True)
class TaskDelete:
    """A delete file that applies to some inputs, by the same rule as the plan's `DeleteFile`.

    A `joined` file holds rows that a join has found for equality deletes up to its sequence number.
    """

    path: str
    kind: str  # position | equality | dv | joined
    size: int
    sequence_number: int
    referenced_data_file: str | None = None
    equality_ids: tuple[int, ...] = ()
    content_offset: int | None = None
    content_size: int | None = None
    records: int | None = None  # the count of the manifest, if it is known
    content: bytes | None = None  # the bytes of the file (or of a DV's blob), if they are small enough to ship


@dataclass(frozen=True, slots=True)
class TaskPartitionField:
    """A field of a partition spec: its source column and its transform."""

    source_id: int
    transform: str  # as in the spec's JSON: identity, bucket[16], truncate[4], day, ...


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The table's write properties, converted for Arrow's Parquet writer."""

    compression: str = "zstd"
    compression_level: int | None = None
    row_group_bytes: int = 128 * 1024 * 1024
    row_group_rows: int = 1_048_576
    page_bytes: int = 1024 * 1024
    page_rows: int = 20_000
    dictionary: bool = True
    dictionary_bytes: int = 2 * 1024 * 1024
    bloom_filter_columns: tuple[tuple[int, float], ...] = ()  # field id, false positive probability
    # Field id -> "none" | "counts" | "truncate(N)" | "full". The default for a leaf is "none".
    metrics_modes: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A group, or a part of one, that one worker rewrites. It holds no secret: `StorageAccess` is sent separately."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes  # the IPC schema of the output; every field, also a nested one, has PARQUET:field_id
    iceberg_schema: str  # JSON, which goes into the output's footer, as Iceberg's own writers do
    output_directory: str
    outputs: int  # the planned number of files
    target_bytes: int
    max_bytes: int
    write: WriteSettings
    batch_rows: int = 131_072
    memory_bytes: int = 256 * 1024 * 1024  # the most Arrow memory of a row group before it is flushed
    # The values of fields that a file lacks, by field id: identity partition values and initial defaults.
    constants: dict[int, Any] = field(default_factory=dict)
    # For files without field ids: the id of each path of names. None: the first column is field 1, and so on.
    name_mapping: dict[tuple[str, ...], int] | None = None
    lineage: bool = False  # v3: also write _row_id and _last_updated_sequence_number [I8]
    partitioning: tuple[TaskPartitionField, ...] | None = None  # sort rows into partitions; None: they share one
    checksum: bool = False  # also compute a checksum of the rows, for full verification
    after_death: bool = False  # an earlier process died on this table, so check for files that may have caused it
    cores: int = 1  # cores for encoding; more than one if there are more cores than tasks
    deletes: tuple[TaskDelete, ...] = ()
    # The IPC schema of the columns for each set of equality ids. It includes columns that were dropped since.
    equality_schemas: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    # encode | copy | deletes | sort | merge. A worker that cannot prove a copy safe encodes, and reports why. "deletes"
    # merges the deletes of the inputs and leaves their rows where they are. "merge" is for inputs that claim to be in
    # the order of the sort key. A worker that finds a false claim sorts, or encodes without a claim, and says so.
    mode: str = "encode"
    sort_key: SortKey | None = None  # set for "sort" and "merge"
    # For "sort": outputs end at these values of the key's first field. They are single values, as the specification
    # serializes them, in ascending order.
    boundaries: tuple[bytes, ...] = ()
    vectors: bool = False  # for "deletes": write deletion vectors, as v3 requires; otherwise position delete files
    splices: bool = False  # whether encoding may move pages that need not be decoded
    min_row_group_bytes: int = 0  # row groups of a smaller average size are encoded, not copied
    max_outputs: int = 100_000  # the task fails if it would write more files
    parts: int = 1  # the number of tasks that the group is divided into
    part: int | None = None  # the number of this task among them; None: it has the whole group


def output_name(
    job_id: str, group_id: int, attempt: int, number: int, part: int | None = None, ending: str = "parquet"
) -> str:
    """Return the name of an output. Recovery recognizes the outputs of a job by these names."""
    group = f"g{group_id:05d}" if part is None else f"g{group_id:05d}p{part:04d}"
    return f"{output_prefix(job_id)}{group}-a{attempt:02d}-{number:04d}.{ending}"


def output_prefix(job_id: str) -> str:
    """Return the prefix of the names of all outputs of a job."""
    return f"tidyberg-{job_id}-"


OUTPUT_NAME = re.compile(
    r"tidyberg-(?P<run>.+)-g(?P<group>\d{5,9})(?:p(?P<part>\d{4,9}))?-a(?P<attempt>\d{2,9})-(?P<number>\d{4,9})"
    r"\.(?:parquet|puffin)"
)


def scratch_name(job_id: str, join: int, part: int, attempt: int, number: int, ending: str = "parquet") -> str:
    """Return the name of a file that a join keeps for later tasks of its job. No snapshot ever references it."""
    return f"{output_prefix(job_id)}j{join:05d}p{part:04d}-a{attempt:02d}-{number:04d}.{ending}"


SCRATCH_NAME = re.compile(r"tidyberg-(?P<run>.+)-j(?P<join>\d{5,9})p\d{4,9}-a\d{2,9}-\d{4,9}\.(?:parquet|filter)")


@dataclass(frozen=True, slots=True)
class WrittenDelete:
    """The deleted rows of one data file, in a file that a minor compaction wrote."""

    data_file: str
    records: int  # positions
    digest: str  # the SHA-256 of the sorted positions, computed before they were encoded
    content_offset: int | None = None  # of a deletion vector in a Puffin file
    content_size: int | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    path: str
    size: int
    records: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: tuple[int, ...]
    digest: str = ""  # the SHA-256 of the file, computed while it was written
    footer_digest: str = ""  # for a copied file, whose data the worker did not see: the SHA-256 of its metadata
    partition: tuple[Any, ...] | None = None  # the partition that rows were sorted into; None: that of the inputs
    deletes: tuple[WrittenDelete, ...] = ()  # set for a file of deletes; its records are then positions
    sort_order_id: int | None = None  # set only if the worker has seen that the rows are in this order of the table


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """The statistics of one leaf in the footers of some files. Bounds have Iceberg's binary form; None: unknown."""

    values: int
    nulls: int | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True)
class TaskResult:
    job_id: str
    group_id: int
    attempt: int
    outputs: tuple[WrittenFile, ...]
    rows_read: int
    rows_deleted: int
    rows_written: int
    bytes_read: int
    bytes_written: int
    seconds: float
    peak_rss_bytes: int
    # By field id, from the inputs' footers, for verification. Empty if a footer has no statistics.
    input_facts: dict[int, ColumnFacts] = field(default_factory=dict)
    output_facts: dict[int, ColumnFacts] = field(default_factory=dict)  # not truncated, from the outputs' footers
    checksum: str | None = None  # of the rows that the writer received
    warnings: tuple[str, ...] = ()
    started_ns: int = 0  # since 1970, by the worker's clock; 0: unknown
    mode: str = "encode"  # encode | copy | deletes
    mode_reason: str = ""  # why a task planned as a copy was encoded
    requests: dict[str, int] = field(default_factory=dict)  # storage requests by kind; empty: not counted
    bytes_moved: int = 0  # copied inside the object store, not through the worker
    bytes_spliced: int = 0  # pages of an encoded group that were moved without being decoded
    spliced_files: tuple[str, ...] = ()  # the inputs that these pages come from
    splice_reason: str = ""  # why a task that began to splice encoded everything
    files_joined: int = 0  # small inputs that were joined in memory and read as one
    # For a copied group: the rows and compressed bytes of each row group, from the footers.
    input_row_groups: tuple[tuple[int, int], ...] = ()
    output_row_groups: tuple[tuple[int, int], ...] = ()
    part: int | None = None  # the part of a group that several tasks rewrote
    rows_taken: dict[str, tuple[int, int]] = field(default_factory=dict)  # shared file -> first row, end row


@dataclass(frozen=True, slots=True)
class ChecksumTask:
    """Reads files back and computes a checksum of their rows that does not depend on their order."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes
    batch_rows: int = 131_072
    lineage: bool = False  # the checksum includes row lineage, stored or inherited
    described: tuple[WrittenFile, ...] = ()  # the inputs whose footers and future manifest entries are checked
    sources: tuple[TaskInput, ...] = ()  # the inputs may be copies of these; their false statements are not reported
    sort_key: SortKey | None = None  # the order that the inputs claim; None: they claim none


@dataclass(frozen=True, slots=True)
class ChecksumResult:
    job_id: str
    group_id: int
    rows: int
    checksum: str
    problems: tuple[str, ...] = ()  # false statements in the files or in their manifest entries


@dataclass(frozen=True, slots=True)
class AuditTask:
    """Reads files of one partition, applies their deletes, and returns hashes of the rows."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes
    constants: dict[int, Any] = field(default_factory=dict)
    name_mapping: dict[tuple[str, ...], int] | None = None
    lineage: bool = False  # v3: the hash of a row includes its row lineage
    deletes: tuple[TaskDelete, ...] = ()
    equality_schemas: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    parts: tuple[int, ...] | None = None  # None: sums over all rows; otherwise the rows in these parts
    batch_rows: int = 131_072
    key_memory_bytes: int = KEY_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class AuditResult:
    job_id: str
    group_id: int
    rows: int
    rows_deleted: int
    sums: bytes = b""  # for each part of the hash space: the number of rows and two sums of hashes
    hashes: tuple[bytes, ...] = ()  # for each input: the requested rows, including deleted ones


@dataclass(frozen=True, slots=True)
class DigestTask:
    """Computes the SHA-256 of files or of their footers."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    footers_of: frozenset[str] = frozenset()  # paths


@dataclass(frozen=True, slots=True)
class DigestResult:
    job_id: str
    group_id: int
    digests: tuple[str, ...]
    partly_numbered: tuple[str, ...] = ()  # files in which only some row groups have an ordinal


@dataclass(frozen=True, slots=True)
class ManifestTask:
    """Reads manifests and returns their live entries. Files that no plan can select are only counted."""

    job_id: str
    group_id: int
    manifests: tuple[ManifestInfo, ...]
    rest: CountedFileRule | None = None  # None: every file is listed
    only: tuple[str, ...] | None = None  # the columns that are needed; None: all of them, and the partitions

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return tuple(TaskInput(manifest.path, manifest.length, 0) for manifest in self.manifests)


@dataclass(frozen=True, slots=True)
class ManifestResult:
    job_id: str
    group_id: int
    packed: tuple[Any, ...]  # encoded by manifests/arrow_ipc.py


@dataclass(frozen=True, slots=True)
class ListTask:
    """Lists parts of a directory, and stops soon after it has found more than `limit` files."""

    job_id: str
    group_id: int
    root: str
    parts: tuple[Any, ...]  # PrefixPart of storage/listing.py
    limit: int

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return (TaskInput(self.root, 0, 0),) * len(self.parts)


@dataclass(frozen=True, slots=True)
class ListResult:
    job_id: str
    group_id: int
    files: bytes  # a table of storage/listing.py, packed by manifests/arrow_ipc.py
    rest: tuple[Any, ...]  # the parts that are left


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Reads some rows of the columns of a sort key, and measures how much memory whole rows need."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes
    key: SortKey
    rows: int  # how many to return
    row_groups: int  # the most row groups to read of a file
    constants: dict[int, Any] = field(default_factory=dict)
    name_mapping: dict[tuple[str, ...], int] | None = None


@dataclass(frozen=True, slots=True)
class SampleResult:
    job_id: str
    group_id: int
    rows: bytes  # an Arrow IPC stream
    bytes_per_row: float  # in memory, of all columns, with the small dictionaries
    dictionaries: dict[int, bool]  # by field id: whether a dictionary pays in an output; others are undecided
    small_dictionaries: frozenset[int]  # ids of strings that are best kept as dictionaries while rows are moved
    plain_bytes_per_row: float = 0.0  # the same without dictionaries, as one task sorts them


ScratchTask = ScratchMapTask | ScratchReduceTask
AnyTask = Task | ChecksumTask | AuditTask | DigestTask | ManifestTask | ListTask | SampleTask | ScratchTask
AnyResult = (
    TaskResult
    | ChecksumResult
    | AuditResult
    | DigestResult
    | ManifestResult
    | ListResult
    | SampleResult
    | ScratchMapResult
    | ScratchReduceResult
)
