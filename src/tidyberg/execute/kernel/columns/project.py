"""Projects the columns of a data file onto the table's schema by field id, as the Iceberg spec requires."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.field_ids import ELEMENT, KEY, VALUE, Path, assigned_ids, field_id, is_list
from tidyberg.failures import FailureKind, KernelFailure

ROW_ID, LAST_UPDATED = 2147483540, 2147483539  # reserved by the spec for row lineage


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column of a schema, in Parquet's depth-first order."""

    field_id: int | None
    path: str  # as in Parquet: items.list.element.price
    type: pa.DataType
    repeated: bool  # inside a list or map
    steps: tuple[int, ...]  # position of the column, then of the field in each enclosing struct

    def of(self, table: pa.Table) -> pa.ChunkedArray:
        """Returns the leaf's values, null if a struct around them is null. The leaf must not be repeated."""
        column = table.column(self.steps[0])
        return pc.struct_field(column, list(self.steps[1:])) if len(self.steps) > 1 else column


def leaves(schema: pa.Schema) -> list[Leaf]:
    found: list[Leaf] = []
    for position, column in enumerate(schema):
        _collect_leaves(column, column.name, False, (position,), found)
    return found


def _collect_leaves(column: pa.Field, path: str, repeated: bool, steps: tuple[int, ...], found: list[Leaf]) -> None:
    kind = column.type
    if pa.types.is_struct(kind):
        for position, child in enumerate(kind):
            _collect_leaves(child, f"{path}.{child.name}", repeated, (*steps, position), found)
    elif is_list(kind):
        _collect_leaves(kind.value_field, f"{path}.list.element", True, steps, found)
    elif pa.types.is_map(kind):
        _collect_leaves(kind.key_field, f"{path}.key_value.key", True, steps, found)
        _collect_leaves(kind.item_field, f"{path}.key_value.value", True, steps, found)
    else:
        found.append(Leaf(field_id(column), path, kind, repeated, steps))


@dataclass(frozen=True)
class Selection:
    """Which leaf columns of a file to read, and which of them holds which leaf of the table."""

    columns: list[int] = field(default_factory=list)
    source_of: dict[int, int] = field(default_factory=dict)  # field id in the table -> leaf index in the file
    ids: Mapping[Path, int] | None = None  # assigned ids, if the file has none


def select(file_schema: pa.Schema, target: pa.Schema, mapping: Mapping[Path, int] | None = None) -> Selection:
    """Matches a file's columns with the table's by field id. `mapping` assigns ids to files that have none."""
    wanted = {identifier for column in target if (identifier := field_id(column)) is not None}
    selection = Selection(ids=assigned_ids(file_schema, mapping, wanted))
    _select_struct(list(file_schema), (), 0, list(target), selection)
    # Two targets may share a leaf: they may read fields of one struct, or need only to know where it is null.
    selection.columns[:] = sorted(set(selection.columns))
    return selection


def _select_struct(
    columns: list[pa.Field], path: Path, first_leaf: int, targets: list[pa.Field], selection: Selection
) -> bool:
    """Chooses leaves below one struct. Returns False if the target has none of its fields."""
    starts = []
    for column in columns:
        starts.append(first_leaf)
        first_leaf += _count_leaves(column.type)
    chosen = False
    for target in targets:
        position = _find(columns, path, target, selection.ids)
        if position is not None:
            column = columns[position]
            _select_field(column.type, (*path, column.name), starts[position], target, selection)
            chosen = True
    return chosen


def _select_field(source: pa.DataType, path: Path, first_leaf: int, target: pa.Field, selection: Selection) -> None:
    wanted = target.type
    if pa.types.is_struct(wanted) and pa.types.is_struct(source):
        if not _select_struct(list(source), path, first_leaf, list(wanted), selection):
            selection.columns.append(first_leaf)  # any leaf shows which of the structs are null
    elif is_list(wanted) and is_list(source):
        _select_field(source.value_type, (*path, ELEMENT), first_leaf, wanted.value_field, selection)
    elif pa.types.is_map(wanted) and pa.types.is_map(source):
        _select_field(source.key_type, (*path, KEY), first_leaf, wanted.key_field, selection)
        after_key = first_leaf + _count_leaves(source.key_type)
        _select_field(source.item_type, (*path, VALUE), after_key, wanted.item_field, selection)
    elif pa.types.is_nested(wanted) or pa.types.is_nested(source):
        raise _mismatch(".".join(path), source, wanted)
    else:
        selection.columns.append(first_leaf)
        identifier = field_id(target)
        if identifier is not None:
            selection.source_of[identifier] = first_leaf


