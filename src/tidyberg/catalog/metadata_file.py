"""Writes the metadata.json of a commit for SQL, Glue and Hive catalogs, which expect the client to write it.

PyIceberg would write only the fields that it knows, and so drop others, such as encryption keys. It also refuses to
write format version 3. So this module applies the changes of a commit to the previous JSON document. The caller
gives the file an id, so that recovery can find it.
"""

import copy
import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any
from uuid import UUID

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import IcebergBaseModel

from tidyberg.storage import table_files as objects


def catalog_for_attempt(catalog: Catalog, file_id: UUID, about_to_write: Callable[[Sequence[str]], None]) -> Catalog:
    """Return the catalog, changed so that this module writes the metadata file of a commit.

    `file_id` becomes part of the file's name. It is unique among all attempts of all jobs.

    PyIceberg would choose a random name, and leave the file behind if the swap fails or the process dies.
    """
    if isinstance(catalog, RestCatalog):
        return catalog
    assert isinstance(catalog, MetastoreCatalog), f"{type(catalog).__name__} cannot commit; it is refused when opened"
    named = copy.copy(catalog)
    stage = catalog._update_and_stage_table
    parents: list[Table] = []

    def stage_with_known_location(current_table: Table | None, *args: Any) -> StagedTable:
        staged: StagedTable = stage(current_table, *args)
        assert current_table is not None, "the requirements need a table"
        directory, _, name = staged.metadata_location.rpartition("/")
        version = name.partition("-")[0]
        suffix = name[name.index(".") :]
        staged.metadata_location = f"{directory}/{version}-{file_id}{suffix}"
        about_to_write([staged.metadata_location])
        parents.append(current_table)
        return staged

    def write(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        write_document(changed_document(parents[-1], metadata), io, metadata_path, overwrite=False)

    def write_without_looking(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        write_document(changed_document(parents[-1], metadata), io, metadata_path, overwrite=True)

    named._update_and_stage_table = stage_with_known_location  # type: ignore[method-assign,assignment]
    named._write_metadata = write  # type: ignore[method-assign]
    if hasattr(named, "_write_metadata_no_exist_check"):  # Glue, because S3 Tables cannot check whether a file exists
        named._write_metadata_no_exist_check = write_without_looking
    return named


def send_commit(
    catalog: Catalog,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    *,
    file_id: UUID,
    about_to_write: Callable[[Sequence[str]], None],
) -> CommitTableResponse:
    """Send a commit. After any error of the client, only the table shows whether the commit succeeded."""
    named = catalog_for_attempt(catalog, file_id, about_to_write)
    response = named.commit_table(table, requirements, updates)
    if not isinstance(named, RestCatalog):
        named._delete_old_metadata(table.io, table.metadata, response.metadata)
    return response


def swaps_in_process(catalog: Catalog) -> bool:
    """Whether no swap can happen after the call or the process has ended. This is true for SQLite.

    A database server may finish a COMMIT after its client is gone, when its disk or its standby answers.
    """
    return isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "sqlite"


def swaps_blindly(catalog: Catalog) -> bool:
    """Whether a commit can overwrite another one. This is true for Hive.

    PyIceberg locks the table and then alters it. It does not notice if the lock expired while the process was stopped.
    """
    return any(kind.__name__ == "HiveCatalog" for kind in type(catalog).__mro__)  # the Hive client may not be installed


def changed_document(parent: Table, metadata: TableMetadata) -> dict[str, Any]:
    """Apply the changes in `metadata` to the parent's document. Unknown fields stay."""
    unpack = Compressor.get_compressor(parent.metadata_location).stream_decompressor
    with unpack(BytesIO(objects.fetch(parent.io, parent.metadata_location))) as stream:
        text = bytes(stream.read()).decode()
    document: dict[str, Any] = json.loads(text)
    before, after = as_document(TableMetadataUtil.parse_raw(text)), as_document(metadata)
    # No update changes a snapshot. PyIceberg removes the parent's id from the children of a snapshot that it removes,
    # and then incremental readers that have read up to that parent could not go on.
    known = {snapshot["snapshot-id"]: snapshot for snapshot in before.get("snapshots") or ()}
    after["snapshots"] = [known.get(one["snapshot-id"], one) for one in after.get("snapshots") or ()]
    merged: dict[str, Any] = _merge(document, before, after)
    return merged


def as_document(metadata: TableMetadata) -> dict[str, Any]:
    """Convert metadata to JSON, also for format version 3, which PyIceberg's own method refuses."""
    document: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(metadata))
    return document


def write_document(document: dict[str, Any], io: FileIO, location: str, *, overwrite: bool) -> None:
    content = Compressor.get_compressor(location).bytes_compressor()(json.dumps(document).encode())
    if not overwrite and objects.exists(io, location):
        raise FileExistsError(f"Cannot create file, already exists: {location}")
    size = objects.write(io, location, content)
    if size != len(content):  # a truncated file would make the table unreadable
        raise OSError(f"{location} has {size} bytes after {len(content)} were written")


def _merge(raw: Any, before: Any, after: Any) -> Any:
    """Apply the difference between `before` and `after` to `raw`, which has fields that PyIceberg does not know."""
    if before == after:
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        unknown = {key: value for key, value in raw.items() if key not in before}
        known = {
            key: _merge(raw[key], before[key], value) if key in raw and key in before else value
            for key, value in after.items()
        }
        return unknown | known
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list) and len(raw) == len(before):
        originals = {json.dumps(known, sort_keys=True): original for known, original in zip(before, raw, strict=True)}
        return [originals.get(json.dumps(item, sort_keys=True), item) for item in after]
    return after
