"""What travels to a worker and back. Standard library only: this module is shipped to executors."""

import re
from dataclasses import dataclass, field
from typing import Any

from tidyberg.model.manifest import ManifestInfo, RestRule


@dataclass(frozen=True, slots=True)
class NanFacts:
    """What a manifest says of a float column of a file: Parquet's footers do not count NaN."""

    field_id: int
    count: int
    lower: bytes | None = None  # only where there is NaN: else the footer has the bounds
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Of a file that several tasks read: the bytes that one takes. Which rows that are, workers see in the footer."""

    begin: int
    end: int
    slack: int  # bytes: a cut that is so near to a border of row groups is made there


@dataclass(frozen=True, slots=True)
class TaskInput:
    path: str
    size: int
    records: int
    sequence_number: int = 0
    first_row_id: int | None = None  # of its first row in a v3 table, once the table has given its rows ids
    nans: tuple[NanFacts, ...] = ()  # of a file to copy; a float column that is absent here has an unknown number
    share: Share | None = None  # None: all of it

    @property
    def bytes_taken(self) -> int:
        return self.size if self.share is None else self.share.end - self.share.begin

    @property
    def rows_expected(self) -> int:
        """About as many as are taken; exactly, where all are."""
        return self.records if self.share is None else self.records * self.bytes_taken // max(1, self.size)


@dataclass(frozen=True, slots=True)
class TaskDelete:
    """A delete file that applies to some inputs; by the same rule as the plan's `DeleteFile`."""

    path: str
    kind: str  # position | equality | dv
    size: int
    sequence_number: int
    referenced_data_file: str | None = None
    equality_ids: tuple[int, ...] = ()
    content_offset: int | None = None
    content_size: int | None = None
    records: int | None = None  # as the manifest counts them, where it is known
    content: bytes | None = None  # the file's (for a DV: the blob's) bytes, where they are small enough to travel along


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A field of a partition spec: the column it is computed from, and how."""

    source_id: int
    transform: str  # as specs spell it: identity, bucket[16], truncate[4], day, ...


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """The table's write properties, resolved for Arrow's Parquet writer."""

    compression: str = "zstd"
    compression_level: int | None = None
    row_group_bytes: int = 128 * 1024 * 1024
    row_group_rows: int = 1_048_576
    page_bytes: int = 1024 * 1024
    page_rows: int = 20_000
    dictionary: bool = True
    dictionary_bytes: int = 2 * 1024 * 1024
    bloom_filter_columns: tuple[tuple[int, float], ...] = ()  # field id, false positive probability
    # Field id -> "none" | "counts" | "truncate(N)" | "full"; a leaf that is absent here is "none".
    metrics_modes: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One group, or a part of one, rewritten by one worker. Holds no secret: storage access travels apart."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes  # IPC schema of the output; every field, nested ones too, carries PARQUET:field_id
    iceberg_schema: str  # JSON, kept in the output's footer as Iceberg's own writers do
    output_directory: str
    outputs: int  # how many files the plan promised
    target_bytes: int
    max_bytes: int
    write: WriteSettings
    batch_rows: int = 131_072
    memory_bytes: int = 256 * 1024 * 1024  # Arrow memory that one row group may take before it is flushed
    # Of fields, nested ones too, that a file lacks: identity partition values and initial defaults, by field id.
    constants: dict[int, Any] = field(default_factory=dict)
    # For files without field ids: ids by the names that lead to them. None: the first column is field 1, and so on.
    name_mapping: dict[tuple[str, ...], int] | None = None
    lineage: bool = False  # v3: also write each row's id and the sequence number of its last update [I8]
    partitioning: tuple[PartitionColumn, ...] | None = None  # sort rows into these partitions; None: they share one
    checksum: bool = False  # also sum up the contents of the rows, for full verification
    after_death: bool = False  # a process died over the table: look for files that may have ended it
    cores: int = 1  # that encoding may use: several, where there are more cores than tasks
    deletes: tuple[TaskDelete, ...] = ()
    # IPC schemas of the columns of each set of equality ids, by the ids: also columns since dropped from the table.
    equality_schemas: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    mode: str = "encode"  # encode | copy: a worker that cannot prove a copy safe encodes, and says why
    splices: bool = False  # where rows are encoded, pages that need not be decoded may be moved as they are
    min_row_group_bytes: int = 0  # on average: smaller row groups are not worth keeping, so they are encoded
    max_outputs: int = 100_000  # files that it may write; one more ends it
    parts: int = 1  # tasks that the group is to be divided among
    part: int | None = None  # which of them this is; None: it has the whole group


def output_name(job_id: str, group_id: int, attempt: int, number: int, part: int | None = None) -> str:
    """By it recovery finds the outputs of a job in a listing of their directory."""
    group = f"g{group_id:05d}" if part is None else f"g{group_id:05d}p{part:04d}"
    return f"{output_prefix(job_id)}{group}-a{attempt:02d}-{number:04d}.parquet"


def output_prefix(job_id: str) -> str:
    """What the names of all outputs of a job begin with."""
    return f"tidyberg-{job_id}-"


OUTPUT_NAME = re.compile(
    r"tidyberg-(?P<run>.+)-g(?P<group>\d{5,9})(?:p(?P<part>\d{4,9}))?-a(?P<attempt>\d{2,9})-(?P<number>\d{4,9})\.parquet"
)


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
    digest: str = ""  # SHA-256 of the file's bytes, taken while they were written
    footer_digest: str = ""  # of a copied file, whose other bytes nobody saw: SHA-256 of what describes them
    partition: tuple[Any, ...] | None = None  # values of the spec that rows were sorted into; None: as the inputs


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What the footers of a set of files say of one leaf; bounds in Iceberg's binary form, None where unknown."""

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
    # Per field id, from the inputs' own footers, for verification; empty where a footer has no statistics.
    input_facts: dict[int, ColumnFacts] = field(default_factory=dict)
    output_facts: dict[int, ColumnFacts] = field(default_factory=dict)  # untruncated, from the outputs' footers
    checksum: str | None = None  # of the rows handed to the writer
    warnings: tuple[str, ...] = ()
    started_ns: int = 0  # by the worker's clock, since 1970; 0: unknown
    mode: str = "encode"  # how the outputs were written: encode | copy
    mode_reason: str = ""  # why a task meant to be copied was encoded
    requests: dict[str, int] = field(default_factory=dict)  # to storage, by kind (get, put, ...); empty: not counted
    bytes_moved: int = 0  # copied inside the store: they never crossed the worker
    bytes_spliced: int = 0  # of an encoded group: pages moved as they are, without being decoded
    spliced_files: tuple[str, ...] = ()  # the inputs that these pages are of
    splice_reason: str = ""  # why a task that began to splice encoded everything
    files_joined: int = 0  # tiny inputs that were read many at once, as one file in memory
    # Of a copied group, from the footers of its inputs and of the outputs: rows and compressed bytes of each row group.
    input_row_groups: tuple[tuple[int, int], ...] = ()
    output_row_groups: tuple[tuple[int, int], ...] = ()
    part: int | None = None  # of a group that several tasks rewrote
    rows_taken: dict[str, tuple[int, int]] = field(default_factory=dict)  # of files it shared, by path: from, up to


