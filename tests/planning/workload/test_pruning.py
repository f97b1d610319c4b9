"""Ranges and ranks decide exactly as values do, and a file with a matching row is always read."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.workloads import TableOfRows, between, equal, matching_rows
from tidyberg.model.file_bounds import ColumnBounds
from tidyberg.model.workload import AllOf, AnyOf, Anything, Comparison, Condition, Operator, any_of
from tidyberg.planning.workload.pruning import TYPICAL, TypicalValues, is_known, may_match, with_ranks
from tidyberg.planning.workload.ranks import NAN, NULL, after_prefix, filter_values, rank_column

NUMBERS = st.one_of(st.none(), st.integers(-5, 5))
WORDS = st.one_of(st.none(), st.text("ab\U0010ffff", max_size=3))
ROWS = st.lists(st.tuples(NUMBERS, WORDS), min_size=1, max_size=30)


def a_condition() -> st.SearchStrategy[Condition]:
    compared = [Operator.EQ, Operator.IN, Operator.LT, Operator.LE, Operator.GT, Operator.GE]

    def leaf(column: str, values: st.SearchStrategy[Any], operators: list[Operator]) -> st.SearchStrategy[Condition]:
        return st.builds(
            lambda operator, value: Comparison(column, operator, (value,)), st.sampled_from(operators), values
        )

    leaves = st.one_of(
        leaf("n", st.integers(-6, 6), compared),
        leaf("s", st.text("ab\U0010ffff", max_size=3), compared),
        leaf("s", st.text("ab\U0010ffff", min_size=1, max_size=2), [Operator.STARTS_WITH]),
        st.builds(Comparison, st.sampled_from("ns"), st.sampled_from((Operator.IS_NULL, Operator.NOT_NULL))),
        st.just(Anything()),
    )
    return st.recursive(
        leaves,
        lambda inner: st.builds(
            lambda kind, parts: kind(tuple(parts)),
            st.sampled_from((AllOf, AnyOf)),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=6,
    )


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, files=st.integers(1, 5), condition=a_condition())
def test_ranks_decide_as_values_and_no_file_with_a_matching_row_is_skipped(
    rows: list[tuple[Any, Any]], files: int, condition: Condition
) -> None:
    table = TableOfRows.of(
        {"n": pa.array([row[0] for row in rows], pa.int64()), "s": pa.array([row[1] for row in rows], pa.string())},
        min(files, len(rows)),
    )
    bounds = table.bounds()
    values = filter_values([condition])
    columns = {name: rank_column(table.rows[name], bounds.columns[name], values.get(name, ())) for name in "ns"}
    boxes = {name: column.files for name, column in columns.items()}
    read = may_match(with_ranks(condition, columns), boxes, len(bounds))
    assert int(read.sum()) == table.reads(condition)
    hit = table.file_of_row[matching_rows(condition, table.rows.to_pylist())]
    assert read[hit].all()


def column_bounds(lows: Sequence[Any], highs: Sequence[Any]) -> ColumnBounds:
    return ColumnBounds(lows, highs, np.zeros(len(lows), np.bool_), np.ones(len(lows), np.bool_))


def test_a_file_without_bounds_is_always_read() -> None:
    column = rank_column(pa.array([1, 2, 3]), column_bounds([None, 1], [None, 3]), [7])
    condition = with_ranks(equal("c", 7), {"c": column})
    assert may_match(condition, {"c": column.files}, 2).tolist() == [True, False]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.date32(), [20_000, 20_001]),
        (pa.timestamp("us", tz="UTC"), [5, 6]),
        (pa.timestamp("ns"), [5, 6]),
        (pa.time64("us"), [5, 6]),
        (pa.decimal128(9, 2), [Decimal("1.20"), Decimal("1.30")]),
        (pa.bool_(), [False, True]),
        (pa.binary(), [b"\x7f", b"\x80"]),
        (pa.binary(2), [b"\x7f\x00", b"\x80\x00"]),
        (pa.string(), ["\uffff", "\U00010000"]),  # by bytes, not by UTF-16 units
        (pa.float32(), [-math.inf, -0.5]),
        (pa.int32(), [-5, 5]),
    ],
)
def test_values_of_every_type_are_ranked_in_their_order(kind: pa.DataType, values: list[Any]) -> None:
    plain = (
        pa.int64()
        if pa.types.is_temporal(kind) and kind != pa.date32()
        else pa.int32()
        if kind == pa.date32()
        else kind
    )
    sample = pa.array([*values, None], plain).cast(kind)
    column = rank_column(sample, column_bounds(values, values), values)
    low, high, null = column.sample.tolist()
    assert NULL == null < low < high
    assert [column.ranks[value] for value in values] == [low, high]
    assert (column.files.lows.tolist(), column.files.highs.tolist()) == ([low, high], [low, high])


def test_nan_is_above_all_values_and_is_no_bound() -> None:
    column = rank_column(pa.array([1.0, math.nan, math.inf]), column_bounds([math.nan], [math.nan]), [5.0])
    assert column.sample[1] == NAN > column.sample[2]
    assert may_match(with_ranks(equal("c", 5.0), {"c": column}), {"c": column.files}, 1).all()


def test_zero_equals_minus_zero() -> None:
    column = rank_column(pa.array([0.0]), column_bounds([-0.0], [-0.0]), [0.0])
    assert may_match(with_ranks(equal("c", 0.0), {"c": column}), {"c": column.files}, 1).all()


@pytest.mark.parametrize(
    ("prefix", "after"),
    [("a", "b"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ue000"), ("", None)],
)
def test_the_end_of_a_prefix(prefix: str, after: str | None) -> None:
    assert after_prefix(prefix) == after


def typical(condition: Condition, values: Sequence[int | None]) -> list[Condition]:
    column = rank_column(pa.array(values, pa.int64()), column_bounds([], []), ())
    return TypicalValues({"c": column}).filters(condition)


def test_values_of_the_sample_stand_for_unknown_ones() -> None:
    known = equal("c", 1)
    assert typical(known, [1, 2]) == [known]
    found = typical(Comparison("c", Operator.EQ, None), [None, *range(100)])
    assert len(found) == TYPICAL
    assert all(is_known(one) for one in found)
    assert len(set(found)) == TYPICAL, "different values"
    (one,) = {
        len(one.values or ())
        for one in typical(Comparison("c", Operator.IN, None), range(100))
        if isinstance(one, Comparison)
    }
    assert one == 3


def test_an_unknown_range_covers_a_tenth_of_the_rows() -> None:
    condition = AllOf((Comparison("c", Operator.GE, None), Comparison("c", Operator.LT, None)))
    for one in typical(condition, range(1000)):
        assert isinstance(one, AllOf)
        low, high = (part.values for part in one.parts if isinstance(part, Comparison))
        assert low is not None
        assert high is not None
        assert high[0] - low[0] in (99, 100, 101)


def test_without_sampled_values_nothing_is_ruled_out() -> None:
    assert set(typical(Comparison("c", Operator.EQ, None), [None, None])) == {Anything()}


def test_conditions_are_simplified() -> None:
    assert any_of(()) == Anything()
    assert between("c", 1, 2) == AllOf((Comparison("c", Operator.GE, (1,)), Comparison("c", Operator.LE, (2,))))


@pytest.mark.parametrize(
    ("operator", "read"),
    [
        (Operator.LT, [True, False, False]),
        (Operator.LE, [True, True, False]),
        (Operator.EQ, [False, True, False]),
        (Operator.GE, [False, True, True]),
        (Operator.GT, [False, True, True]),
    ],
)
def test_a_file_that_begins_with_the_value(operator: Operator, read: list[bool]) -> None:
    column = rank_column(pa.array([1]), column_bounds([1, 5, 8], [4, 7, 9]), [5])
    condition = with_ranks(Comparison("c", operator, (5,)), {"c": column})
    assert may_match(condition, {"c": column.files}, 3).tolist() == read
