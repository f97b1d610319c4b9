"""Partition transforms over columns equal PyIceberg's, value by value."""

import datetime as dt
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tidyberg.errors import Unsupported
from tidyberg.execute.engine import error_of
from tidyberg.execute.kernel.columns.transforms import apply_transform
from tidyberg.execute.kernel.order.keys import sort_levels
from tidyberg.execute.kernel.order.word_sort import positions_by
from tidyberg.failures import KernelFailure
from tidyberg.model.sort_key import SortField

LONGS = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-719_162, 2_932_896)  # the years 1 to 9999
MICROS = st.integers(-719_162 * 86_400_000_000, 2_932_896 * 86_400_000_000)

# Type, its Arrow type, values as partition tuples hold them, and the transforms that take it.
_TIMES = ("year", "month", "day", "hour", "bucket[7]", "identity", "void")
CASES: list[tuple[PrimitiveType, pa.DataType, st.SearchStrategy[Any], tuple[str, ...]]] = [
    (
        IntegerType(),
        pa.int32(),
        st.integers(-(2**31) + 1000, 2**31 - 1),
        ("bucket[16]", "truncate[10]", "identity", "void"),
    ),
    (LongType(), pa.int64(), st.integers(-(2**63) + 1000, 2**63 - 1), ("bucket[5]", "truncate[97]", "identity")),
    (DateType(), pa.date32(), DAYS, ("year", "month", "day", "bucket[9]", "identity")),
    (TimeType(), pa.time64("us"), st.integers(0, 86_399_999_999), ("bucket[9]", "identity")),
    (TimestampType(), pa.timestamp("us"), MICROS, _TIMES),
    (TimestamptzType(), pa.timestamp("us", "UTC"), MICROS, _TIMES),
    (TimestampNanoType(), pa.timestamp("ns"), LONGS, _TIMES),
    (TimestamptzNanoType(), pa.timestamp("ns", "UTC"), LONGS, _TIMES),
    (StringType(), pa.string(), st.text(max_size=40), ("bucket[100]", "truncate[3]", "truncate[1]", "identity")),
    (BinaryType(), pa.binary(), st.binary(max_size=40), ("bucket[100]", "truncate[3]", "identity")),
    (FixedType(5), pa.binary(5), st.binary(min_size=5, max_size=5), ("bucket[10]", "identity")),
    (UUIDType(), pa.uuid(), st.uuids(), ("bucket[12]", "identity")),
    (
        DecimalType(9, 2),
        pa.decimal128(9, 2),
        st.decimals(-9999999, 9999999, places=2),
        ("bucket[8]", "truncate[50]", "identity"),
    ),
    (
        DecimalType(38, 10),
        pa.decimal128(38, 10),
        st.decimals(Decimal("-9e26"), Decimal("9e26"), places=10, allow_nan=False),
        ("bucket[8]", "truncate[5000]"),
    ),
]
PAIRS = [
    pytest.param(kind, arrow, values, transform, id=f"{transform} of {kind}")
    for kind, arrow, values, transforms in CASES
    for transform in transforms
]


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.array([None if value is None else value.bytes for value in values], pa.binary(16)).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize(("kind", "arrow", "values", "transform"), PAIRS)
@settings(max_examples=25)
@given(data=st.data())
def test_transforms_equal_pyicebergs(
    kind: IcebergType, arrow: pa.DataType, values: st.SearchStrategy[Any], transform: str, data: st.DataObject
) -> None:
    sample = data.draw(st.lists(st.none() | values, max_size=12))
    skipped = data.draw(st.integers(0, min(2, len(sample))))
    found = apply_transform(transform, column(sample, arrow).slice(skipped)).to_pylist()
    judge = parse_transform(transform).transform(kind)
    expected = [_plain(judge(value)) for value in sample[skipped:]]
    assert found == expected


def _plain(value: Any) -> Any:
    return value.bytes if isinstance(value, UUID) else value