@dataclass(frozen=True, slots=True)
class ChecksumTask:
    """Read files back and sum up their rows, independent of order."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes
    batch_rows: int = 131_072
    lineage: bool = False  # the rows' lineage counts too: as stored, else as inherited from the inputs
    described: tuple[WrittenFile, ...] = ()  # those of the inputs to check: what they say, and what manifests will say
    sources: tuple[TaskInput, ...] = ()  # files whose bytes the inputs may hold, with all that was false in them


@dataclass(frozen=True, slots=True)
class ChecksumResult:
    job_id: str
    group_id: int
    rows: int
    checksum: str
    problems: tuple[str, ...] = ()  # what files or their manifests say that is not true


@dataclass(frozen=True, slots=True)
class AuditTask:
    """Read files of one partition as a reader of the table would, deletes applied, and tell which rows they hold."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    arrow_schema: bytes
    constants: dict[int, Any] = field(default_factory=dict)
    name_mapping: dict[tuple[str, ...], int] | None = None
    lineage: bool = False  # v3: a row's id and the sequence number of its last update are part of it
    deletes: tuple[TaskDelete, ...] = ()
    equality_schemas: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    parts: tuple[int, ...] | None = None  # None: sums over all rows; else every row whose hash is in these parts
    batch_rows: int = 131_072


@dataclass(frozen=True, slots=True)
class AuditResult:
    job_id: str
    group_id: int
    rows: int
    rows_deleted: int
    sums: bytes = b""  # per part of the hashes: rows, and the sums of both lanes
    hashes: tuple[bytes, ...] = ()  # per input: the rows asked for, deleted ones too


@dataclass(frozen=True, slots=True)
class DigestTask:
    """Take the SHA-256 of files, or of their footers."""

    job_id: str
    group_id: int
    inputs: tuple[TaskInput, ...]
    footers_of: frozenset[str] = frozenset()  # paths


@dataclass(frozen=True, slots=True)
class DigestResult:
    job_id: str
    group_id: int
    digests: tuple[str, ...]
    partly_numbered: tuple[str, ...] = ()  # files of which only some row groups have an ordinal, by their footers


@dataclass(frozen=True, slots=True)
class ManifestTask:
    """Read manifests and tell their live entries, or only count those of files that rest."""

    job_id: str
    group_id: int
    manifests: tuple[ManifestInfo, ...]
    rest: RestRule | None = None  # None: none rests

    @property
    def inputs(self) -> tuple[TaskInput, ...]:
        return tuple(TaskInput(manifest.path, manifest.length, 0) for manifest in self.manifests)


@dataclass(frozen=True, slots=True)
class ManifestResult:
    job_id: str
    group_id: int
    packed: tuple[Any, ...]  # by manifests/arrow_ipc.py


AnyTask = Task | ChecksumTask | AuditTask | DigestTask | ManifestTask
AnyResult = TaskResult | ChecksumResult | AuditResult | DigestResult | ManifestResult
