"""A warehouse in a directory: makes tables of many small files, and reads their rows and files for assertions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tidyberg.testing.commits import LabCatalog, append_data_files
from tidyberg.testing.manifests import LiveFile, live_files
from tidyberg.testing.reading import local_path as local_path
from tidyberg.testing.reading import read_rows
from tidyberg.testing.samples import SAMPLE_SCHEMA, sample_rows


class Warehouse:
    """A SQLite catalog and its tables in one directory. `name` and `properties` open the same catalog elsewhere."""

    def __init__(self, directory: Path | str, name: str = "lab", properties: Mapping[str, str] | None = None) -> None:
        """`properties` are further properties of the catalog, such as another location for its tables."""
        self.directory = Path(directory).absolute()
        (self.directory / "warehouse").mkdir(parents=True, exist_ok=True)
        self.name = name
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.directory / 'catalog.db'}",
            "warehouse": f"file://{self.directory / 'warehouse'}",
            **(properties or {}),
        }
        self.catalog = LabCatalog(name, **{key: value for key, value in self.properties.items() if key != "type"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.catalog.engine.dispose()

    def create_table(
        self,
        identifier: str = "db.events",
        schema: Schema | pa.Schema = SAMPLE_SCHEMA,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
    ) -> Table:
        self.catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        return self.catalog.create_table(
            identifier,
            schema,
            partition_spec=partition_spec,
            properties={"format-version": str(format_version), **(properties or {})},
        )

    def append_files(
        self,
        table: Table,
        files: int,
        rows_per_file: int = 100,
        *,
        files_per_commit: int | None = None,
        values: Mapping[str, Any] | None = None,
        rows: Callable[[int], pa.Table] | None = None,
        seed: int = 0,
        branch: str = "main",
    ) -> Table:
        """Append `files` small files for each partition of their rows, by default in one commit.

        `rows(number)` returns the rows of one file. By default they are sample rows of the table's schema.
        """
        schema = table.refresh().schema()
        per_commit = files_per_commit or max(files, 1)
        for first in range(0, files, per_commit):
            written = [
                data_file
                for number in range(first, min(first + per_commit, files))
                for data_file in _dataframe_to_data_files(
                    table.metadata,
                    rows(number) if rows else sample_rows(rows_per_file, seed + number, schema, values),
                    table.io,
                )
            ]
            if table.metadata.format_version > 2:
                append_data_files(table, written, branch)
                continue
            with (
                table.transaction() as transaction,
                transaction.update_snapshot(branch=branch).fast_append() as append,
            ):
                for data_file in written:
                    append.append_data_file(data_file)
        return table

    def upgrade(self, table: Table, format_version: int) -> Table:
        """Raise the table's format version. Its snapshots and manifests stay unchanged."""
        self.catalog.upgrade(table, format_version)
        return table.refresh()

    def rows(
        self, table: Table, *, snapshot_id: int | None = None, branch: str | None = None, lineage: bool = False
    ) -> list[str]:
        """Return all rows as a sorted list of strings. Equal lists mean equal multisets, and NaN equals itself.

        Only Arrow and plain Python read the files and apply all deletes, including equality deletes. With `lineage`
        each row ends with its row lineage of format version 3: its id and its last updated sequence number.
        """
        table.refresh()
        if branch is not None:
            snapshot = table.metadata.snapshot_by_name(branch)
            assert snapshot is not None, f"no branch {branch}"
        elif snapshot_id is not None:
            snapshot = table.metadata.snapshot_by_id(snapshot_id)
            assert snapshot is not None, f"no snapshot {snapshot_id}"
        else:
            snapshot = table.current_snapshot()
        return sorted(repr(tuple(row.values())) for row in read_rows(table, snapshot, lineage=lineage))

    def live_files(self, table: Table) -> list[LiveFile]:
        """Return the data and delete files of the current snapshot, with their sequence numbers."""
        return live_files(table.refresh(), table.current_snapshot())

    def files_on_disk(self, table: Table) -> set[str]:
        """Return the absolute paths of all files below the table's location."""
        return {str(path) for path in Path(local_path(table.location())).rglob("*") if path.is_file()}

    def referenced_files(self, table: Table) -> set[str]:
        """Return the absolute paths of all files that the current metadata or any of its snapshots refers to."""
        table.refresh()
        found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path in found:
                    continue
                found.add(manifest.manifest_path)
                found.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
        return {local_path(location) for location in found}