def test_known_hashes_of_the_specification() -> None:
    """Appendix B gives these hashes; with as many buckets as there are hashes a bucket is the hash itself."""
    buckets = f"bucket[{2**31 - 1}]"

    def bucket(value: pa.Array) -> int:
        found: int = apply_transform(buckets, value).to_pylist()[0]
        return found

    def expected(value: int) -> int:
        return (value & 0x7FFFFFFF) % (2**31 - 1)

    assert bucket(pa.array([34], pa.int32())) == expected(2017239379)
    assert bucket(pa.array([34], pa.int64())) == expected(2017239379)
    assert bucket(pa.array([Decimal("14.20")], pa.decimal128(9, 2))) == expected(-500754589)
    assert bucket(pa.array([dt.date(2017, 11, 16)])) == expected(-653330422)
    assert bucket(pa.array([dt.time(22, 31, 8)], pa.time64("us"))) == expected(-662762989)
    moment = pa.array([dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    assert bucket(moment) == expected(-2047944441)
    assert bucket(moment.cast(pa.timestamp("ns", "UTC"))) == expected(-2047944441)
    assert bucket(pa.array(["iceberg"])) == expected(1210000089)
    uuid = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert bucket(pa.array([uuid.bytes], pa.binary(16)).cast(pa.uuid())) == expected(1488055340)
    assert bucket(pa.array([b"\x00\x01\x02\x03"], pa.binary(4))) == expected(-188683207)
    assert bucket(pa.array([b"\x00\x01\x02\x03"])) == expected(-188683207)


def test_the_lowest_numbers_wrap_as_in_java() -> None:
    lowest = pa.array([-(2**31), -(2**31) + 1, 2**31 - 1], pa.int32())
    assert apply_transform("truncate[10]", lowest).to_pylist() == [2147483646, 2147483646, 2147483640]


def test_a_long_text_among_short_ones_gets_its_own_bucket() -> None:
    texts = ["", "x" * 9_999, None, "é" * 4_001, "abc", "abcd"]
    judge = parse_transform("bucket[1000]").transform(StringType())
    assert apply_transform("bucket[1000]", pa.array(texts)).to_pylist() == [judge(text) for text in texts]


@pytest.mark.parametrize(
    ("transform", "values"),
    [
        ("bucket[4]", pa.array([1.5])),
        ("truncate[4]", pa.array([1.5])),
        ("hour", pa.array([dt.date(2020, 1, 1)])),
        ("day", pa.array([1], pa.int64())),
        ("zorder", pa.array([1], pa.int64())),
        ("bucket[4]", pa.array([True])),
    ],
)
def test_a_type_that_a_transform_cannot_take_is_named(transform: str, values: pa.Array) -> None:
    with pytest.raises(KernelFailure, match="partition transform"):
        apply_transform(transform, values)


def test_an_empty_column_has_no_values() -> None:
    for transform in ("identity", "bucket[3]", "truncate[2]", "void"):
        assert len(apply_transform(transform, pa.array([], pa.string()))) == 0
    assert np.array_equal(apply_transform("day", pa.array([], pa.date32())).to_pylist(), [])


def test_a_decimal_whose_partition_would_not_fit_its_type_is_refused() -> None:
    lowest = pa.array([Decimal("-9999999.99")], pa.decimal128(9, 2))
    assert apply_transform("truncate[3]", lowest).to_pylist() == [Decimal("-9999999.99")]
    with pytest.raises(KernelFailure, match=r"truncate\[50\] of -9999999.99 does not fit decimal128\(9, 2\)") as caught:
        apply_transform("truncate[50]", lowest)
    error = error_of(caught.value)
    assert isinstance(error, Unsupported)
    assert error.hint is not None
    assert "rewrite_to_current_spec" in error.hint


@pytest.mark.parametrize("width", [7, 50, 2**31 - 1, 9 * 10**37, 10**40])
def test_decimals_are_in_the_order_of_their_truncated_values_at_the_limit_of_their_type(width: int) -> None:
    most = 10**38 - 1
    unscaled = [-most, -most + 1, -most + 49, -most + 50, -most + 2**31, -(5 * 10**37), -1, 0, 1, most - 50, most]
    values = [Decimal(number).scaleb(-2, Context(prec=40)) for number in unscaled]
    shuffled = [*values[::2], None, *values[1::2]]
    column = pa.array(shuffled, pa.decimal128(38, 2))
    truncated = apply_transform(f"truncate[{width}]", column, must_fit=False)
    positions = positions_by(sort_levels([truncated], [SortField(0)]), len(shuffled)).tolist()

    def floor(row: int) -> int:
        value = shuffled[row]
        number = -(10**50) if value is None else int(value.scaleb(2, Context(prec=40)))
        return number // width * width if value is not None else number

    assert positions == sorted(range(len(shuffled)), key=floor)
