"""Commits an expiry: removes snapshots, refs and statistics from the metadata.

The commit requires that every ref is where it was when the decision was made. Otherwise a rollback, a new commit or a
moved tag between the decision and the commit could need a snapshot that the commit removes. After a conflict the caller
decides again. The commit adds no snapshot, so the table itself shows whether it landed: what it removes is gone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from tidyberg.catalog.metadata_file import send_commit
from tidyberg.commit.loop import CommitKind, CommitLoop
from tidyberg.commit.ownership import metadata_file_id


class AssertSameRefs(ValidatableTableRequirement):
    """For catalogs that validate in PyIceberg: no branch or tag was created, moved or dropped.

    REST servers would not know this requirement. They get an assertion for each ref, which does not cover a new one.
    """

    type: Literal["assert-same-refs"] = Field(default="assert-same-refs")
    refs: dict[str, int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own
        if base_metadata is None or _targets(base_metadata) != self.refs:
            raise CommitFailedException("A branch or a tag was created, moved or dropped")


@dataclass(frozen=True)
class MetadataRemoval:
    """The parts of the table's metadata that one commit removes."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.snapshot_ids or self.refs or self.schema_ids or self.spec_ids)

    def is_done(self, metadata: TableMetadata) -> bool:
        """Returns True if all of it has left the table."""
        return (
            {one.snapshot_id for one in metadata.snapshots}.isdisjoint(self.snapshot_ids)
            and set(metadata.refs).isdisjoint(self.refs)
            and {one.schema_id for one in metadata.schemas}.isdisjoint(self.schema_ids)
            and {one.spec_id for one in metadata.partition_specs}.isdisjoint(self.spec_ids)
        )

    def requirements(self, catalog: Catalog, metadata: TableMetadata) -> tuple[TableRequirement, ...]:
        found: list[Any] = [AssertTableUUID(uuid=metadata.table_uuid)]
        found += [AssertRefSnapshotId(ref=name, snapshot_id=number) for name, number in _targets(metadata).items()]
        if self.schema_ids:
            found.append(AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id))
        if self.spec_ids:
            found.append(AssertDefaultSpecId(default_spec_id=metadata.default_spec_id))
        if not isinstance(catalog, RestCatalog):
            found.append(AssertSameRefs(refs=_targets(metadata)))
        return tuple(found)

    def updates(self, catalog: Catalog, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
        """Statistics go first, because PyIceberg removes those of a removed snapshot itself, and then misses them."""
        gone = set(self.snapshot_ids)
        statistics = dict.fromkeys(one.snapshot_id for one in metadata.statistics if one.snapshot_id in gone)
        by_partition = dict.fromkeys(
            one.snapshot_id for one in metadata.partition_statistics if one.snapshot_id in gone
        )
        found: list[Any] = [RemoveStatisticsUpdate(snapshot_id=number) for number in statistics]
        found += [RemovePartitionStatisticsUpdate(snapshot_id=number) for number in by_partition]
        found += [RemoveSnapshotRefUpdate(ref_name=name) for name in self.refs]
        if isinstance(catalog, RestCatalog):  # older servers take only one snapshot in an update
            found += [RemoveSnapshotsUpdate(snapshot_ids=[number]) for number in self.snapshot_ids]
        elif self.snapshot_ids:
            found.append(RemoveSnapshotsUpdate(snapshot_ids=list(self.snapshot_ids)))
        if self.spec_ids:
            found.append(RemovePartitionSpecsUpdate(spec_ids=list(self.spec_ids)))
        if self.schema_ids:
            found.append(RemoveSchemasUpdate(schema_ids=list(self.schema_ids)))
        return tuple(found)


def removable_refs(catalog: Catalog, metadata: TableMetadata, names: Sequence[str]) -> tuple[str, ...]:
    """PyIceberg refuses to remove a ref whose snapshot is missing. REST servers do it."""
    if isinstance(catalog, RestCatalog):
        return tuple(names)
    known = {one.snapshot_id for one in metadata.snapshots}
    return tuple(name for name in names if metadata.refs[name].snapshot_id in known)


@dataclass
class ExpiryPublisher(CommitKind[Table, MetadataRemoval, MetadataRemoval]):
    """Each attempt loads the table again, also the first.

    It may have taken minutes to find the files, and a REST server does not notice if a tag was created meanwhile.
    """

    loop: CommitLoop
    job_id: str
    decide: Callable[[Table], MetadataRemoval]  # is called for each state of the table that an attempt is based on
    about_to_write: Callable[[Sequence[str]], None]
    about_to_commit: Callable[[str, MetadataRemoval], None]  # gets the metadata file it is based on; raises to end it
    _sent: list[MetadataRemoval] = field(default_factory=list)

    purpose = "expire its snapshots"
    hint_if_unknown = "No file was deleted. Run `tidyberg recover` once the catalog answers again."

    def publish(self) -> MetadataRemoval:
        """Returns what was removed."""
        return self.loop.run(self) or MetadataRemoval()

    def observe(self, table: Table) -> Table:
        return table

    def landed(self, table: Table, _attempt: int) -> MetadataRemoval | None:
        # Newest first: an attempt that another tool completed removed no less than it wanted to.
        return next((sent for sent in reversed(self._sent) if sent.is_done(table.metadata)), None)

    def stage(self, table: Table, _attempt: int) -> MetadataRemoval | None:
        removal = self.decide(table)
        return None if removal.is_empty else removal

    def send(self, table: Table, removal: MetadataRemoval, attempt: int) -> MetadataRemoval:
        self.about_to_commit(table.metadata_location, removal)
        self._sent.append(removal)
        send_commit(
            self.loop.catalog,
            table,
            removal.requirements(self.loop.catalog, table.metadata),
            removal.updates(self.loop.catalog, table.metadata),
            file_id=metadata_file_id(f"{self.job_id}/expire/{attempt}"),
            about_to_write=self.about_to_write,
        )
        return removal

    def assumptions(self, table: Table) -> object:
        return _targets(table.metadata)


def _targets(metadata: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in sorted(metadata.refs.items())}
