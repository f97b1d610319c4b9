"""Commits manifests in any format version, as another engine would. PyIceberg writes neither deletes nor version 3."""

import uuid
from collections.abc import Mapping, Sequence

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestEntryStatus,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import MetadataLogEntry, Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from sqlalchemy import update
from sqlalchemy.orm import Session

from tidyberg.catalog.metadata_file import as_document, write_document
from tidyberg.commit.manifests import manifest_list, write_file
from tidyberg.commit.new_snapshot import next_row_id
from tidyberg.observe.manifest_list import ListedManifest, read_listed_manifests
from tidyberg.testing.avro import avro_file, encode_record


class LabCatalog(SqlCatalog):
    """PyIceberg's SQL catalog, which also supports tables of format version 3."""

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        document = as_document(metadata)
        if metadata.format_version >= 3:
            document.setdefault("next-row-id", 0)  # for new tables and for upgraded ones
        write_document(document, io, metadata_path, overwrite=False)

    def upgrade(self, table: Table, format_version: int) -> None:
        """Raise a table's format version. Its snapshots and manifests stay unchanged."""
        before = table.refresh().metadata
        assert format_version > before.format_version
        entry = {"metadata-file": table.metadata_location, "timestamp-ms": before.last_updated_ms}
        log = [*before.metadata_log, MetadataLogEntry.model_validate(entry)]
        staged = self._update_and_stage_table(table, table.name(), (), ())
        document = as_document(before.model_copy(update={"metadata_log": log})) | {"format-version": format_version}
        self._write_metadata(TableMetadataUtil.parse_obj(document), staged.io, staged.metadata_location)
        self.point_to(table, staged.metadata_location)

    def point_to(self, table: Table, metadata_location: str) -> None:
        """Make another metadata file the current one of the table."""
        *namespace, name = table.name()
        ours = (IcebergTables.table_namespace == ".".join(namespace), IcebergTables.table_name == name)
        with Session(self.engine) as session:
            session.execute(update(IcebergTables).where(*ours).values(metadata_location=metadata_location))
            session.commit()


def manifests_of(table: Table, branch: str = "main") -> list[ListedManifest]:
    """Return the manifest list of a branch, which is empty if the branch has no snapshot."""
    head = table.metadata.snapshot_by_name(branch)
    return read_listed_manifests(table.io, head.manifest_list) if head else []


def commit_manifests(
    table: Table,
    manifests: Sequence[ListedManifest],
    snapshot_id: int,
    operation: Operation,
    summary: Mapping[str, str],
    branch: str = "main",
) -> Table:
    """Commit a snapshot with exactly these manifests. New manifests name `snapshot_id` as the one that added them."""
    head = table.metadata.snapshot_by_name(branch)
    sequence_number = table.metadata.next_sequence_number()
    first_row_id = next_row_id(table)
    list_path = f"{table.location()}/metadata/snap-{snapshot_id}-0-{uuid.uuid4()}.avro"
    content, added_rows = manifest_list(
        manifests,
        snapshot_id=snapshot_id,
        parent_id=head.snapshot_id if head else None,
        sequence_number=sequence_number,
        format_version=table.metadata.format_version,
        first_row_id=first_row_id,
    )
    write_file(table.io, list_path, content)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id if head else None,
        sequence_number=sequence_number if table.metadata.format_version > 1 else None,
        manifest_list=list_path,
        summary=Summary(operation=operation, **summary),
        schema_id=table.metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=added_rows if first_row_id is not None else None,
    )
    ref = SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    requirement = AssertRefSnapshotId(ref=branch, snapshot_id=head.snapshot_id if head else None)
    table.catalog.commit_table(table, (requirement,), (AddSnapshotUpdate(snapshot=snapshot), ref))
    return table.refresh()


def append_data_files(table: Table, files: Sequence[DataFile], branch: str = "main") -> Table:
    """Append existing files, in one snapshot with one manifest."""
    snapshot_id = table.metadata.new_snapshot_id()
    version, spec = table.metadata.format_version, table.spec()
    data_file_type = data_file_with_partition(spec.partition_type(table.schema()), version)
    schema = manifest_entry_schema_with_data_file(version, data_file_type)
    bodies = []
    for file in files:
        # PyIceberg made it in the layout of version 2, so newer fields are null.
        data_file = Record(*(getattr(file, field.name, None) for field in data_file_type.fields))
        values = {"status": ManifestEntryStatus.ADDED, "snapshot_id": snapshot_id, "data_file": data_file}
        bodies.append(encode_record(schema, Record(*(values.get(field.name) for field in schema.fields))))
    metadata = {
        "schema": table.schema().model_dump_json(),
        "partition-spec": f"[{','.join(field.model_dump_json() for field in spec.fields)}]",
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(version),
        "content": "data",
    }
    content = avro_file(schema, "manifest_entry", bodies, metadata)
    path = f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro"
    write_file(table.io, path, content)
    summaries = construct_partition_summaries(spec, table.schema(), [file.partition for file in files])
    rows = sum(file.record_count for file in files)
    added = ListedManifest(
        {
            500: path,
            501: len(content),
            502: spec.spec_id,
            517: 0,
            503: snapshot_id,
            504: len(files),
            505: 0,
            506: 0,
            512: rows,
            513: 0,
            514: 0,
            507: [
                {509: s.contains_null, 518: s.contains_nan, 510: s.lower_bound, 511: s.upper_bound} for s in summaries
            ],
        }
    )
    summary = {"added-data-files": str(len(files)), "added-records": str(rows)}
    lines = [*manifests_of(table, branch), added]
    return commit_manifests(table, lines, snapshot_id, Operation.APPEND, summary, branch)