def _find(columns: list[pa.Field], path: Path, target: pa.Field, ids: Mapping[Path, int] | None) -> int | None:
    wanted = field_id(target)
    for position, column in enumerate(columns):
        identifier = field_id(column) if ids is None else ids.get((*path, column.name))
        if identifier is not None and identifier == wanted:
            return position
    return None


def _count_leaves(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_count_leaves(child.type) for child in kind)
    if is_list(kind):
        return _count_leaves(kind.value_type)
    if pa.types.is_map(kind):
        return _count_leaves(kind.key_type) + _count_leaves(kind.item_type)
    return 1


def project(
    batch: pa.RecordBatch, target: pa.Schema, *, constants: Mapping[int, Any], ids: Mapping[Path, int] | None = None
) -> pa.RecordBatch:
    """Returns the batch in the table's schema: renamed, reordered, promoted, with absent columns filled.

    `constants` holds the values of absent fields by field id, including nested ones. Other absent fields are null.
    """
    return Projector(target, constants).project(batch, ids)


class Projector:
    """Projects many batches. Locates the table's columns once for all batches of one schema."""

    def __init__(self, target: pa.Schema, constants: Mapping[int, Any]) -> None:
        self._target = target
        self._fields = list(target)
        self._constants = constants
        self._known: tuple[pa.Schema, _Projection, list[int | None]] | None = None

    def project(self, batch: pa.RecordBatch, ids: Mapping[Path, int] | None) -> pa.RecordBatch:
        projection, positions = self._look_up(batch.schema, ids)
        arrays = projection.take(batch.columns, batch.schema.names, (), self._fields, positions, batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _look_up(self, schema: pa.Schema, ids: Mapping[Path, int] | None) -> "tuple[_Projection, list[int | None]]":
        known = self._known
        # Field ids are metadata of the fields, so metadata must be equal too.
        if known is None or known[1].ids is not ids or not known[0].equals(schema, check_metadata=True):
            projection = _Projection(self._constants, ids)
            known = self._known = schema, projection, projection.positions(list(schema), (), self._fields)
        return known[1:]


@dataclass(frozen=True)
class _Projection:
    constants: Mapping[int, Any]
    ids: Mapping[Path, int] | None

    def positions(self, columns: list[pa.Field], path: Path, wanted: list[pa.Field]) -> list[int | None]:
        return [_find(columns, path, target, self.ids) for target in wanted]

    def take(
        self,
        arrays: list[pa.Array],
        names: list[str],
        path: Path,
        wanted: list[pa.Field],
        positions: list[int | None],
        rows: int,
    ) -> list[pa.Array]:
        """Returns the wanted fields of one struct, or of the whole batch; `path` is its place in the file."""
        return [
            self._absent(target, path, rows)
            if position is None
            else self._present(arrays[position], target.type, (*path, names[position]))
            for target, position in zip(wanted, positions, strict=True)
        ]

    def _absent(self, wanted: pa.Field, path: Path, rows: int) -> pa.Array:
        value = self.constants.get(field_id(wanted) or 0)
        name = ".".join((*path, wanted.name))
        if value is None:
            if not wanted.nullable:
                raise KernelFailure(
                    FailureKind.SCHEMA,
                    f"The file lacks column {name!r}, which the table requires and which has no default.",
                )
            return pa.nulls(rows, wanted.type)
        kind = wanted.type.value_type if pa.types.is_dictionary(wanted.type) else wanted.type
        return _convert(pa.repeat(pa.scalar(value, _storage(kind)), rows), wanted.type, name)

    def _present(self, array: pa.Array, wanted: pa.DataType, path: Path) -> pa.Array:
        if array.type.equals(wanted, check_metadata=True):
            return array
        if pa.types.is_struct(wanted):
            return self._struct(array, wanted, path)
        if pa.types.is_map(wanted):
            return self._map(array, wanted, path)
        if is_list(wanted):
            return self._list(array, wanted, path)
        return _convert(array, wanted, ".".join(path))

    def _struct(self, array: pa.Array, wanted: pa.StructType, path: Path) -> pa.Array:
        parts = [array.field(position) for position in range(array.type.num_fields)]
        columns, fields = list(array.type), list(wanted)
        positions = self.positions(columns, path, fields)
        found = self.take(parts, [column.name for column in columns], path, fields, positions, len(array))
        mask = array.is_null() if array.null_count else None  # a null struct stays null
        return pa.StructArray.from_arrays(found, fields=fields, mask=mask)

    def _list(self, array: pa.Array, wanted: pa.DataType, path: Path) -> pa.Array:
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = self._present(array.values, wanted.value_type, (*path, ELEMENT))
        offsets = array.buffers()[1]
        if pa.types.is_large_list(array.type):
            # The offsets fit 32 bits because a batch has only a few megabytes.
            offsets = pa.py_buffer(np.frombuffer(offsets, dtype=np.int64).astype(np.int32))
        # The validity and offsets buffers stay, so null lists stay null and empty lists stay empty.
        return pa.Array.from_buffers(
            wanted, len(array), [array.buffers()[0], offsets], array.null_count, array.offset, children=[values]
        )

    def _map(self, array: pa.Array, wanted: pa.MapType, path: Path) -> pa.Array:
        keys = self._present(array.keys, wanted.key_type, (*path, KEY))
        items = self._present(array.items, wanted.item_type, (*path, VALUE))
        entries = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
        return pa.Array.from_buffers(
            wanted, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
        )


def _convert(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """Converts a leaf to the wanted type, if that keeps every value exactly."""
    source = array.type
    if source.equals(wanted):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _convert(array.storage, wanted, name)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _convert(array, wanted.storage_type, name))
    if pa.types.is_dictionary(wanted):
        if pa.types.is_dictionary(source):
            if not _keeps_values(source.value_type, wanted.value_type):
                raise _mismatch(name, source, wanted)
            return _cast(array, wanted, name)
        return _convert(array, wanted.value_type, name).dictionary_encode().cast(wanted)
    if pa.types.is_dictionary(source):
        return _convert(array.dictionary_decode(), wanted, name)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(wanted):
        return _cast(array, pa.timestamp(wanted.unit, tz=source.tz), name).view(wanted)
    if not _keeps_values(source, wanted):
        raise _mismatch(name, source, wanted)
    if pa.types.is_uint32(source):
        array = _cast(array, pa.int32(), name)  # Java reads larger numbers as negative
    return _cast(array, wanted, name)


def _cast(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return pc.cast(array, wanted, safe=True)
    except pa.ArrowException as error:
        raise KernelFailure(
            FailureKind.SCHEMA, f"Column {name!r} has values that do not fit the table's type {wanted}: {error}"
        ) from None


def _keeps_values(source: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_decimal(source) and types.is_decimal(wanted):
        return bool(source.scale == wanted.scale)
    if types.is_floating(source) and types.is_floating(wanted):
        return bool(source.bit_width <= wanted.bit_width)
    if types.is_date32(source) and types.is_timestamp(wanted):
        return wanted.tz is None  # a type promotion of format v3; dates have no time zone
    pairs = (
        (types.is_integer, types.is_integer),
        (_is_text_or_bytes, _is_text_or_bytes),
        (types.is_time, types.is_time),
        (types.is_date, types.is_date),
    )
    return any(accepts(source) and gives(wanted) for accepts, gives in pairs)


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
        or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        or types.is_string_view(kind) or types.is_binary_view(kind)
    )  # fmt: skip


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _mismatch(name: str, source: pa.DataType, wanted: pa.DataType) -> KernelFailure:
    return KernelFailure(FailureKind.SCHEMA, f"Column {name!r} is {source} in the file, which cannot become {wanted}.")
