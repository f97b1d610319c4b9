"""The metadata.json that SQL, Glue and Hive catalogs write themselves: its name known beforehand, nothing in it lost.

PyIceberg would write what it understood of the table, which drops fields it does not know (encryption keys among
them), and refuses to write format version 3. So the changes of a commit are put into the document that was there
before.
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
    """The catalog, with a way of writing metadata files of our own where it writes them before its swap.

    `file_id` goes into the name of that file: no other attempt has it, of this job or another.

    PyIceberg leaves that file behind when the swap is lost or the process dies, and would name it at random.
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
    if hasattr(named, "_write_metadata_no_exist_check"):  # Glue: S3 Tables cannot be asked whether a file exists
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
    """Raises whatever the catalog's client does: only the table knows then whether the commit landed."""
    named = catalog_for_attempt(catalog, file_id, about_to_write)
    response = named.commit_table(table, requirements, updates)
    if not isinstance(named, RestCatalog):
        named._delete_old_metadata(table.io, table.metadata, response.metadata)
    return response


def swaps_in_process(catalog: Catalog) -> bool:
    """SQLite: the swap ends with the call, and with the process. A database server may still be at a COMMIT whose
    client is gone: it waits for its disk or its standby, and nobody sees the swap before that."""
    return isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "sqlite"


def swaps_blindly(catalog: Catalog) -> bool:
    """Hive: PyIceberg locks the table and then alters it; a lock that ran out while its process was stopped is not
    noticed, and neither what others committed since."""
    return any(kind.__name__ == "HiveCatalog" for kind in type(catalog).__mro__)  # its client may not be installed


def changed_document(parent: Table, metadata: TableMetadata) -> dict[str, Any]:
    """The parent's metadata file with what is different in `metadata`; fields that nobody here knows stay."""
    unpack = Compressor.get_compressor(parent.metadata_location).stream_decompressor
    with unpack(BytesIO(objects.fetch(parent.io, parent.metadata_location))) as stream:
        text = bytes(stream.read()).decode()
    document: dict[str, Any] = json.loads(text)
    merged: dict[str, Any] = _merge(document, as_document(TableMetadataUtil.parse_raw(text)), as_document(metadata))
    return merged


def as_document(metadata: TableMetadata) -> dict[str, Any]:
    """What PyIceberg knows of a table, also of v3, where its own method refuses."""
    document: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(metadata))
    return document


def write_document(document: dict[str, Any], io: FileIO, location: str, *, overwrite: bool) -> None:
    content = Compressor.get_compressor(location).bytes_compressor()(json.dumps(document).encode())
    if not overwrite and objects.exists(io, location):
        raise FileExistsError(f"Cannot create file, already exists: {location}")
    size = objects.write(io, location, content)
    if size != len(content):  # the table would be unreadable with it
        raise OSError(f"{location} has {size} bytes after {len(content)} were written")


def _merge(raw: Any, before: Any, after: Any) -> Any:
    """`raw` changed as `before` became `after`; `before` is `raw` without what PyIceberg does not know."""
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
