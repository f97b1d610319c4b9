"""Projects the columns of a data file onto the table's schema by field id, as the Iceberg spec asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.failures import FailureKind, KernelFailure

FIELD_ID = b"PARQUET:field_id"
ROW_ID, LAST_UPDATED = 2147483540, 2147483539  # reserved by the spec for row lineage
AMBIGUOUS = "\x00null"  # a partition path spells the text "null" and a missing value alike


def field_id(column: pa.Field) -> int | None:
    text = (column.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column of a schema, in Parquet's depth-first order."""

    field_id: int | None
    path: str  # as Parquet spells it: items.list.element.price
    type: pa.DataType
    repeated: bool  # inside a list or map
    steps: tuple[int, ...]  # position of the column, then of the field in each struct on the way

    def of(self, table: pa.Table) -> pa.ChunkedArray:
        """The leaf's values, null where a struct around them is; only for leaves that are not repeated."""
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
    elif _is_list(kind):
        _collect_leaves(kind.value_field, f"{path}.list.element", True, steps, found)
    elif pa.types.is_map(kind):
        _collect_leaves(kind.key_field, f"{path}.key_value.key", True, steps, found)
        _collect_leaves(kind.item_field, f"{path}.key_value.value", True, steps, found)
    else:
        found.append(Leaf(field_id(column), path, kind, repeated, steps))


@dataclass(frozen=True)
class Selection:
    """Which leaf columns of a file to read, and which of them feeds which leaf of the table."""

    columns: list[int] = field(default_factory=list)
    source_of: dict[int, int] = field(default_factory=dict)  # field id in the table -> leaf index in the file
    by_name: bool = False


def select(file_schema: pa.Schema, target: pa.Schema) -> Selection:
    """Match a file's columns with the table's: by field id, or by name where the file has no ids at all."""
    by_name = not any(leaf.field_id is not None for leaf in leaves(file_schema)) and not any(
        field_id(column) is not None for column in file_schema
    )
    selection = Selection(by_name=by_name)
    _select_struct(list(file_schema), 0, list(target), selection)
    # Once each: two targets may take different fields of one struct, or only ask which of its values are null.
    selection.columns[:] = sorted(set(selection.columns))
    return selection


def _select_struct(columns: list[pa.Field], first_leaf: int, targets: list[pa.Field], selection: Selection) -> bool:
    """Choose leaves below one struct; False when none of its fields is wanted."""
    starts = []
    for column in columns:
        starts.append(first_leaf)
        first_leaf += _count_leaves(column.type)
    chosen = False
    for target in targets:
        position = _find(columns, target, selection.by_name)
        if position is not None:
            _select_field(columns[position], starts[position], target, selection)
            chosen = True
    return chosen


def _select_field(column: pa.Field, first_leaf: int, target: pa.Field, selection: Selection) -> None:
    source, wanted = column.type, target.type
    if pa.types.is_struct(wanted) and pa.types.is_struct(source):
        if not _select_struct(list(source), first_leaf, list(wanted), selection):
            selection.columns.append(first_leaf)  # any leaf tells which of the structs are null
    elif _is_list(wanted) and _is_list(source):
        _select_field(source.value_field, first_leaf, wanted.value_field, selection)
    elif pa.types.is_map(wanted) and pa.types.is_map(source):
        _select_field(source.key_field, first_leaf, wanted.key_field, selection)
        after_key = first_leaf + _count_leaves(source.key_type)
        _select_field(source.item_field, after_key, wanted.item_field, selection)
    elif pa.types.is_nested(wanted) or pa.types.is_nested(source):
        raise _mismatch(target.name, source, wanted)
    else:
        selection.columns.append(first_leaf)
        identifier = field_id(target)
        if identifier is not None:
            selection.source_of[identifier] = first_leaf


def _find(columns: list[pa.Field], target: pa.Field, by_name: bool) -> int | None:
    if by_name and field_id(target) in (ROW_ID, LAST_UPDATED):
        return None  # reserved columns are known by their ids: one of that name is somebody's own
    wanted = target.name if by_name else field_id(target)
    for position, column in enumerate(columns):
        if (column.name if by_name else field_id(column)) == wanted:
            return position
    return None


def _count_leaves(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_count_leaves(child.type) for child in kind)
    if _is_list(kind):
        return _count_leaves(kind.value_type)
    if pa.types.is_map(kind):
        return _count_leaves(kind.key_type) + _count_leaves(kind.item_type)
    return 1


