"""Rows lie on the right side of every boundary, whatever their type, their direction, and where nulls and NaN are."""

import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import BinaryType, FixedType, IcebergType, PrimitiveType, TimestampNanoType

from tests.builders.sort_models import ORDERED, Ordered, rows_of, sort_fields, table_of
from tidyberg.execute.kernel.order.segments import SegmentedRanges, Segments, segmented_ranges
from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.model.sort_key import SortField, SortKey

WITH_LITERALS = [
    kind for kind in ORDERED.values() if not isinstance(kind.iceberg, BinaryType | FixedType | TimestampNanoType)
]


def comparable(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def is_at_or_above(value: Any, boundary: Any) -> bool:
    """The rule, as a reader would state it. Zeros are equal, as in SQL."""
    return bool(comparable(value) >= comparable(boundary))


def serialized(kind: IcebergType, value: Any) -> bytes:
    assert isinstance(kind, PrimitiveType)
    return to_bytes(kind, -0.0 if isinstance(value, float) and value == 0 else value)


@st.composite
def divided(draw: st.DrawFn) -> tuple[pa.Table, SortKey, Segments, list[Any], list[Any]]:
    """Rows, their values, and boundaries, some of which are values of rows."""
    kind: Ordered = draw(st.sampled_from(WITH_LITERALS))
    rows = draw(rows_of([kind, ORDERED["int"]]))
    (first, second) = draw(sort_fields([kind, ORDERED["int"]]))
    key = SortKey((SortField(1, "identity", first.descending, first.nulls_last), second))
    values = [row[0] for row in rows]
    of_rows = [value for value in values if value is not None]
    drawn = draw(st.lists(kind.values | (st.sampled_from(of_rows) if of_rows else st.nothing()), max_size=5))
    usable = {comparable(value): value for value in drawn if not (isinstance(value, float) and math.isnan(value))}
    boundaries = [usable[value] for value in sorted(usable)]
    segments = Segments(key, tuple(serialized(kind.iceberg, value) for value in boundaries))
    return table_of(rows, [kind, ORDERED["int"]], draw(st.integers(1, 3))), key, segments, values, boundaries


@given(divided())
def test_a_row_is_on_the_right_side_of_every_boundary(drawn: Any) -> None:
    table, key, segments, values, boundaries = drawn
    first, last = key.fields[0], segments.count - 1
    for value, found in zip(values, segments.of(table).tolist(), strict=True):
        if value is None:
            assert found == (last if first.nulls_last else 0)
        elif isinstance(value, float) and math.isnan(value):
            assert found == (0 if first.descending else last)
        else:
            above = sum(is_at_or_above(value, boundary) for boundary in boundaries)
            assert found == (last - above if first.descending else above)


@given(divided())
def test_segments_follow_each_other_in_the_order_of_the_key(drawn: Any) -> None:
    table, key, segments, _, _ = drawn
    in_order = segments.of(table)[sorted_positions(table, key)]
    assert (np.diff(in_order) >= 0).all()


@given(divided(), st.data())
def test_ranges_of_segments_keep_the_order_and_stay_within_their_segment(drawn: Any, data: st.DataObject) -> None:
    table, key, segments, _, _ = drawn
    ranges = [data.draw(st.integers(1, 3)) for _ in range(segments.count)]
    sample = table.take(pa.array(range(0, table.num_rows, data.draw(st.integers(1, 3))), pa.int64()))
    found = segmented_ranges(sample, segments, ranges)
    assigned = found.assign(table)
    ends = np.cumsum(ranges)
    assert (np.searchsorted(ends, assigned, side="right") == segments.of(table)).all()
    in_order = found.sorted_positions(table)
    by_range = in_order[np.argsort(assigned[in_order], kind="stable")]
    assert is_sorted(table.take(pa.array(by_range, pa.int64())), key)


def test_both_zeros_are_on_the_right_of_a_boundary_at_zero() -> None:
    rows = table_of([(-0.0,), (0.0,), (-1e-300,)], [ORDERED["double"]])
    segments = Segments(SortKey((SortField(1),)), (serialized(ORDERED["double"].iceberg, 0.0),))
    assert segments.of(rows).tolist() == [1, 1, 0]


@pytest.mark.parametrize("descending", [False, True])
def test_rows_that_equal_a_boundary_are_on_the_side_of_greater_values(descending: bool) -> None:
    rows = table_of([(4,), (5,), (6,)], [ORDERED["long"]])
    segments = Segments(SortKey((SortField(1, descending=descending),)), (serialized(ORDERED["long"].iceberg, 5),))
    assert segments.of(rows).tolist() == ([1, 0, 0] if descending else [0, 1, 1])


@pytest.mark.parametrize("descending", [False, True])
def test_boundaries_that_begin_alike_are_told_apart(descending: bool) -> None:
    """Decimals are two words, of which the first is equal in the last two boundaries."""
    kind = ORDERED["decimal(38,10)"]
    values = [Decimal(f"{number}.0000000000") for number in (1, 4 * 10**9, 4 * 10**9 + 1)]
    segments = Segments(
        SortKey((SortField(1, descending=descending),)), tuple(serialized(kind.iceberg, value) for value in values)
    )
    rows = table_of([(Decimal(number),) for number in (0, 1, 2 * 10**9, 4 * 10**9, 4 * 10**9 + 1, 9 * 10**9)], [kind])
    expected = [0, 1, 1, 2, 3, 3]
    assert segments.of(rows).tolist() == ([3 - each for each in expected] if descending else expected)


def test_ranges_can_be_sent_to_workers() -> None:
    rows = table_of([(number,) for number in range(10)], [ORDERED["long"]])
    segments = Segments(SortKey((SortField(1),)), (serialized(ORDERED["long"].iceberg, 5),))
    found = segmented_ranges(rows, segments, [1, 2])
    sent: SegmentedRanges = pickle.loads(pickle.dumps(found))
    assert sent.assign(rows).tolist() == found.assign(rows).tolist() == [0] * 5 + [1, 1, 1, 2, 2]
