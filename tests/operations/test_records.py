"""WRITE checks every value against its column, and what it writes reads back the same."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, MapType, NestedField, StringType

from tidyberg.errors import BadInput
from tidyberg.operations.creation import iceberg_schema
from tidyberg.operations.records import records_to_arrow
from tidyberg.operations.requests import FieldOfSchema


def written(kind: str | dict[str, Any], value: Any, *, required: bool = False) -> Any:
    given = {"type": kind} if isinstance(kind, str) else kind
    schema = iceberg_schema({"c": FieldOfSchema.model_validate({**given, "required": required})})
    return records_to_arrow([{"c": value}], schema)["c"].to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "grüezi 🙂"),
        ("integer", 2**31 - 1),
        ("integer", -(2**31)),
        ("long", 2**63 - 1),
        ("float", 1.5),
        ("double", 7),
        ("double", 1e308),
        ("boolean", False),
        ({"type": "list", "element": {"type": "long"}}, [1, None, 3]),
        ({"type": "struct", "fields": {"a": {"type": "string"}}}, {"a": "x"}),
    ],
)
def test_plain_values_are_kept(kind: Any, value: Any) -> None:
    assert written(kind, value) == value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("date", "2024-02-29", "2024-02-29"),
        ("date", "0001-01-01", "0001-01-01"),
        ("time", "23:59:59.123456", "23:59:59.123456"),
        ("timestamp", "2024-01-31T23:59:59.123456", "2024-01-31 23:59:59.123456"),
        ("timestamptz", "2024-01-31T23:59:59+02:00", "2024-01-31 21:59:59+00:00"),
        ("timestamptz", "2024-01-31T23:59:59Z", "2024-01-31 23:59:59+00:00"),
        ("decimal(9,2)", "12.5", "12.50"),
        ("decimal(9,2)", 12, "12.00"),
        ("decimal(4,4)", "0.1234", "0.1234"),
        ("decimal(9,2)", "0", "0.00"),
        ("uuid", "22331fb6-078a-4b7e-a9f1-bea7a79069da", "22331fb6-078a-4b7e-a9f1-bea7a79069da"),
        ("binary", "AAH/", "b'\\x00\\x01\\xff'"),
    ],
)
def test_texts_become_values(kind: str, value: Any, expected: str) -> None:
    assert str(written(kind, value)) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 5),
        ("string", True),
        ("integer", 2**31),
        ("integer", True),
        ("integer", 1.0),
        ("integer", "1"),
        ("long", 2**63),
        ("long", 10**400),
        ("float", 1e39),
        ("float", float("nan")),
        ("double", float("inf")),
        ("double", 10**400),
        ("double", "1"),
        ("double", True),
        ("boolean", 1),
        ("boolean", "true"),
        ("date", "2024-02-30"),
        ("date", "2024-1-1"),
        ("date", "2024-01-01T00:00:00"),
        ("date", 19_000),
        ("time", "25:00:00"),
        ("time", "10:00:00Z"),
        ("timestamp", "2024-01-31T00:00:00Z"),
        ("timestamp", "2024-01-31"),
        ("timestamp", "yesterday"),
        ("timestamptz", "2024-01-31T00:00:00"),
        ("timestamptz", "0001-01-01T00:00:00+14:00"),
        ("decimal(4,2)", "123.00"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", 1.5),
        ("decimal(4,2)", "NaN"),
        ("decimal(4,2)", "1e999999"),
        ("decimal(4,2)", "x"),
        ("decimal(38,2)", "9" * 200),
        ("uuid", "no"),
        ("binary", "%%%"),
        ({"type": "list", "element": {"type": "long"}}, ["x"]),
        ({"type": "list", "element": {"type": "long", "required": True}}, [None]),
        ({"type": "list", "element": {"type": "long"}}, {"a": 1}),
        ({"type": "struct", "fields": {"a": {"type": "string", "required": True}}}, {}),
        ({"type": "struct", "fields": {"a": {"type": "string"}}}, {"b": "x"}),
        ({"type": "struct", "fields": {"a": {"type": "string"}}}, "x"),
    ],
)
def test_values_of_other_types_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(BadInput, match=r"records\[0\]\.c should be"):
        written(kind, value)


def test_a_required_column_takes_no_null() -> None:
    with pytest.raises(BadInput, match=r"records\[0\]\.c is missing or null"):
        written("string", None, required=True)
    assert written("string", None) is None


def test_an_unknown_column_is_refused_with_a_suggestion() -> None:
    schema = iceberg_schema({"name": FieldOfSchema(type="string")})
    with pytest.raises(BadInput, match=r"records\[1\]: the table has no column 'nam'; did you mean 'name'\?"):
        records_to_arrow([{"name": "a"}, {"nam": "b"}], schema)


def test_columns_that_other_tools_made_are_written() -> None:
    schema = Schema(
        NestedField(1, "m", MapType(2, StringType(), 3, StringType())),
        NestedField(4, "f", FixedType(2), required=False),
    )
    rows = records_to_arrow([{"m": {"k": "v"}, "f": "AAE="}], schema)
    assert rows.to_pylist() == [{"m": [("k", "v")], "f": b"\x00\x01"}]
    assert isinstance(rows, pa.Table)
    with pytest.raises(BadInput, match="2 bytes"):
        records_to_arrow([{"m": {}, "f": "AA=="}], schema)
