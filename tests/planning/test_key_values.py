"""Bounds of one column, decoded and put in the order of a sort field."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.builders.key_bounds import Span, bounds_table
from tidyberg.model.sort_key import SortField
from tidyberg.planning.key_values import FieldRanges, column_bounds, ranges_of

RECORDS = 10
ONLY_NULLS = Span(nulls=RECORDS)
NAN = float("nan")
INF = float("inf")


def ranges(spans: list[Span], kind: IcebergType, field: SortField | None = None) -> FieldRanges:
    column = column_bounds(bounds_table({1: spans}, {1: kind}), 1, np.full(len(spans), RECORDS, np.int64))
    return ranges_of(column, field or SortField(1), kind)


def micros(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (IntegerType(), [-(2**31), -1, 0, 1, 256, 2**31 - 1]),
        (LongType(), [-(2**63), -1, 0, 255, 256, 2**63 - 1]),
        (BooleanType(), [False, True]),
        (FloatType(), [-INF, -1.5, -0.0, 0.0, 1e-30, 2.0, INF]),
        (DoubleType(), [-INF, -1e300, -1.5, -0.0, 0.0, 1e-300, 2.0, INF]),
        (DecimalType(38, 2), [Decimal(n).scaleb(-2) for n in (-(10**27), -129, -128, -1, 0, 1, 127, 128, 10**27)]),
        (DateType(), [-1, 0, 20_000]),
        (TimeType(), [0, 1, 86_399_999_999]),
        (TimestampType(), [-(2**60), -1, 0, 2**60]),
        (TimestamptzType(), [-1, 0, 1]),
        (TimestampNanoType(), [-1, 0, 2**62]),
        (StringType(), ["", "A", "a", "ab", "b", "é", "中", "😀"]),
        (BinaryType(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
        (UUIDType(), [UUID(int=0), UUID(int=1), UUID(int=2**127), UUID(int=2**128 - 1)]),
    ],
)
def test_values_of_every_type_are_in_the_order_of_the_specification(kind: IcebergType, ascending: list[Any]) -> None:
    spans = [Span(value, value) for value in reversed(ascending)]
    found = ranges(spans, kind)
    assert found.known.all()
    assert (found.lower == found.upper).all()
    assert (np.diff(found.lower) < 0).all()
    assert found.positions is not None
    assert (np.diff(found.positions) >= 0).all()
    turned = ranges(spans, kind, SortField(1, descending=True))
    assert (np.diff(turned.lower) > 0).all()


def test_a_promoted_column_has_bounds_of_both_types() -> None:
    assert ranges([Span(struct.pack("<i", 5), struct.pack("<i", 9)), Span(6, 7)], LongType()).lower.tolist() == [1, 2]
    assert ranges([Span(struct.pack("<f", 1.5), 2.5), Span(1.5, 3.0)], DoubleType()).lower.tolist() == [1, 1]
    days = struct.pack("<i", 1)
    found = ranges([Span(days, days), Span(86_400_000_000, 86_400_000_001)], TimestampType())
    assert found.lower.tolist() == [1, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_last", [False, True])
def test_nulls_are_first_or_last_as_the_field_says(descending: bool, nulls_last: bool) -> None:
    field = SortField(1, descending=descending, nulls_last=nulls_last)
    with_nulls, only_nulls, plain = 0, 1, 2
    found = ranges([Span(4, 6, nulls=1), ONLY_NULLS, Span(4, 6)], LongType(), field)
    assert found.known.all()
    assert found.lower[only_nulls] == found.upper[only_nulls]
    if nulls_last:
        assert found.upper[with_nulls] == found.upper[only_nulls] > found.upper[plain]
        assert found.lower[with_nulls] == found.lower[plain]
    else:
        assert found.lower[with_nulls] == found.lower[only_nulls] < found.lower[plain]
        assert found.upper[with_nulls] == found.upper[plain]


def test_nan_is_the_greatest_value_and_not_part_of_bounds() -> None:
    spans = [Span(1.0, 2.0, nans=3), Span(None, None, nans=RECORDS), Span(INF, INF)]
    found = ranges(spans, DoubleType())
    assert found.known.all()
    assert found.upper[0] == found.lower[1] == found.upper[1] > found.upper[2]
    turned = ranges(spans, DoubleType(), SortField(1, descending=True))
    assert turned.lower[0] == turned.lower[1] < turned.lower[2]


def test_a_file_without_bounds_is_unknown() -> None:
    found = ranges([Span(), Span(1, None), Span(None, 1), Span(nulls=None), Span(1, 2)], LongType())
    assert found.known.tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("kind", "transform", "spans", "same"),
    [
        (TimestampType(), "day", [(micros(2026, 1, 1), micros(2026, 1, 1, 23)), (micros(2026, 1, 2), None)], True),
        (TimestampType(), "hour", [(micros(2026, 1, 1), micros(2026, 1, 1, 1)), (micros(2026, 1, 2), None)], False),
        (TimestampType(), "month", [(micros(2026, 1, 1), micros(2026, 1, 31)), (micros(2026, 2, 2), None)], True),
        (DateType(), "year", [(date(2026, 1, 1), date(2026, 12, 31)), (date(2027, 1, 1), None)], True),
        (TimestampType(), "day", [(-1, -86_400_000_000), (0, None)], True),
        (LongType(), "truncate[10]", [(10, 19), (20, None)], True),
        (LongType(), "truncate[10]", [(-10, -1), (0, None)], True),
        (StringType(), "truncate[2]", [("aéx", "aéz"), ("b", None)], True),
        (BinaryType(), "truncate[1]", [(b"ax", b"az"), (b"b", None)], True),
        (DecimalType(9, 2), "truncate[10]", [(Decimal("-0.10"), Decimal("-0.01")), (Decimal("0.00"), None)], True),
    ],
)
def test_a_transform_that_keeps_the_order_is_applied_to_bounds(
    kind: IcebergType, transform: str, spans: list[tuple[Any, Any]], same: bool
) -> None:
    (low, high), (later, _) = spans
    low, high = min(low, high), max(low, high)
    found = ranges([Span(low, high), Span(later, later)], kind, SortField(1, transform))
    assert bool(found.constant[0]) is same
    assert found.upper[0] < found.lower[1]


def test_a_bucket_does_not_keep_the_order_so_every_file_is_unknown() -> None:
    assert not ranges([Span(1, 1), Span(2, 9)], LongType(), SortField(1, "bucket[16]")).known.any()
