"""Rows are divided into ranges of a key that do not overlap and have equal sizes, whatever the key is."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.sort_models import ORDERED, model_key, rows_of, sort_fields, table_of
from tests.builders.tasks import field
from tidyberg.execute.kernel.order.ranges import range_bounds
from tidyberg.model.sort_key import Curve, SortField, SortKey

KINDS = st.sampled_from(sorted(ORDERED)).map(ORDERED.__getitem__)
ID = SortKey((SortField(1),))


def numbers(values: Any) -> pa.Table:
    return pa.table([pa.array(values, pa.int64())], schema=pa.schema([field("id", pa.int64(), 1)]))


@settings(max_examples=200)
@given(data=st.data())
def test_ranges_follow_the_order_of_the_key_and_touch_at_one_key_at_most(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=3))
    fields = data.draw(sort_fields(kinds))
    rows = data.draw(rows_of(kinds))
    sample = [row for row in rows if data.draw(st.booleans())]
    ranges = data.draw(st.integers(1, 8))
    bounds = range_bounds(table_of(sample, kinds), SortKey(fields), ranges)
    found = bounds.assign(table_of(rows, kinds, 2), data.draw(st.integers(0, 1000)))
    assert all(0 <= number < ranges for number in found.tolist())
    key = model_key(kinds, fields)
    by_key = sorted(zip(map(key, rows), found.tolist(), strict=True), key=lambda pair: pair[0])
    greatest = -1
    for index, (own, number) in enumerate(by_key):
        if index and own != by_key[index - 1][0]:
            greatest = max(one for _, one in by_key[:index])
        assert number >= greatest, "a greater key never lies in a lower range"


@pytest.mark.parametrize("name", sorted(ORDERED))
@settings(max_examples=25)
@given(data=st.data())
def test_distinct_sampled_keys_are_divided_evenly(name: str, data: st.DataObject) -> None:
    kinds = (ORDERED[name],)
    fields = (SortField(1),)
    key = model_key(kinds, fields)
    distinct = {key(row): row for row in data.draw(rows_of(kinds))}
    rows = list(distinct.values())
    ranges = data.draw(st.integers(1, 6))
    found = range_bounds(table_of(rows, kinds), SortKey(fields), ranges).assign(table_of(rows, kinds))
    counts = np.bincount(found, minlength=ranges)
    assert counts.max() <= -(-len(rows) // ranges) + 1


def test_ranges_of_many_rows_have_nearly_equal_sizes() -> None:
    values = np.random.default_rng(1).normal(0, 1e15, 100_000).astype(np.int64)
    bounds = range_bounds(numbers(values[:10_000]), ID, 20)
    counts = np.bincount(bounds.assign(numbers(values)), minlength=20)
    assert counts.min() > 4_400
    assert counts.max() < 5_600


def test_a_heavy_key_is_spread_evenly_over_the_ranges_that_may_hold_it() -> None:
    rng = np.random.default_rng(2)
    values = np.where(rng.random(100_000) < 0.5, 77, rng.integers(0, 1000, 100_000))
    bounds = range_bounds(numbers(values[:20_000]), ID, 20)
    found = bounds.assign(numbers(values))
    counts = np.bincount(found, minlength=20)
    assert counts.min() > 4_400
    assert counts.max() < 5_600
    assert len(set(found[values == 77].tolist())) in (10, 11, 12)
    # Batches that begin at any row spread the key in the same way.
    parts = [bounds.assign(numbers(values[at : at + 1000]), at) for at in range(0, 100_000, 1000)]
    assert np.concatenate(parts).tolist() == found.tolist()


def test_a_heavy_key_that_is_not_the_majority_of_a_range_is_not_torn_apart_needlessly() -> None:
    values = np.repeat(np.arange(100), 10)
    found = range_bounds(numbers(values), ID, 10).assign(numbers(values))
    assert [len(set(found[values == value].tolist())) for value in range(100)] == [1] * 100


@pytest.mark.parametrize("values", [[], [None] * 10, [5] * 10], ids=["empty", "all-null", "one-value"])
def test_samples_without_a_difference_give_valid_ranges(values: list[int | None]) -> None:
    bounds = range_bounds(numbers(values), ID, 4)
    found = bounds.assign(numbers([None, -1, 5, 6]))
    assert found.tolist() == sorted(found.tolist())
    assert set(found.tolist()) <= {0, 1, 2, 3}
    assert bounds.assign(numbers([])).tolist() == []


def test_half_of_the_rows_are_null_and_are_spread() -> None:
    values = [None] * 500 + list(range(500))
    counts = np.bincount(range_bounds(numbers(values), ID, 10).assign(numbers(values)), minlength=10)
    assert counts.tolist() == [100] * 10


def test_strings_outside_the_prefix_of_all_bounds_go_to_the_ends() -> None:
    schema = pa.schema([field("url", pa.string(), 1)])
    urls = [f"https://example.com/{number:03d}" for number in range(100)]
    bounds = range_bounds(pa.table([urls], schema=schema), ID, 4)
    others = pa.table(
        [["", "https://example.com/", "https://example.co", "https://example.con", "zzz", "Https"]], schema=schema
    )
    assert bounds.assign(others).tolist() == [0, 0, 0, 3, 3, 0]
    turned = range_bounds(pa.table([urls], schema=schema), SortKey((SortField(1, descending=True),)), 4)
    assert turned.assign(others).tolist() == [3, 3, 3, 0, 0, 3]


def test_bounds_survive_pickling_and_stay_small() -> None:
    table = numbers(np.random.default_rng(1).integers(0, 10**9, 50_000))
    bounds = range_bounds(table, ID, 40)
    expected = bounds.assign(table)
    content = pickle.dumps(bounds)
    assert len(content) < 4_000
    assert pickle.loads(content) == bounds
    assert pickle.loads(content).assign(table).tolist() == expected.tolist()


@pytest.mark.parametrize("curve", Curve)
def test_ranges_of_a_curve_follow_the_curve(curve: Curve) -> None:
    rng = np.random.default_rng(4)
    schema = pa.schema([field("x", pa.float64(), 1), field("y", pa.string(), 2)])
    ys = [f"https://example.com/{number}" for number in rng.integers(0, 5000, 20_000).tolist()]
    table = pa.table([rng.normal(size=20_000), ys], schema=schema)
    key = SortKey((SortField(1), SortField(2)), curve)
    bounds = pickle.loads(pickle.dumps(range_bounds(table.slice(0, 5000), key, 16)))
    found = bounds.assign(table)
    counts = np.bincount(found, minlength=16)
    assert counts.min() > 900
    assert counts.max() < 1700
    ordered = bounds.sorted_positions(table)
    assert (np.diff(found[ordered]) >= 0).all()
    assert bounds.is_sorted(table.take(ordered))
    assert not bounds.is_sorted(table)