def project(batch: pa.RecordBatch, target: pa.Schema, *, by_name: bool, constants: Mapping[int, Any]) -> pa.RecordBatch:
    """The batch in the table's schema: renamed, reordered, promoted, with absent columns filled."""
    columns = list(batch.schema)
    arrays = []
    for wanted in target:
        position = _find(columns, wanted, by_name)
        if position is None:
            arrays.append(_absent(wanted, batch.num_rows, constants))
        else:
            arrays.append(_project(batch.column(position), wanted.type, wanted.name, by_name))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _absent(wanted: pa.Field, rows: int, constants: Mapping[int, Any]) -> pa.Array:
    value = constants.get(field_id(wanted) or 0)
    if value is None:
        return pa.nulls(rows, wanted.type)
    if value == AMBIGUOUS:
        raise KernelFailure(
            FailureKind.SCHEMA,
            f"Column {wanted.name!r} is absent, and its partition value may be the text 'null' or NULL.",
        )
    kind = wanted.type.value_type if pa.types.is_dictionary(wanted.type) else wanted.type
    plain = pa.repeat(pa.scalar(value, _storage(kind)), rows)
    return _convert(plain, wanted.type, wanted.name)


def _project(array: pa.Array, wanted: pa.DataType, name: str, by_name: bool) -> pa.Array:
    if array.type.equals(wanted, check_metadata=True):
        return array
    if pa.types.is_struct(wanted):
        return _project_struct(array, wanted, name, by_name)
    if pa.types.is_map(wanted):
        return _project_map(array, wanted, name, by_name)
    if _is_list(wanted):
        return _project_list(array, wanted, name, by_name)
    return _convert(array, wanted, name)


def _project_struct(array: pa.Array, wanted: pa.StructType, name: str, by_name: bool) -> pa.Array:
    columns = list(array.type)
    children = []
    for child in wanted:
        position = _find(columns, child, by_name)
        if position is None:
            children.append(pa.nulls(len(array), child.type))
        else:
            children.append(_project(array.field(position), child.type, f"{name}.{child.name}", by_name))
    mask = array.is_null() if array.null_count else None  # a null struct stays null
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _project_list(array: pa.Array, wanted: pa.DataType, name: str, by_name: bool) -> pa.Array:
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    values = _project(array.values, wanted.value_type, f"{name}.element", by_name)
    offsets = array.buffers()[1]
    if pa.types.is_large_list(array.type):
        # Offsets of a batch fit 32 bits: its rows were cut to a few megabytes before.
        offsets = pa.py_buffer(np.frombuffer(offsets, dtype=np.int64).astype(np.int32))
    # Same validity and offsets buffers, new values: null lists stay null and empty ones stay empty.
    return pa.Array.from_buffers(
        wanted, len(array), [array.buffers()[0], offsets], array.null_count, array.offset, children=[values]
    )


def _project_map(array: pa.Array, wanted: pa.MapType, name: str, by_name: bool) -> pa.Array:
    keys = _project(array.keys, wanted.key_type, f"{name}.key", by_name)
    items = _project(array.items, wanted.item_type, f"{name}.value", by_name)
    entries = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    return pa.Array.from_buffers(
        wanted, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
    )


def _convert(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """A leaf in the wanted type, only by ways that keep every value exactly."""
    source = array.type
    if source.equals(wanted):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _convert(array.storage, wanted, name)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _convert(array, wanted.storage_type, name))
    if pa.types.is_dictionary(wanted):
        if pa.types.is_dictionary(source):
            return array.cast(wanted)
        return _convert(array, wanted.value_type, name).dictionary_encode().cast(wanted)
    if pa.types.is_dictionary(source):
        return _convert(array.dictionary_decode(), wanted, name)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(wanted):
        return _cast(array, pa.timestamp(wanted.unit, tz=source.tz), name).view(wanted)
    if not _keeps_values(source, wanted):
        raise _mismatch(name, source, wanted)
    return _cast(array, wanted, name)


def _cast(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return pc.cast(array, wanted, safe=True)
    except pa.ArrowException as error:
        raise KernelFailure(
            FailureKind.SCHEMA, f"Column {name!r} holds values that do not fit {wanted}: {error}"
        ) from None


def _keeps_values(source: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_decimal(source) and types.is_decimal(wanted):
        return bool(source.scale == wanted.scale)
    pairs = (
        (types.is_integer, types.is_integer),
        (types.is_floating, types.is_floating),
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


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _mismatch(name: str, source: pa.DataType, wanted: pa.DataType) -> KernelFailure:
    return KernelFailure(FailureKind.SCHEMA, f"Column {name!r} is {source} in the file, which cannot become {wanted}.")
