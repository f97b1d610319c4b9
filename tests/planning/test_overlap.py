"""Overlap depth along a key, and what a lookup reads, from bounds alone."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import DoubleType, LongType, StringType

from tests.builders.key_bounds import Span, bounds_table
from tidyberg.model.sort_key import SortField
from tidyberg.planning.key_values import FieldRanges, column_bounds, ranges_of
from tidyberg.planning.overlap import KeySpans, expected_reads, lookup_shares, spans_of

Bounds = tuple[int, int] | None


def field(spans: Sequence[Bounds | Span], records: int = 100) -> FieldRanges:
    found = [each if isinstance(each, Span) else Span() if each is None else Span(*each) for each in spans]
    column = column_bounds(bounds_table({1: found}, {1: LongType()}), 1, np.full(len(spans), records, np.int64))
    return ranges_of(column, SortField(1), LongType())


def spans(*fields: Sequence[Bounds | Span], partition: Sequence[int] | None = None) -> KeySpans:
    files = len(fields[0])
    partitions = np.array(partition if partition is not None else [0] * files, np.int64)
    return spans_of(partitions, [field(each) for each in fields])


def depths(*fields: Sequence[Bounds | Span], partition: Sequence[int] | None = None) -> list[int]:
    found = spans(*fields, partition=partition)
    numbers: list[int] = found.deepest(found.depths_of(found.starts, found.ends)).tolist()
    return numbers


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([(0, 1), (2, 3), (4, 5)], [1, 1, 1]),
        ([(0, 9), (1, 2), (3, 4)], [2, 2, 2]),
        ([(0, 9), (0, 9), (0, 9)], [3, 3, 3]),
        ([(0, 5), (5, 9)], [1, 1]),  # they only touch
        ([(0, 5), (5, 5), (5, 5), (5, 9)], [1, 1, 1, 1]),  # one frequent value in several files
        ([(0, 9), (5, 5), (5, 5)], [2, 2, 2]),
        ([(0, 6), (4, 9), (5, 5)], [3, 3, 3]),
        ([None, (0, 1), (5, 6)], [2, 2, 2]),  # without bounds it overlaps all
        ([None, None, (3, 3)], [3, 3, 3]),
    ],
)
def test_depth_counts_files_that_hold_rows_between_the_rows_of_others(files: list[Bounds], expected: list[int]) -> None:
    assert depths(files) == expected


def test_partitions_do_not_overlap_each_other() -> None:
    assert depths([(0, 9)] * 4, partition=[0, 0, 1, 2]) == [2, 2, 1, 1]


def test_the_second_field_counts_where_the_first_has_one_value() -> None:
    assert depths([(5, 5)] * 3, [(0, 1), (1, 2), (3, 4)]) == [1, 1, 1]
    assert depths([(5, 5)] * 3, [(0, 9), (1, 2), (3, 4)]) == [2, 2, 2]
    # A file that begins at 5 may continue what a file with only 5 began: that is no overlap.
    assert depths([(5, 5), (5, 8), (2, 5)], [(0, 9), (0, 9), (0, 9)]) == [1, 1, 1]
    assert depths([(5, 5), (4, 8)], [(0, 9), (0, 9)]) == [2, 2]
    assert depths([(5, 5), (5, 5)], [None, (3, 3)]) == [2, 2]


def test_nulls_widen_a_file_to_the_end_where_they_are_sorted() -> None:
    assert depths([Span(8, 9, nulls=1), (0, 1), (2, 3)]) == [2, 2, 2]
    assert depths([Span(nulls=100), Span(0, 1, nulls=5), (2, 3)]) == [1, 1, 1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=12))
def test_depth_equals_a_count_between_all_values(pairs: list[tuple[int, int]]) -> None:
    files = [(min(pair), max(pair)) for pair in pairs]

    def cover(place: float) -> int:
        return sum(low < place < high for low, high in files)

    expected = []
    for low, high in files:
        if low == high:
            expected.append(cover(low) + 1)
        else:
            inside = [cover(place) + ((place, place) in files) for place in range(low + 1, high)]
            expected.append(max(inside + [cover(place + 0.5) for place in range(low, high)]))
    assert depths(files) == expected


def test_a_lookup_reads_the_files_whose_bounds_hold_the_value() -> None:
    sizes = np.full(4, 1000, np.int64)

    def reads(files: Sequence[Bounds]) -> float:
        return expected_reads(lookup_shares(field(files), np.full(4, 100, np.int64)), sizes).files

    assert reads([(0, 100)] * 4) == pytest.approx(4)
    assert reads([(0, 10), (10, 20), (20, 30), (30, 40)]) == pytest.approx(1)
    assert reads([(0, 20), (0, 20), (20, 40), (20, 40)]) == pytest.approx(2)
    assert reads([(7, 7)] * 4) == pytest.approx(4)
    assert reads([None] * 4) == pytest.approx(4)
    assert reads([None, (0, 10), (10, 20), (20, 30)]) == pytest.approx(2)


def test_random_bounds_of_a_random_key_are_read_almost_all() -> None:
    """The bounds of unsorted files lie close to both ends. Almost all rows are between them."""
    random = np.random.default_rng(7)
    files = [(int(random.integers(0, 1000)), int(random.integers(999_000, 10**6))) for _ in range(50)]
    shares = lookup_shares(field(files), np.full(50, 100, np.int64))
    assert expected_reads(shares, np.full(50, 1, np.int64)).files > 49.9


def test_a_range_reads_more_files_than_a_lookup() -> None:
    shares = lookup_shares(field([(n * 10, n * 10 + 10) for n in range(100)]), np.full(100, 100, np.int64))
    sizes = np.full(100, 10, np.int64)
    assert expected_reads(shares, sizes).files == pytest.approx(1)
    assert expected_reads(shares, sizes, 0.01).files == pytest.approx(2)
    assert expected_reads(shares, sizes, 0.01).bytes == pytest.approx(20)


def test_strings_are_placed_by_what_follows_their_common_prefix() -> None:
    values = [f"https://example.com/page/{n:05d}" for n in range(0, 11_000, 1_000)]
    columns = bounds_table({1: [Span(*pair) for pair in pairwise(values)]}, {1: StringType()})
    column = column_bounds(columns, 1, np.full(10, 100, np.int64))
    shares = lookup_shares(ranges_of(column, SortField(1), StringType()), column.records)
    assert expected_reads(shares, np.full(10, 1, np.int64)).files == pytest.approx(1, abs=0.1)


def test_the_least_and_the_greatest_floats_have_distances_that_estimates_can_use() -> None:
    tiny, huge = 5e-324, 1.7976931348623157e308
    bounds = [Span(0.0, tiny), Span(-tiny, 2 * tiny), Span(-huge, huge), Span(-np.inf, np.inf), Span(1.0, 2.0)]
    for descending in (False, True):
        field = SortField(1, descending=descending)
        columns = column_bounds(bounds_table({1: bounds}, {1: DoubleType()}), 1, np.full(5, 100, np.int64))
        shares = lookup_shares(ranges_of(columns, field, DoubleType()), np.full(5, 100, np.int64))
        assert np.isfinite(shares).all()
        assert (shares > 0).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=12))
def test_the_files_of_a_group_count_once_wherever_one_of_them_lies(drawn: list[tuple[int, int, int]]) -> None:
    files = [(min(one, other), max(one, other), group) for one, other, group in drawn]
    found = spans([file[:2] for file in files])
    groups = np.array([group for *_, group in files], np.int64)
    starts, ends = found.united(groups, np.ones(len(files), np.bool_))

    def covered(place: float) -> int:
        return len({group for low, high, group in files if low < place < high})

    values = sorted({value for low, high, _ in files for value in (low, high)})
    between = found.depths_of(starts, ends)[1::2].tolist()
    assert between[: len(values) - 1] == [covered((low + high) / 2) for low, high in pairwise(values)]
