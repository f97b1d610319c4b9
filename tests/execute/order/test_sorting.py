"""Rows are sorted as the spec says, for every type, direction and place of nulls."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.sort_models import ORDERED, model_key, rows_of, sort_fields, table_of
from tests.builders.tasks import field
from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import SortField, SortKey

KINDS = st.sampled_from(sorted(ORDERED)).map(ORDERED.__getitem__)


def positions(values: list[Any], kind: pa.DataType, **options: Any) -> list[int]:
    table = pa.table([pa.array(values, kind)], schema=pa.schema([field("c", kind, 1)]))
    return list(sorted_positions(table, SortKey((SortField(1, **options),))).tolist())


@pytest.mark.parametrize("name", sorted(ORDERED))
@settings(max_examples=40)
@given(data=st.data())
def test_one_column_is_sorted_as_by_the_model(name: str, data: st.DataObject) -> None:
    kinds = (ORDERED[name],)
    fields, rows = data.draw(sort_fields(kinds)), data.draw(rows_of(kinds))
    table = table_of(rows, kinds, data.draw(st.integers(1, 3)))
    expected = sorted(range(len(rows)), key=lambda row: model_key(kinds, fields)(rows[row]))
    found = sorted_positions(table, SortKey(fields)).tolist()
    assert found == expected, "rows with equal keys keep their order"


@settings(max_examples=150)
@given(data=st.data())
def test_several_columns_are_sorted_as_by_the_model(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=2, max_size=4))
    fields, rows = data.draw(sort_fields(kinds)), data.draw(rows_of(kinds))
    table = table_of(rows, kinds, data.draw(st.integers(1, 3)))
    expected = sorted(range(len(rows)), key=lambda row: model_key(kinds, fields)(rows[row]))
    assert sorted_positions(table, SortKey(fields)).tolist() == expected


@settings(max_examples=150)
@given(data=st.data())
def test_a_table_counts_as_sorted_exactly_if_the_model_agrees(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=3))
    fields, rows = data.draw(sort_fields(kinds)), data.draw(rows_of(kinds, max_size=6))
    key = model_key(kinds, fields)
    if data.draw(st.booleans()):
        rows.sort(key=key)
    expected = all(key(above) <= key(below) for above, below in pairwise(rows))
    assert is_sorted(table_of(rows, kinds), SortKey(fields)) == expected


def test_nulls_come_first_unless_the_field_says_last() -> None:
    assert positions([2, None, 1], pa.int64()) == [1, 2, 0]
    assert positions([2, None, 1], pa.int64(), nulls_last=True) == [2, 0, 1]


def test_all_nulls_are_equal_whatever_lies_in_their_place() -> None:
    first = pa.array(np.array([9, 1, 5]), mask=np.array([True, True, False]))
    schema = pa.schema([field("a", pa.int64(), 1), field("b", pa.int64(), 2)])
    table = pa.table([first, [1, 2, 0]], schema=schema)
    assert sorted_positions(table, SortKey((SortField(1), SortField(2)))).tolist() == [0, 1, 2]


def test_descending_turns_values_around_but_not_the_place_of_nulls() -> None:
    assert positions([2, None, 1], pa.int64(), descending=True) == [1, 0, 2]
    assert positions([2, None, 1], pa.int64(), descending=True, nulls_last=True) == [0, 2, 1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_greatest_all_nans_are_equal_and_negative_zero_is_less_than_zero(kind: pa.DataType) -> None:
    values = [math.nan, math.inf, 0.0, -0.0, -math.inf, -math.nan, 1.0, -1.0]
    assert positions(values, kind) == [4, 7, 3, 2, 6, 1, 0, 5]
    assert positions(values, kind, descending=True) == [0, 5, 1, 6, 2, 3, 7, 4]


def test_strings_are_compared_by_unsigned_bytes() -> None:
    assert positions(["é", "z", "Z", "", "€"], pa.string()) == [3, 2, 1, 0, 4]


def test_a_string_is_less_than_the_same_string_with_zero_bytes_at_its_end() -> None:
    assert positions(["a\x00\x00", "a", "a\x00"], pa.string()) == [1, 2, 0]
    assert positions(["a\x00\x00", "a", "a\x00"], pa.string(), descending=True) == [0, 2, 1]


def test_strings_that_differ_after_a_thousand_bytes_are_sorted() -> None:
    rng = np.random.default_rng(5)
    values = ["x" * 1000 + str(number) + "y" * 50 + str(rng.integers(9)) for number in rng.integers(0, 400, 3000)]
    assert positions(values, pa.string()) == sorted(range(3000), key=lambda row: values[row])


def test_fields_inside_structs_are_found_by_id_and_null_structs_count_as_null() -> None:
    inner = pa.struct([field("x", pa.int64(), 2), field("y", pa.string(), 3)])
    rows = [{"x": 3, "y": "a"}, None, {"x": 1, "y": "b"}, {"x": None, "y": "c"}]
    table = pa.table([pa.array(rows, inner)], schema=pa.schema([field("s", inner, 1)]))
    assert sorted_positions(table, SortKey((SortField(2),))).tolist() == [1, 3, 2, 0]
    assert sorted_positions(table, SortKey((SortField(3, descending=True),))).tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("values", [[], [None] * 5, [7] * 5, [7]], ids=["empty", "all-null", "one-value", "one-row"])
def test_keys_without_a_difference_keep_the_order_of_rows(values: list[int | None]) -> None:
    assert positions(values, pa.int64()) == list(range(len(values)))


def test_many_rows_with_ties_at_every_level_are_sorted() -> None:
    """Bits of wide words and of many groups do not fit one number, so these rows are sorted in several rounds."""
    rng = np.random.default_rng(3)
    wide = rng.integers(-(2**63), 2**63 - 1, 300)[rng.integers(0, 300, 20_000)]
    near = wide + rng.integers(0, 3, 20_000) * (rng.integers(0, 2, 20_000) * 2**40 + 1)
    other = rng.integers(-(2**63), 2**63 - 1, 20_000)
    schema = pa.schema([field("a", pa.int64(), 1), field("b", pa.int64(), 2), field("c", pa.int64(), 3)])
    table = pa.table([near, wide, other], schema=schema)
    key = SortKey((SortField(1), SortField(2, descending=True), SortField(3)))
    expected = np.lexsort((other, ~wide, near))
    assert sorted_positions(table, key).tolist() == expected.tolist()
    assert is_sorted(table.take(expected), key)
    swapped = np.concatenate([expected[:9_000], expected[9_000:9_002][::-1], expected[9_002:]])
    assert not is_sorted(table.take(swapped), key)


@pytest.mark.parametrize("distinct", [100, 1_000_000])
def test_many_strings_that_tie_in_their_first_words_are_sorted(distinct: int) -> None:
    ends = np.random.default_rng(8).integers(0, distinct, 70_000)
    values = [f"{'p' * 40}{number:06d}" if number % 2 else f"p{'q' * 40}{number:06d}" for number in ends.tolist()]
    assert positions(values, pa.string()) == sorted(range(70_000), key=lambda row: values[row])


NESTED = pa.schema(
    [
        field("tags", pa.list_(field("element", pa.string(), 2)), 1),
        field("attributes", pa.map_(pa.string(), pa.string()), 3),
        field("place", pa.struct([field("x", pa.int64(), 5)]), 4),
    ]
)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (1, "Column 'tags' cannot be part of a sort key: list<element: string> has no order."),
        (2, "Column 'tags.list.element' cannot be part of a sort key: it is inside a list or map"),
        (3, "Column 'attributes' cannot be part of a sort key: map<string, string> has no order."),
        (4, "Column 'place' cannot be part of a sort key: struct<x: int64> has no order."),
        (9, "The sort key uses field 9, which is no column of the table."),
    ],
)
def test_columns_without_an_order_are_refused_by_name(source: int, message: str) -> None:
    with pytest.raises(KernelFailure) as failure:
        sorted_positions(NESTED.empty_table(), SortKey((SortField(source),)))
    assert failure.value.kind is FailureKind.SCHEMA
    assert message in failure.value.message


def test_a_key_without_fields_is_refused() -> None:
    with pytest.raises(KernelFailure, match="no fields"):
        sorted_positions(NESTED.empty_table(), SortKey(()))
