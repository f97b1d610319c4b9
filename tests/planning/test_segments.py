"""Which files straddle which boundaries, as far as the bounds in manifests say, and which boundaries are left out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import DoubleType, IcebergType, LongType, PrimitiveType, StringType

from tests.builders.key_bounds import Span, bounds_table
from tidyberg.planning.key_values import column_bounds
from tidyberg.planning.segments import SegmentSpans, boundaries_worth_keeping, segment_spans


def spans(files: Sequence[Span], boundaries: Sequence[Any], kind: IcebergType | None = None) -> SegmentSpans:
    kind = kind or LongType()
    assert isinstance(kind, PrimitiveType)
    records = np.full(len(files), 100, np.int64)
    column = column_bounds(bounds_table({1: files}, {1: kind}), 1, records)
    return segment_spans(column, [to_bytes(kind, boundary) for boundary in boundaries], kind)


def straddling(files: Sequence[Span], boundaries: Sequence[Any], kind: IcebergType | None = None) -> list[bool]:
    found: list[bool] = spans(files, boundaries, kind).straddles.tolist()
    return found


def test_a_file_straddles_if_it_has_lesser_values_and_the_boundary_or_greater_ones() -> None:
    files = [Span(0, 9), Span(0, 10), Span(9, 10), Span(10, 20), Span(11, 20), Span(10, 10)]
    assert straddling(files, [10]) == [False, True, True, False, False, False]


def test_a_file_without_bounds_may_straddle_every_boundary() -> None:
    found = spans([Span(nulls=None), Span(3, 4)], [1, 2])
    assert found.straddles.tolist() == [True, False]
    assert found.crossed.tolist() == [True, True]


def test_nulls_and_nan_do_not_straddle() -> None:
    assert straddling([Span(11, 20, nulls=50)], [10]) == [False]
    assert straddling([Span(nulls=100)], [10]) == [False]
    assert straddling([Span(1.0, 2.0, nans=5), Span(nulls=50, nans=50)], [2.5], DoubleType()) == [False, False]


def test_both_zeros_are_above_a_boundary_at_zero() -> None:
    files = [Span(-0.0, 1.0), Span(0.0, 1.0), Span(-1.0, 0.0), Span(-1.0, -0.0)]
    assert straddling(files, [-0.0], DoubleType()) == [False, False, True, True]


def test_a_bound_that_is_cut_may_straddle() -> None:
    """The greatest value is below "ab", but all that its bound says is that it is not above."""
    assert straddling([Span("aaaa", "ab"), Span("aaaa", "aaac")], ["ab"], StringType()) == [True, False]


def test_a_segment_is_read_by_the_files_that_reach_into_it() -> None:
    found = spans([Span(0, 25), Span(10, 19), Span(30, 40), Span(nulls=100)], [10, 20, 30])
    assert found.read_by_segment(np.array([1, 10, 100, 1000])).tolist() == [1, 11, 1, 100]
    assert found.crossed.tolist() == [True, True, False]


def test_rows_are_spread_evenly_between_the_bounds_of_a_file() -> None:
    found = spans([Span(0, 100), Span(nulls=None), Span(0, 0)], [25, 50])
    assert found.of_files(np.array([0])).content(np.array([400])).tolist() == pytest.approx([100, 100, 200])
    assert found.of_files(np.array([1])).content(np.array([300])).tolist() == pytest.approx([100, 100, 100])
    assert found.content(np.array([400, 300, 7])).tolist() == pytest.approx([207, 200, 300])


def kept(files: Sequence[Span], boundaries: Sequence[int], least: float, size: int = 100) -> list[int]:
    sizes = np.full(len(files), size, np.int64)
    mask = boundaries_worth_keeping(spans(files, boundaries), sizes, least)
    return [boundary for boundary, keep in zip(boundaries, mask.tolist(), strict=True) if keep]


def test_all_boundaries_are_kept_if_no_segment_is_small() -> None:
    assert kept([Span(0, 100)], [25, 50, 75], 25) == [25, 50, 75]


def test_the_smallest_segment_loses_the_boundary_to_its_smaller_neighbour() -> None:
    assert kept([Span(0, 100)], [30, 40, 80], 20) == [40, 80]  # 30, 10, 40, 20
    assert kept([Span(0, 100)], [30, 40, 60], 20) == [30, 60]  # 30, 10, 20, 40


def test_a_boundary_at_the_end_of_a_file_is_left_out() -> None:
    assert kept([Span(0, 100)], [100], 1) == []


def test_segments_without_rows_are_not_small() -> None:
    assert kept([Span(0, 20), Span(80, 100)], [10, 40, 60, 90], 40) == [10, 40, 60, 90]


def test_files_that_no_longer_straddle_do_not_fill_segments() -> None:
    """Without the boundary at 95, the first file straddles none. The second alone is too small to be cut at 104."""
    assert kept([Span(0, 100), Span(101, 106)], [95, 104], 55) == []
    assert kept([Span(0, 100), Span(101, 106)], [95, 104], 5) == [95, 104]


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted), min_size=1, max_size=12),
    st.lists(st.integers(0, 200), min_size=1, max_size=8, unique=True).map(sorted),
    st.integers(1, 300),
)
def test_no_segment_of_what_is_kept_is_small(files: list[list[int]], boundaries: list[int], least: int) -> None:
    found = spans([Span(*each) for each in files], boundaries)
    sizes = np.full(len(files), 100, np.int64)
    mask = boundaries_worth_keeping(found, sizes, least)
    merged = found.between(mask)
    members = np.flatnonzero(merged.straddles)
    of_members = merged.of_files(members)
    content = of_members.content(sizes[members])
    assert (content[of_members.touched] >= least).all()
    assert content.sum() == pytest.approx(100 * len(members))
