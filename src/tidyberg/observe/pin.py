"""Pins a table at the head of a branch."""

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder

from tidyberg.errors import DamagedFile, UnknownReference
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.table import Pinned, SnapshotInfo, TableRef


def pin(table: Table, ref: TableRef, branch: str = MAIN_BRANCH, metadata_bytes: int | None = None) -> Pinned:
    """Pins the state in which `table` was loaded. A table without snapshots has a main branch without a head."""
    metadata = table.metadata
    snapshots = snapshots_of(metadata)
    snapshot_id = _head(table, ref, branch)
    head = snapshots.get(snapshot_id) if snapshot_id is not None else None
    if snapshot_id is not None and head is None:
        raise DamagedFile(
            f"{ref}: branch {branch} points to snapshot {snapshot_id}, which {table.metadata_location} lacks.",
            hint="Set the branch to a snapshot that exists.",
        )
    return Pinned(
        table=ref,
        uuid=str(metadata.table_uuid),
        location=table.location(),
        metadata_location=table.metadata_location,
        format_version=metadata.format_version,
        branch=branch,
        snapshot_id=snapshot_id,
        sequence_number=head.sequence_number if head else 0,
        timestamp_ms=head.timestamp_ms if head else None,
        schema=table.schema(),
        specs=dict(table.specs()),
        default_spec_id=metadata.default_spec_id,
        sort_order_id=metadata.default_sort_order_id,
        properties=dict(metadata.properties),
        snapshots=snapshots,
        schemas={schema.schema_id: schema for schema in metadata.schemas},
        branches={
            name: found.snapshot_id
            for name, found in sorted(metadata.refs.items())
            if found.snapshot_ref_type == SnapshotRefType.BRANCH
        },
        metadata_bytes=metadata_bytes,
        sort_orders={order.order_id: _sort_key(order) for order in metadata.sort_orders if order.fields},
    )


def _sort_key(order: SortOrder) -> SortKey:
    fields = (
        SortField(
            source_id=field.source_id,
            transform=str(field.transform),
            descending=field.direction == SortDirection.DESC,
            nulls_last=field.null_order == NullOrder.NULLS_LAST,
        )
        for field in order.fields
    )
    return SortKey(tuple(fields), order_id=order.order_id)


def snapshots_of(metadata: TableMetadata) -> dict[int, SnapshotInfo]:
    return {snapshot.snapshot_id: _info(snapshot) for snapshot in metadata.snapshots}


def metadata_size(table: Table) -> int | None:
    """Size of the current metadata.json, or None if it cannot be read: some catalogs keep it to themselves."""
    try:
        return len(table.io.new_input(table.metadata_location))
    except Exception:  # noqa: BLE001  # only the health score depends on it
        return None


def _head(table: Table, ref: TableRef, branch: str) -> int | None:
    references = table.metadata.refs
    found = references.get(branch)
    if found is None:
        if branch == MAIN_BRANCH:
            return table.metadata.current_snapshot_id
        names = sorted(name for name, one in references.items() if one.snapshot_ref_type == SnapshotRefType.BRANCH)
        raise UnknownReference(
            f"{ref} has no branch {branch!r}.",
            hint=f"Its branches are: {', '.join(names) or MAIN_BRANCH}.",
        )
    if found.snapshot_ref_type == SnapshotRefType.TAG:
        raise UnknownReference(
            f"{branch!r} is a tag of {ref}, and a tag cannot be compacted: it names one snapshot for good.",
            hint="Choose a branch, or create one from the tag.",
        )
    return found.snapshot_id


def _info(snapshot: Snapshot) -> SnapshotInfo:
    summary = snapshot.summary
    return SnapshotInfo(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        timestamp_ms=snapshot.timestamp_ms,
        operation=summary.operation.value if summary else "",
        summary=dict(summary.additional_properties) if summary else {},
    )
