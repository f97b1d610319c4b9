"""Reads a table row by row and applies its deletes, in simple and slow code, as the reference for tests.

It shares no code with the kernels, and uses Python's comparisons to decide which rows are deleted.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import IcebergType, StructType

from tidyberg.testing.manifests import LiveFile, live_files
from tidyberg.testing.vectors import positions_of

PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545
ROW_ID_FIELD, LAST_UPDATED_FIELD = 2147483540, 2147483539


def local_path(location: str) -> str:
    """Return the path of a `file:` location, which may have any number of slashes.

    The rest of the location is used unchanged: PyIceberg and Java do not treat it as a URL in which `%20` is a space.
    """
    if location.startswith("file://"):
        return "/" + location.removeprefix("file://").partition("/")[2]
    return location.removeprefix("file:")


def read_rows(table: Table, snapshot: Snapshot | None, *, lineage: bool = False) -> Iterator[dict[str, Any]]:
    """Return the rows of a snapshot in the table's current schema, optionally with the columns of row lineage."""
    files = live_files(table, snapshot)
    deletes = [_Delete(file, table) for file in files if file.content is not DataFileContent.DATA]
    for file in files:
        if file.content is DataFileContent.DATA:
            yield from _surviving_rows(file, _applicable(deletes, file), table, lineage)


def deleted_positions(table: Table, snapshot: Snapshot | None, path: str) -> set[int]:
    """Return the rows of a data file that are deleted by position. A new vector must contain them too."""
    files = live_files(table, snapshot)
    data = next(file for file in files if file.path == path)
    deletes = [_Delete(file, table) for file in files if file.content is DataFileContent.POSITION_DELETES]
    return set().union(*(delete.positions[path] for delete in _applicable(deletes, data)))


def _applicable(deletes: "list[_Delete]", file: LiveFile) -> "list[_Delete]":
    """Return the deletes that apply to a file. A vector replaces all position deletes."""
    found = [delete for delete in deletes if delete.concerns(file)]
    has_vector = any(delete.is_vector for delete in found)
    return [delete for delete in found if delete.is_vector or delete.equality_ids or not has_vector]


def _surviving_rows(file: LiveFile, deletes: "list[_Delete]", table: Table, lineage: bool) -> Iterator[dict[str, Any]]:
    contents = pq.read_table(local_path(file.path), partitioning=None)
    rows = _in_schema(contents, table.schema()).to_pylist()
    if lineage:
        rows = [row | ids for row, ids in zip(rows, _lineage(contents, file), strict=True)]
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


def _lineage(contents: pa.Table, file: LiveFile) -> list[dict[str, int | None]]:
    """Return the lineage of rows by the specification ("Row Lineage"): stored, or else inherited from the file."""
    if file.first_row_id is None:
        return [{"_row_id": None, "_last_updated_sequence_number": None}] * contents.num_rows
    nothing = [None] * contents.num_rows
    row_ids = _column(contents, ROW_ID_FIELD) or nothing
    updated = _column(contents, LAST_UPDATED_FIELD) or nothing
    return [
        {
            "_row_id": file.first_row_id + position if row_id is None else row_id,
            "_last_updated_sequence_number": file.sequence_number if number is None else number,
        }
        for position, (row_id, number) in enumerate(zip(row_ids, updated, strict=True))
    ]


class _Delete:
    """The contents of one delete file or deletion vector."""

    def __init__(self, file: LiveFile, table: Table) -> None:
        self._file = file
        self._is_global = all(isinstance(part.transform, VoidTransform) for part in table.specs()[file.spec_id].fields)
        self.equality_ids = file.equality_ids
        self.is_vector = file.is_vector
        self.keys: set[tuple[Hashable, ...]] = set()
        self.positions: dict[str, set[int]] = defaultdict(set)
        if file.content_offset is not None and file.content_size is not None:
            assert file.referenced_data_file is not None
            raw = Path(local_path(file.path)).read_bytes()
            vector = positions_of(raw[file.content_offset : file.content_offset + file.content_size])
            self.positions[file.referenced_data_file] = vector
            return
        contents = pq.read_table(local_path(file.path), partitioning=None)
        if self.equality_ids:
            self.keys = set(_keys(contents, self.equality_ids, {}))
        else:
            for path, position in _keys(contents, (PATH_FIELD, POSITION_FIELD), {}):
                assert isinstance(path, str)
                assert isinstance(position, int)
                self.positions[path].add(position)

    def concerns(self, data: LiveFile) -> bool:
        """Whether the delete applies to a file, by the rules in the specification ("Scan Planning")."""
        same_partition = (data.spec_id, data.partition) == (self._file.spec_id, self._file.partition)
        if self.equality_ids:
            return data.sequence_number < self._file.sequence_number and (self._is_global or same_partition)
        if self.is_vector and self._file.referenced_data_file != data.path:
            return False
        return data.sequence_number <= self._file.sequence_number and same_partition


def _keys(contents: pa.Table, field_ids: tuple[int, ...], constants: dict[int, Any]) -> list[tuple[Hashable, ...]]:
    """Return the values of some columns by row. A missing column has the partition's value or null."""
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
    """Return the path of names from the root to a field, through structs."""
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
    """Make a value comparable as in Java: NaN equals NaN, and the two zeros differ."""
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
    """Return columns by field id with the schema's types. Missing columns are null, also within structs."""
    wanted = schema_to_pyarrow(schema, include_field_ids=False)
    columns = [
        _in_type(_member(contents.combine_chunks(), field.field_id), field.field_type, arrow.type, contents.num_rows)
        for field, arrow in zip(schema.fields, wanted, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=wanted)


def _member(parent: pa.Table | pa.StructArray, field_id: int) -> pa.Array | None:
    """Return the column or struct member with a field id, without the nulls of the struct itself."""
    fields = parent.schema if isinstance(parent, pa.Table) else list(parent.type)
    for place, field in enumerate(fields):
        if _field_id(field) == field_id:
            if isinstance(parent, pa.StructArray):
                return parent.field(place)
            chunks = parent.column(place).chunks
            return chunks[0] if chunks else pa.nulls(0, field.type)
    return None


def _in_type(values: pa.Array | None, kind: IcebergType, arrow: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, arrow)
    if not isinstance(kind, StructType):
        return values.cast(arrow)
    members = [
        _in_type(_member(values, field.field_id), field.field_type, inner.type, rows)
        for field, inner in zip(kind.fields, arrow, strict=True)
    ]
    return pa.StructArray.from_arrays(members, fields=list(arrow), mask=values.is_null())
