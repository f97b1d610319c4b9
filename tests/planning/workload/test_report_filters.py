"""Filters of scan reports become shapes: columns and operators without values."""

from typing import Any

import pytest

from tidyberg.errors import BadInput
from tidyberg.model.workload import AllOf, AnyOf, Anything, Comparison, Condition, Operator
from tidyberg.planning.workload.report_filters import (
    MOST_COMPARISONS,
    condition_shape,
    report_condition,
    shape_condition,
    shape_words,
)

ID = {"type": "eq", "term": "id", "value": "(2-digit-int)"}
TS = {"type": "gt-eq", "term": "ts", "value": "(timestamp-3-hours-ago)"}
REGION = {"type": "in", "term": "region", "values": ["(hash-312c5679)", "(hash-1a2b3c4d)"]}


def unknown(column: str, operator: Operator) -> Comparison:
    return Comparison(column, operator, () if operator.is_unary else None)


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (True, Anything()),
        (False, Anything()),
        ({"type": "literal", "value": True}, Anything()),
        (ID, unknown("id", Operator.EQ)),
        ({"type": "is-null", "term": "a.b"}, unknown("a.b", Operator.IS_NULL)),
        ({"type": "starts-with", "term": "s", "value": "x"}, unknown("s", Operator.STARTS_WITH)),
        ({"type": "lt", "term": {"type": "reference", "term": "id"}, "value": 5}, unknown("id", Operator.LT)),
        ({"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 3}, Anything()),
        ({"type": "not-eq", "term": "id", "value": 3}, Anything()),
        ({"type": "and", "left": ID, "right": TS}, AllOf((unknown("id", Operator.EQ), unknown("ts", Operator.GE)))),
        ({"type": "or", "left": ID, "right": TS}, AnyOf((unknown("id", Operator.EQ), unknown("ts", Operator.GE)))),
        ({"type": "or", "left": ID, "right": True}, Anything()),
        ({"type": "not", "child": TS}, unknown("ts", Operator.LT)),
        ({"type": "not", "child": ID}, Anything()),
        ({"type": "not", "child": {"type": "or", "left": TS, "right": ID}}, unknown("ts", Operator.LT)),
        (REGION, unknown("region", Operator.IN)),
    ],
)
def test_a_filter_is_read_without_its_values(filter_: Any, expected: Condition) -> None:
    condition = report_condition(filter_)
    assert condition == expected
    assert shape_condition(condition_shape(condition)) == condition


def test_filters_that_differ_in_values_and_order_have_one_shape() -> None:
    first = {"type": "and", "left": ID, "right": {"type": "and", "left": TS, "right": {**ID, "value": 7}}}
    second = {"type": "and", "left": {**TS, "value": 1}, "right": {**ID, "value": 2}}
    assert condition_shape(report_condition(first)) == condition_shape(report_condition(second))
    assert "digit" not in condition_shape(report_condition(first)), "no values are kept"
    either = {"type": "or", "left": TS, "right": ID}
    words = shape_words(report_condition({"type": "and", "left": ID, "right": either}))
    assert words == "id = ? and (ts >= ? or id = ?)"


def test_not_null_beside_another_comparison_of_the_column_is_dropped() -> None:
    present = {"type": "not-null", "term": "id"}
    assert report_condition({"type": "and", "left": present, "right": ID}) == unknown("id", Operator.EQ)
    other = report_condition({"type": "and", "left": present, "right": TS})
    assert other == AllOf((unknown("id", Operator.NOT_NULL), unknown("ts", Operator.GE)))
    assert report_condition({"type": "or", "left": present, "right": ID}) == AnyOf(
        (unknown("id", Operator.NOT_NULL), unknown("id", Operator.EQ))
    )


@pytest.mark.parametrize(
    "filter_",
    [
        None,
        5,
        "true",
        [],
        {},
        {"type": 5},
        {"type": "unknown", "term": "id"},
        {"type": "and", "left": ID},
        {"type": "not"},
        {"type": "eq"},
        {"type": "eq", "term": 5, "value": 1},
        {"type": "eq", "term": "", "value": 1},
        {"type": "eq", "term": "x" * 300, "value": 1},
        {"type": "eq", "term": {"type": "reference"}},
    ],
)
def test_what_is_no_expression_is_refused(filter_: Any) -> None:
    with pytest.raises(BadInput, match="not an expression of Iceberg"):
        report_condition(filter_)


def test_huge_filters_count_as_none() -> None:
    wide: Any = ID
    for number in range(MOST_COMPARISONS + 1):
        wide = {"type": "and", "left": wide, "right": {"type": "eq", "term": f"c{number}", "value": 1}}
    assert report_condition(wide) == Anything()
    deep: Any = ID
    for _ in range(5000):
        deep = {"type": "not", "child": deep}
    assert report_condition(deep) == Anything()
