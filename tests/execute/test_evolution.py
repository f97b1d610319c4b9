"""What files lack comes from the table: partition values with their own types, defaults, ids by the name mapping."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.errors import Unsupported
from tidyberg.execute.tasks.evolution import absent_values, name_mapping
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.model.inventory import Partition
from tidyberg.model.table import NAME_MAPPING

MICROS = 1_700_000_000_123_456
UNPARTITIONED = PartitionSpec(), Partition(0, (), "")


@pytest.mark.parametrize(
    ("kind", "value", "python"),
    [
        (BooleanType(), False, False),
        (IntegerType(), -5, -5),
        (DoubleType(), 1.5, 1.5),
        (StringType(), "null", "null"),
        (BinaryType(), b"\x00\xff/", b"\x00\xff/"),
        (FixedType(2), b"ab", b"ab"),
        (DateType(), 19_700, dt.date(2023, 12, 9)),
        (TimeType(), 3_723_000_004, dt.time(1, 2, 3, 4)),
        (TimestampType(), MICROS, dt.datetime.fromisoformat("2023-11-14T22:13:20.123456")),
        (TimestamptzType(), MICROS, dt.datetime.fromisoformat("2023-11-14T22:13:20.123456+00:00")),
        (DecimalType(9, 2), Decimal("-1.20"), Decimal("-1.20")),
        (UUIDType(), UUID(int=5), UUID(int=5).bytes),
        (LongType(), None, None),
    ],
)  # fmt: skip
def test_identity_partition_values_keep_their_types(kind: PrimitiveType, value: Any, python: Any) -> None:
    schema = Schema(NestedField(1, "c", kind, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c"))
    values = absent_values(spec, Partition(0, (value,), "c=x"), [schema])
    if value is None:
        assert values == {}
        return
    arrow = arrow_schema(schema).field(0).type
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    assert pa.scalar(values[1], storage).as_py() == python


def test_only_identity_transforms_give_values_and_dropped_columns_too() -> None:
    spec = PartitionSpec(
        PartitionField(7, 1000, IdentityTransform(), "gone"), PartitionField(1, 1001, BucketTransform(4), "b")
    )
    schema = Schema(NestedField(1, "c", LongType(), required=False))
    assert absent_values(spec, Partition(0, (12, 3), "gone=12/b=3"), [schema]) == {7: 12}


def with_default(field_id: int, name: str, kind: PrimitiveType, default: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False, initial_default=default)


def test_initial_defaults_come_from_every_depth_and_from_dropped_columns() -> None:
    current = Schema(
        with_default(1, "n", LongType(), 5),
        NestedField(2, "s", StructType(with_default(3, "x", StringType(), "new")), required=False),
        NestedField(
            4, "l", ListType(5, StructType(with_default(6, "y", DateType(), "2020-01-02")), False), required=False
        ),
        NestedField(
            7, "m", MapType(8, StringType(), 9, StructType(with_default(10, "z", BooleanType(), False))), required=False
        ),
    )
    older = Schema(with_default(11, "gone", LongType(), 8), schema_id=1)
    expected = {1: 5, 3: "new", 6: dt.date(2020, 1, 2), 10: False, 11: 8}
    assert absent_values(*UNPARTITIONED, [current, older]) == expected


def test_a_partition_value_overrides_the_default_even_if_it_is_null() -> None:
    schema = Schema(with_default(1, "n", LongType(), 5))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"))
    assert absent_values(spec, Partition(0, (7,), "n=7"), [schema]) == {1: 7}
    assert absent_values(spec, Partition(0, (None,), "n=null"), [schema]) == {}


def test_days_are_not_read_as_microseconds_of_a_promoted_column() -> None:
    now, before = (Schema(NestedField(1, "d", kind, required=False)) for kind in (TimestampType(), DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))
    with pytest.raises(Unsupported, match="promoted from date"):
        absent_values(spec, Partition(0, (19_700,), "d=2023-12-09"), [now, before])


def test_a_name_mapping_is_followed_through_aliases_and_nesting() -> None:
    text = json.dumps(
        [
            {"field-id": 1, "names": ["id", "a.b"]},
            {"names": ["not in the schema"], "fields": [{"field-id": 9, "names": ["x"]}]},
            {"field-id": 2, "names": []},
            {
                "field-id": 3,
                "names": ["old", "new"],
                "fields": [{"field-id": 4, "names": ["element"], "fields": [{"field-id": 5, "names": ["x", "y"]}]}],
            },
        ]
    )
    found = name_mapping({NAME_MAPPING: text})
    assert found == {
        ("id",): 1,
        ("a.b",): 1,
        ("not in the schema", "x"): 9,
        ("old",): 3,
        ("new",): 3,
        ("old", "element"): 4,
        ("new", "element"): 4,
        ("old", "element", "x"): 5,
        ("old", "element", "y"): 5,
        ("new", "element", "x"): 5,
        ("new", "element", "y"): 5,
    }
    assert name_mapping({}) is None


@pytest.mark.parametrize("text", ["", "{", '{"field-id": 1}', "[1]"])
def test_a_broken_name_mapping_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="is no name mapping"):
        name_mapping({NAME_MAPPING: text})
