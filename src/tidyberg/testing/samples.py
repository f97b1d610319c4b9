"""Makes deterministic rows with every Iceberg type."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# One column of every type of format version 2, including nested types.
SAMPLE_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "count", IntegerType(), required=False),
    NestedField(3, "ratio", FloatType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "price", DecimalType(12, 2), required=False),
    NestedField(6, "name", StringType(), required=False),
    NestedField(7, "payload", BinaryType(), required=False),
    NestedField(8, "day", DateType(), required=False),
    NestedField(9, "created", TimestampType(), required=False),
    NestedField(10, "seen", TimestamptzType(), required=False),
    NestedField(11, "clock", TimeType(), required=False),
    NestedField(12, "key", UUIDType(), required=False),
    NestedField(13, "digest", FixedType(4), required=False),
    NestedField(14, "active", BooleanType(), required=False),
    NestedField(15, "tags", ListType(20, StringType(), element_required=False), required=False),
    NestedField(16, "scores", MapType(21, StringType(), 22, DoubleType(), value_required=False), required=False),
    NestedField(
        17,
        "place",
        StructType(
            NestedField(23, "city", StringType(), required=False),
            NestedField(24, "height", IntegerType(), required=False),
        ),
        required=False,
    ),
)
_FIRST_DAY = (dt.date(2026, 1, 1) - dt.date(1970, 1, 1)).days
_DAY_MICROSECONDS = 86_400_000_000


def sample_rows(
    rows: int, seed: int = 0, schema: Schema = SAMPLE_SCHEMA, values: Mapping[str, Any] | None = None
) -> pa.Table:
    """Make deterministic rows of any schema, with nulls, NaN and signed zeros. Longs in `id` are unique.

    `values` maps columns to a value that every row gets, which puts all rows into one partition.
    """
    generator = np.random.default_rng(seed)
    arrow_schema = schema_to_pyarrow(schema, include_field_ids=False)
    columns = []
    for field in arrow_schema:
        if values is not None and field.name in values:
            columns.append(pa.array([values[field.name]] * rows, field.type))
        elif field.name == "id" and pa.types.is_integer(field.type):
            columns.append(pa.array(np.arange(rows) + seed * 1_000_000, field.type))
        else:
            columns.append(_sample_array(field.type, rows, generator, field.nullable))
    return pa.Table.from_arrays(columns, schema=arrow_schema)


def _sample_array(kind: pa.DataType, rows: int, generator: np.random.Generator, nullable: bool = True) -> pa.Array:
    mask = generator.random(rows) < 0.05 if nullable else np.zeros(rows, bool)
    if isinstance(kind, pa.UuidType):
        storage = _sample_array(pa.binary(16), rows, generator, nullable)
        return pa.ExtensionArray.from_storage(kind, storage)
    if pa.types.is_struct(kind):
        children = [_sample_array(child.type, rows, generator, child.nullable) for child in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(mask))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.where(mask, 0, generator.integers(0, 4, rows))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        total = int(lengths.sum())
        if pa.types.is_map(kind):
            keys = pa.array([f"key-{number}" for number in range(total)], kind.key_type)
            items = _sample_array(kind.item_type, total, generator, kind.item_field.nullable)
            return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=pa.array(mask))
        if pa.types.is_large_list(kind):
            offsets = offsets.cast(pa.int64())
        elements = _sample_array(kind.value_type, total, generator, kind.value_field.nullable)
        maker = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return maker.from_arrays(offsets, elements, type=kind, mask=pa.array(mask))
    return _sample_primitive(kind, rows, generator, mask)


def _sample_primitive(
    kind: pa.DataType, rows: int, generator: np.random.Generator, mask: "np.ndarray[Any, Any]"
) -> pa.Array:
    integers = generator.integers(-1000, 100_000, rows)
    if pa.types.is_floating(kind):
        numbers = generator.normal(0, 1e6, rows)
        odd = generator.random(rows)
        numbers = np.where(odd < 0.03, np.nan, np.where(odd < 0.05, -0.0, numbers))
        return pa.array(numbers.astype(kind.to_pandas_dtype()), mask=mask, from_pandas=False)
    if pa.types.is_decimal(kind):
        return pa.array(integers, pa.int64(), mask=mask).cast(pa.decimal128(19, 0)).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(integers % 2 == 0, mask=mask)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(np.char.add("name-", (integers % 997).astype(str)), kind, mask=mask)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if gone else number.tobytes() for number, gone in zip(integers, mask, strict=True)], kind)
    if pa.types.is_fixed_size_binary(kind):
        raw = generator.bytes(rows * kind.byte_width)
        cells = [raw[start : start + kind.byte_width] for start in range(0, len(raw), kind.byte_width)]
        return pa.array([None if gone else cell for cell, gone in zip(cells, mask, strict=True)], kind)
    if pa.types.is_date(kind):
        return pa.array((_FIRST_DAY + integers % 30).astype(np.int32), pa.int32(), mask=mask).cast(kind)
    if pa.types.is_time(kind):
        return pa.array(integers % 86_400 * 1_000_000, pa.int64(), mask=mask).cast(kind)
    if pa.types.is_timestamp(kind):
        offsets = _FIRST_DAY * _DAY_MICROSECONDS + generator.integers(0, 30 * _DAY_MICROSECONDS, rows)
        return pa.array(offsets, pa.int64(), mask=mask).cast(pa.timestamp("us")).cast(kind)
    return pa.array(integers, pa.int64(), mask=mask).cast(kind)
