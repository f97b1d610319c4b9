"""Adds a snapshot to a branch: its numbers, and the updates and requirements of the commit.

Compactions and rewrites of manifests share this.
"""

from typing import Any, Literal

from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from tidyberg.commit.fence import needless_fences
from tidyberg.commit.statistics import carried_statistics
from tidyberg.model.table import JOB_ID as JOB_ID
from tidyberg.storage.table_files import damaged

CHUNK = "tidyberg.chunk"


class AssertLastSequenceNumber(ValidatableTableRequirement):
    """Requires that no other branch took our sequence number, and that no upgrade changed what a snapshot must contain.

    Only for catalogs that PyIceberg validates. REST servers check this themselves and do not know this requirement.
    """

    type: Literal["assert-last-sequence-number"] = Field(default="assert-last-sequence-number")
    last_sequence_number: int
    format_version: int

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own
        if base_metadata is None or last_sequence_number(base_metadata) != self.last_sequence_number:
            raise CommitFailedException("Another commit took the next sequence number")
        if base_metadata.format_version != self.format_version:
            raise CommitFailedException(f"The table was upgraded to format version {base_metadata.format_version}")


def snapshot_of_job(metadata: TableMetadata, job_id: str, chunk: int) -> Snapshot | None:
    """Returns the snapshot of one chunk of a job. Finding it proves success. Not finding it proves nothing [I7]."""
    for snapshot in metadata.snapshots:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if summary.get(JOB_ID) == job_id and int(summary.get(CHUNK, 0)) == chunk:
            return snapshot
    return None


def last_sequence_number(metadata: TableMetadata) -> int:
    """Returns 0 for format version 1, which has no sequence numbers."""
    return int(getattr(metadata, "last_sequence_number", 0) or 0)


def next_row_id(table: Table) -> int | None:
    """Returns the first row id of the next snapshot, or None below format version 3, which has no row ids."""
    metadata = table.metadata
    if not isinstance(metadata, TableMetadataV3):
        return None
    if metadata.next_row_id is None:
        raise damaged(table.metadata_location, "it has no next-row-id, which format version 3 requires")
    return metadata.next_row_id


def next_number(table: Table) -> int | None:
    """Returns the sequence number of the next commit. Format version 1 has none."""
    return table.metadata.next_sequence_number() if table.metadata.format_version > 1 else None


def numbering(table: Table) -> tuple[int, int, int | None]:
    """Returns what another branch that takes our sequence number changes, or an upgrade of the format."""
    return table.metadata.format_version, last_sequence_number(table.metadata), next_row_id(table)


def new_snapshot(
    table: Table, head: Snapshot, snapshot_id: int, list_path: str, summary: Summary, added_rows: int, now_ms: int
) -> Snapshot:
    metadata, first_row_id = table.metadata, next_row_id(table)
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=next_number(table),
        # A snapshot must not be older than the table's last update, even if clocks differ.
        timestamp_ms=max(now_ms, metadata.last_updated_ms),
        manifest_list=list_path,
        summary=summary,
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=added_rows if first_row_id is not None else None,
    )


def commit_requirements(
    catalog: Catalog, metadata: TableMetadata, branch: str, parent_id: int
) -> tuple[TableRequirement, ...]:
    requirements: list[Any] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=branch, snapshot_id=parent_id),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
    ]
    if not isinstance(catalog, RestCatalog):
        requirements.append(
            AssertLastSequenceNumber(
                last_sequence_number=last_sequence_number(metadata), format_version=metadata.format_version
            )
        )
    return tuple(requirements)


def snapshot_updates(metadata: TableMetadata, branch: str, snapshot: Snapshot) -> tuple[TableUpdate, ...]:
    ref = metadata.refs[branch]
    return (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot.snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
        ),
        *carried_statistics(metadata, ref.snapshot_id, snapshot.snapshot_id),
        *needless_fences(metadata),
    )
