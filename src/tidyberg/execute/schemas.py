"""The Arrow schema of a table's data files: exact physical types, every field with its Iceberg id."""

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
    UUIDType,
)

from tidyberg.errors import Unsupported

# Plain, not large, strings and lists: batches are a few megabytes, and 32-bit offsets are half the memory.
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
    UUIDType: pa.uuid(),  # an Arrow extension: Parquet gets sixteen fixed bytes with the UUID annotation
}


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([_field(column) for column in schema.fields])


def arrow_schema_bytes(schema: Schema) -> bytes:
    return bytes(arrow_schema(schema).serialize())


def _field(column: NestedField, name: str | None = None) -> pa.Field:
    return pa.field(
        name or column.name,
        _type(column.field_type),
        nullable=not column.required,
        metadata={"PARQUET:field_id": str(column.field_id)},
    )


def _type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_field(column) for column in kind.fields])
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
