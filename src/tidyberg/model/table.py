"""Which table, and which state of it: a reference and a pinned snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidyberg.errors import BadInput

if TYPE_CHECKING:  # the command line names tables long before it needs to know what is in one
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

NAME_MAPPING = "schema.name-mapping.default"


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
    """What planning needs to know of one snapshot in the table's history."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str
    summary: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Pinned:
    """A table at one snapshot of one branch: all that later stages may assume about its metadata."""

    table: TableRef
    uuid: str
    location: str
    metadata_location: str
    format_version: int
    branch: str
    snapshot_id: int | None  # None: the branch has no snapshot yet, the table is empty
    sequence_number: int
    timestamp_ms: int | None
    schema: "Schema"
    specs: Mapping[int, "PartitionSpec"]
    default_spec_id: int
    sort_order_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, SnapshotInfo] = field(repr=False)
    schemas: Mapping[int, "Schema"] = field(default_factory=dict, repr=False)  # all of its history, by schema id
    branches: Mapping[str, int] = field(default_factory=dict, repr=False)  # all branches, by name: their heads
    metadata_bytes: int | None = None  # of its metadata.json; None: it cannot be looked up

    @property
    def name_mapping(self) -> str | None:
        """By which files without field ids are read, as the table has it."""
        return self.properties.get(NAME_MAPPING)
