"""The values of a sort key: which columns it reads, and their values after the transform of each field."""

from dataclasses import dataclass

import pyarrow as pa

from tidyberg.execute.kernel.columns.field_ids import children, field_id
from tidyberg.execute.kernel.columns.project import Leaf, leaves
from tidyberg.execute.kernel.columns.transforms import apply_transform
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import SortField, SortKey

_UUID = "arrow.uuid"


@dataclass(frozen=True)
class KeySource:
    """A field of a sort key and the column that it reads."""

    field: SortField
    leaf: Leaf

    def of(self, table: pa.Table) -> pa.Array:
        """Returns the field's values in plain types: times are numbers, uuids are bytes."""
        return apply_transform(self.field.transform, combined(self.leaf.of(table)), must_fit=False)


def key_sources(schema: pa.Schema, key: SortKey) -> tuple[KeySource, ...]:
    """Finds the columns of a key by field id. Raises a failure that names a column which has no order."""
    if not key.fields:
        raise KernelFailure(FailureKind.SCHEMA, "The sort key has no fields.")
    by_id = {leaf.field_id: leaf for leaf in leaves(schema) if leaf.field_id is not None}
    return tuple(KeySource(field, _ordered(by_id.get(field.source_id), field, schema)) for field in key.fields)


def key_schema(schema: pa.Schema, key: SortKey) -> pa.Schema:
    """Returns the columns of the key only. Structs keep the fields that lead to one."""
    wanted = {field.source_id for field in key.fields}
    return pa.schema([part for column in schema if (part := _leading_to(column, wanted)) is not None])


def _leading_to(column: pa.Field, wanted: set[int]) -> pa.Field | None:
    if field_id(column) in wanted:
        return column
    if not pa.types.is_struct(column.type):
        return None
    parts = [part for child in column.type if (part := _leading_to(child, wanted)) is not None]
    return column.with_type(pa.struct(parts)) if parts else None


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Returns the values as one array. Those of a key column must be smaller than 2 GB."""
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def as_table(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows


def to_ipc(values: list[pa.Array]) -> bytes:
    """Returns arrays of equal length as bytes."""
    batch = pa.RecordBatch.from_arrays(values, [str(number) for number in range(len(values))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_ipc(content: bytes) -> list[pa.Array]:
    return list(pa.ipc.open_stream(content).read_next_batch().columns)


def _ordered(leaf: Leaf | None, field: SortField, schema: pa.Schema) -> Leaf:
    if leaf is None:
        column = _find(list(schema), field.source_id)
        if column is None:
            raise KernelFailure(
                FailureKind.SCHEMA, f"The sort key uses field {field.source_id}, which is no column of the table."
            )
        raise _no_order(column.name, column.type)
    if leaf.repeated:
        raise KernelFailure(
            FailureKind.SCHEMA,
            f"Column {leaf.path!r} cannot be part of a sort key: it is inside a list or map, so a row has many values.",
        )
    kind = leaf.type
    if (isinstance(kind, pa.BaseExtensionType) and kind.extension_name != _UUID) or pa.types.is_nested(kind):
        raise _no_order(leaf.path, kind)
    return leaf


def _no_order(name: str, kind: pa.DataType) -> KernelFailure:
    return KernelFailure(FailureKind.SCHEMA, f"Column {name!r} cannot be part of a sort key: {kind} has no order.")


def _find(columns: list[pa.Field], wanted: int) -> pa.Field | None:
    for column in columns:
        if field_id(column) == wanted:
            return column
        found = _find([child for _, child in children(column.type)], wanted)
        if found is not None:
            return found
    return None
