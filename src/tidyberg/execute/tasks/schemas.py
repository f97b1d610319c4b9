"""Builds the Arrow schema of a table's data files, with exact physical types and field ids."""

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from tidyberg.errors import Unsupported
from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, ROW_ID_NAME
from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID

# Strings and lists have 32-bit offsets, which need half the memory. Batches are only a few megabytes.
_PRIMITIVES: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.uuid(),  # an Arrow extension type, which Parquet stores as 16 fixed bytes with the UUID annotation
}


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([_field(column) for column in _stored(schema.fields)])


def arrow_schema_bytes(schema: Schema) -> bytes:
    return bytes(arrow_schema(schema).serialize())


def with_lineage_fields(schema: Schema) -> Schema:
    """Return the schema in the footers of v3 data files: the table's columns and row lineage."""
    taken = {ROW_ID_NAME, LAST_UPDATED_NAME} & {column.name for column in schema.fields}
    if taken:
        raise Unsupported(
            f"The table has a column named {min(taken)}, a name that format v3 keeps for row lineage.",
            hint="Rename the column.",
        )
    return Schema(
        *schema.fields,
        NestedField(ROW_ID, ROW_ID_NAME, LongType(), required=False),
        NestedField(LAST_UPDATED, LAST_UPDATED_NAME, LongType(), required=False),
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
    )


def _stored(columns: Iterable[NestedField]) -> list[NestedField]:
    """Drop columns of type unknown. By the specification they are always null and not in data files."""
    return [column for column in columns if not isinstance(column.field_type, UnknownType)]


def _field(column: NestedField, name: str | None = None) -> pa.Field:
    return pa.field(
        name or column.name,
        _type(column.field_type),
        nullable=not column.required,
        metadata={"PARQUET:field_id": str(column.field_id)},
    )


def _type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        stored = _stored(kind.fields)
        if not stored:
            raise Unsupported(f"Columns of type {kind} cannot be rewritten: Parquet has no struct without fields.")
        return pa.struct([_field(column) for column in stored])
    if isinstance(kind, ListType):
        return pa.list_(_field(kind.element_field, "element"))
    if isinstance(kind, MapType):
        return pa.map_(_field(kind.key_field, "key"), _field(kind.value_field, "value"))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    arrow = _PRIMITIVES.get(type(kind))
    if arrow is None:
        raise Unsupported(f"Columns of type {kind} cannot be rewritten.")
    return arrow
