"""A claim of a sort order that contradicts the bounds and null counts of outputs does not pass."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.planned_groups import pinned as pinned_table
from tests.builders.rewrite_results import SCHEMA, long, written
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.model.table import Pinned
from tidyberg.model.task import WrittenFile
from tidyberg.verify.orders import order_problems


def pinned(*fields: SortField) -> Pinned:
    return replace(pinned_table(), schema=SCHEMA, sort_orders={1: SortKey(fields, order_id=1)})


def output(number: int, low: int, high: int, nulls: int = 0, **changes: Any) -> WrittenFile:
    return written(
        number,
        50,
        lower_bounds={1: long(low)},
        upper_bounds={1: long(high)},
        null_value_counts={1: nulls, 2: 0},
        sort_order_id=1,
        **changes,
    )


def problems(fields: SortField, *outputs: WrittenFile) -> list[str]:
    return list(order_problems(outputs, pinned(fields)))


ASCENDING, DESCENDING = SortField(1), SortField(1, descending=True)


@pytest.mark.parametrize(
    ("field", "outputs"),
    [
        (ASCENDING, [output(0, 1, 5), output(1, 5, 9), output(2, 9, 9)]),
        (DESCENDING, [output(0, 5, 9), output(1, 1, 5)]),
        (ASCENDING, [output(0, 1, 5, nulls=7), output(1, 6, 9)]),
        (SortField(1, nulls_last=True), [output(0, 1, 5), output(1, 6, 9, nulls=7)]),
        (ASCENDING, [output(0, 1, 9, partition=(1,)), output(1, 1, 9, partition=(2,))]),
        (SortField(1, "truncate[10]"), [output(0, 1, 9), output(1, 3, 15)]),
        # Cut to a multiple of ten, the least number wraps around, as in Java.
        (SortField(1, "truncate[10]"), [output(0, 1, 9), output(1, -(2**63), 15)]),
        (SortField(1, "truncate[10]", descending=True), [output(0, -(2**63), 15), output(1, 1, 9)]),
        (SortField(1, "bucket[4]"), [output(0, 1, 9), output(1, 1, 9)]),
        (ASCENDING, [replace(output(0, 1, 9), sort_order_id=None), replace(output(1, 1, 9), sort_order_id=None)]),
    ],
)
def test_true_claims_pass(field: SortField, outputs: list[WrittenFile]) -> None:
    assert problems(field, *outputs) == []


@pytest.mark.parametrize(
    ("field", "outputs"),
    [
        (ASCENDING, [output(0, 1, 6), output(1, 5, 9)]),
        (DESCENDING, [output(0, 1, 5), output(1, 5, 9)]),
        (SortField(1, "truncate[8]"), [output(0, 1, 9), output(1, -(2**63), 15)]),  # the least is a multiple of 8
        (ASCENDING, [output(0, 1, 5), output(1, 6, 9, nulls=1)]),
        (SortField(1, nulls_last=True), [output(0, 1, 5, nulls=1), output(1, 6, 9)]),
        (ASCENDING, [output(0, 1, 6, partition=(1,)), output(1, 5, 9, partition=(1,))]),
        (SortField(1, "truncate[10]"), [output(0, 1, 19), output(1, 3, 15)]),
    ],
)
def test_false_claims_do_not_pass(field: SortField, outputs: list[WrittenFile]) -> None:
    (problem,) = problems(field, *outputs)
    assert "claim sort order 1, but" in problem


def test_a_claim_of_an_order_that_the_table_does_not_have_does_not_pass() -> None:
    (problem,) = problems(ASCENDING, replace(output(0, 1, 5), sort_order_id=4))
    assert problem == "its outputs claim sort order 4, which the table does not have"


def test_bounds_that_may_be_cut_are_compared_among_each_other() -> None:
    names = SortField(2)
    first = written(0, 50, lower_bounds={2: b"anna"}, upper_bounds={2: b"b"}, null_value_counts={2: 0}, sort_order_id=1)
    second = replace(first, path="x", lower_bounds={2: b"ap"}, upper_bounds={2: b"zz"})
    assert problems(names, first, second) == []
    assert len(problems(names, second, first)) == 1
