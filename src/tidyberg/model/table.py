"""A reference to a table, and a snapshot of it that a job is pinned to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidyberg.errors import BadInput
from tidyberg.model.sort_key import SortKey

if TYPE_CHECKING:  # the command line needs TableRef, and starts faster without PyIceberg
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

NAME_MAPPING = "schema.name-mapping.default"


JOB_ID = "tidyberg.job-id"  # in the summaries of our own snapshots


@dataclass(frozen=True, slots=True)
class TableRef:
    catalog: str
    namespace: tuple[str, ...]
    name: str

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join(self.identifier)

    @classmethod
    def parse(cls, text: str, catalog: str) -> "TableRef":
        parts = text.split(".")
        if len(parts) < 2 or not all(part.strip() for part in parts):
            raise BadInput(f"{text!r} is not a table name.", hint="Write it as namespace.table.")
        return cls(catalog, tuple(parts[:-1]), parts[-1])


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """What planning needs to know about one snapshot of the table's history."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str
    summary: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_compaction(self) -> bool:
        """The snapshot changed no row: a replace, or a commit of tidyberg that had to be of another kind."""
        return self.operation == "replace" or JOB_ID in self.summary


@dataclass(frozen=True)
class Pinned:
    """A table at one snapshot of one branch. Later stages rely only on this state of its metadata."""

    table: TableRef
    uuid: str
    location: str
    metadata_location: str
    format_version: int
    branch: str
    snapshot_id: int | None  # None: the branch has no snapshot yet
    sequence_number: int
    timestamp_ms: int | None
    schema: "Schema"
    specs: Mapping[int, "PartitionSpec"]
    default_spec_id: int
    sort_order_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, SnapshotInfo] = field(repr=False)
    schemas: Mapping[int, "Schema"] = field(default_factory=dict, repr=False)  # all schemas of its history, by id
    branches: Mapping[str, int] = field(default_factory=dict, repr=False)  # the head snapshot of every branch, by name
    metadata_bytes: int | None = None  # the size of metadata.json; None: unknown
    sort_orders: Mapping[int, SortKey] = field(default_factory=dict, repr=False)  # all of its history, by id

    @property
    def name_mapping(self) -> str | None:
        """The table's name mapping, by which files without field ids are read."""
        return self.properties.get(NAME_MAPPING)
