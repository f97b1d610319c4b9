"""The files of a pinned snapshot as Arrow tables, one row per file. Files that no plan can select are only counted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa

from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.table import Pinned

# `partition` and `manifest` are positions in Inventory.partitions and Inventory.manifests.
# Sequence numbers are already inherited. Column metrics stay in the manifests until they are needed.
DATA_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("format", pa.dictionary(pa.int8(), pa.string()), nullable=False),  # upper case: PARQUET
        pa.field("size", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("file_sequence_number", pa.int64(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),  # the snapshot that added the file
        pa.field("manifest", pa.int32(), nullable=False),
        pa.field("sort_order_id", pa.int32()),
        pa.field("first_row_id", pa.int64()),
        pa.field("encrypted", pa.bool_(), nullable=False),
        pa.field("row_groups", pa.int32()),  # the number of split offsets; null if the manifest has none
    ]
)

DELETE_FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("format", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("kind", pa.dictionary(pa.int8(), pa.string()), nullable=False),  # position | equality | dv
        pa.field("scope", pa.dictionary(pa.int8(), pa.string()), nullable=False),  # file | partition | global
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("file_sequence_number", pa.int64(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("manifest", pa.int32(), nullable=False),
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size", pa.int64()),
    ]
)

# Counts of data files that are only counted (see CountedFileRule), with one row per partition and snapshot.
COUNTED_FILES = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),  # -1 for all snapshots that the table no longer has
        pa.field("files", pa.int64(), nullable=False),
        pa.field("small_files", pa.int64(), nullable=False),  # by the plan's limit
        pa.field("below_threshold", pa.int64(), nullable=False),  # by the statistics' limit
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("oldest", pa.int64(), nullable=False),  # the lowest sequence number
    ]
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition tuple of one spec. Values are PyIceberg's internal ones: days as int, decimals as Decimal."""

    spec_id: int
    values: tuple[Any, ...]
    path: str  # as in file locations: "day=2026-11-13/region=eu"; empty for an unpartitioned spec

    @property
    def label(self) -> str:
        return unquote_plus(self.path) or "(unpartitioned)"


@dataclass(frozen=True)
class Inventory:
    pinned: Pinned
    partitions: Sequence[Partition]
    manifests: Sequence[ManifestInfo]
    data_files: pa.Table
    delete_files: pa.Table
    counted_files: pa.Table = field(default_factory=COUNTED_FILES.empty_table)
    key_bounds: pa.Table | None = None  # of `observe/key_bounds.py`, one row per data file; None: they were not read


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """The numbers of one partition. Times are epoch milliseconds, or None if no snapshot says."""

    partition: int
    files: int
    small_files: int
    bytes: int
    records: int
    delete_files: int
    deleted_rows: int  # an upper bound: rows of position deletes and DVs, keys of equality deletes
    fragment_ratio: float
    last_write_ms: int | None
    last_compaction_ms: int | None
    recent_commits: int  # distinct snapshots that wrote here within the hot window
