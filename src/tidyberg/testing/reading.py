"""Reads a table row by row with all its deletes, plainly and slowly: the model that compaction is judged by.

It shares no code with the kernels, and decides by Python's own comparisons which row is deleted.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, VoidTransform

PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545


@dataclass(frozen=True)
class LiveFile:
    """A data or delete file of a snapshot, with the sequence number that decides what applies to what."""

    path: str
    content: DataFileContent
    spec_id: int
    partition: tuple[Any, ...]
    sequence_number: int
    records: int
    equality_ids: tuple[int, ...] = ()


def local_path(location: str) -> str:
    """The path that a `file:` location means, whichever number of slashes its writer uses."""
    parsed = urlparse(location)
    return unquote(parsed.path) if parsed.scheme == "file" else location


def live_files(table: Table, snapshot: Snapshot | None) -> list[LiveFile]:
    """Every live data and delete file of a snapshot, as its manifests say."""
    if snapshot is None:
        return []
    return [
        LiveFile(
            entry.data_file.file_path,
            DataFileContent(entry.data_file.content or 0),  # version 1 does not say: it has data only
            manifest.partition_spec_id,
            tuple(entry.data_file.partition[number] for number in range(len(entry.data_file.partition))),
            entry.sequence_number or 0,
            entry.data_file.record_count,
            tuple(entry.data_file.equality_ids or ()),
        )
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]


def read_rows(table: Table, snapshot: Snapshot | None) -> Iterator[dict[str, Any]]:
    """The rows of a snapshot in the table's current schema."""
    files = live_files(table, snapshot)
    deletes = [_Delete(file, table) for file in files if file.content is not DataFileContent.DATA]
    for file in files:
        if file.content is DataFileContent.DATA:
            yield from _surviving_rows(file, [delete for delete in deletes if delete.concerns(file)], table)


def _surviving_rows(file: LiveFile, deletes: "list[_Delete]", table: Table) -> Iterator[dict[str, Any]]:
    contents = pq.read_table(local_path(file.path), partitioning=None)
    rows = _in_schema(contents, table.schema()).to_pylist()
    constants = _identity_values(file, table)
    keys = {
        delete.equality_ids: _keys(contents, delete.equality_ids, constants)
        for delete in deletes
        if delete.equality_ids
    }
    for position, row in enumerate(rows):
        if not any(
            keys[delete.equality_ids][position] in delete.keys
            if delete.equality_ids
            else position in delete.positions[file.path]
            for delete in deletes
        ):
            yield row


class _Delete:
    """One delete file, read whole."""

    def __init__(self, file: LiveFile, table: Table) -> None:
        self._file = file
        self._is_global = all(isinstance(part.transform, VoidTransform) for part in table.specs()[file.spec_id].fields)
        self.equality_ids = file.equality_ids
        self.keys: set[tuple[Hashable, ...]] = set()
        self.positions: dict[str, set[int]] = defaultdict(set)
        contents = pq.read_table(local_path(file.path), partitioning=None)
        if self.equality_ids:
            self.keys = set(_keys(contents, self.equality_ids, {}))
        else:
            for path, position in _keys(contents, (PATH_FIELD, POSITION_FIELD), {}):
                assert isinstance(path, str)
                assert isinstance(position, int)
                self.positions[path].add(position)

    def concerns(self, data: LiveFile) -> bool:
        """By sequence number and scope, as the specification says under "Scan Planning"."""
        same_partition = (data.spec_id, data.partition) == (self._file.spec_id, self._file.partition)
        if self.equality_ids:
            return data.sequence_number < self._file.sequence_number and (self._is_global or same_partition)
        return data.sequence_number <= self._file.sequence_number and same_partition


def _keys(contents: pa.Table, field_ids: tuple[int, ...], constants: dict[int, Any]) -> list[tuple[Hashable, ...]]:
    """The values of some columns, row by row; a column that the file lacks is its partition's value, else null."""
    columns = [_column(contents, field_id) or [constants.get(field_id)] * contents.num_rows for field_id in field_ids]
    return [tuple(_comparable(value) for value in row) for row in zip(*columns, strict=True)]


def _column(contents: pa.Table, field_id: int) -> list[Any] | None:
    path = _find(contents.schema, field_id)
    if path is None:
        return None
    values: list[Any] = contents[path[0]].to_pylist()
    for name in path[1:]:
        values = [None if value is None else value[name] for value in values]
    return values


def _find(fields: Any, field_id: int) -> tuple[str, ...] | None:
    """The names that lead to a field through structs."""
    for field in fields:
        if _field_id(field) == field_id:
            return (field.name,)
        below = _find(field.type, field_id) if pa.types.is_struct(field.type) else None
        if below is not None:
            return (field.name, *below)
    return None


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _comparable(value: Any) -> Hashable:
    """NaN equals NaN, and the two zeros differ as they do in Java."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    assert isinstance(value, Hashable)
    return value


def _identity_values(file: LiveFile, table: Table) -> dict[int, Any]:
    fields = table.specs()[file.spec_id].fields
    return {
        field.source_id: value
        for field, value in zip(fields, file.partition, strict=True)
        if isinstance(field.transform, IdentityTransform)
    }


def _in_schema(contents: pa.Table, schema: Schema) -> pa.Table:
    """Columns by field id in the schema's types; columns that the file lacks are null."""
    by_id = {_field_id(field): field.name for field in contents.schema}
    wanted = schema_to_pyarrow(schema, include_field_ids=False)
    columns = [
        contents[by_id[field.field_id]].cast(arrow.type)
        if field.field_id in by_id
        else pa.nulls(contents.num_rows, arrow.type)
        for field, arrow in zip(schema.fields, wanted, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=wanted)
