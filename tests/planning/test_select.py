"""A filter selects every partition that may hold one of its rows."""

from datetime import date
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import expression_evaluator, rewrite_not
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)

from tests.builders.scenes import BY_DAY, NOW, SCHEMA, TODAY, UNPARTITIONED
from tidyberg.model.inventory import Partition
from tidyberg.planning.predicate import parse_predicate
from tidyberg.planning.select import select_partitions

SOURCES = {"id": 1, "day": 2, "region": 3, "ts": 4}
TRANSFORMS: dict[str, list[Transform[Any, Any]]] = {
    "id": [IdentityTransform(), BucketTransform(4), TruncateTransform(10), VoidTransform()],
    "day": [IdentityTransform(), MonthTransform(), YearTransform(), BucketTransform(3)],
    "region": [IdentityTransform(), TruncateTransform(2), BucketTransform(5)],
    "ts": [IdentityTransform(), DayTransform(), HourTransform(), MonthTransform()],
}
MICROS_PER_DAY = 86_400_000_000


def selected(sql: str, spec: PartitionSpec, *values: tuple[Any, ...], schema: Schema = SCHEMA) -> list[bool]:
    expression, _ = parse_predicate(sql, schema, NOW)
    partitions = [Partition(spec.spec_id, value, "") for value in values]
    chosen, undecided = select_partitions(expression, schema, {spec.spec_id: spec}, partitions)
    assert not undecided
    return chosen


def test_identity_partition_values_select_exactly() -> None:
    days = [(TODAY - 8,), (TODAY - 7,), (TODAY,), (None,)]
    assert selected("day >= current_date - 7", BY_DAY, *days) == [False, True, True, False]
    assert selected("day is null", BY_DAY, *days) == [False, False, False, True]
    assert selected("not day in ('2026-11-13')", BY_DAY, *days)[:3] == [True, True, False]


def test_a_condition_on_other_columns_selects_all_partitions() -> None:
    assert selected("region = 'eu'", BY_DAY, (1,), (2,)) == [True, True]
    assert selected("day = '2026-11-13'", UNPARTITIONED, ()) == [True]
    assert selected("region = 'eu' and day = '2026-11-13'", BY_DAY, (TODAY,), (1,)) == [True, False]
    assert selected("region = 'eu' or day = '2026-11-13'", BY_DAY, (TODAY,), (1,)) == [True, True]


def test_a_field_of_a_dropped_column_selects_all_and_other_fields_still_select() -> None:
    without_day = Schema(*(field for field in SCHEMA.fields if field.name != "day"))
    assert selected("id = 1", BY_DAY, (1,), schema=without_day) == [True]
    both = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "day"),
        PartitionField(3, 1001, IdentityTransform(), "region"),
        spec_id=4,
    )
    values = [(1, "eu"), (1, "us")]
    assert selected("region = 'eu' and id = 1", both, *values, schema=without_day) == [True, False]


def test_values_of_another_type_select_inclusively() -> None:
    assert selected("day >= '2026-11-13'", BY_DAY, ("not a day",), ()) == [True, True]


@pytest.mark.parametrize("as_uuid", [True, False])
def test_uuid_values_compare_in_either_form(as_uuid: bool) -> None:
    spec = PartitionSpec(PartitionField(12, 1000, IdentityTransform(), "uid"), spec_id=5)
    here = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    there = UUID(int=1)
    values = [(uuid if as_uuid else uuid.bytes,) for uuid in (here, there)]
    assert selected(f"uid = '{here}'", spec, *values) == [True, False]


rows = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-30, 30),
        "day": st.none() | st.integers(TODAY - 400, TODAY),
        "region": st.none() | st.sampled_from(["", "e", "eu", "eu-west", "us", "ust", "z"]),
        "ts": st.none() | st.integers((TODAY - 40) * MICROS_PER_DAY, TODAY * MICROS_PER_DAY),
    }
)
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


@st.composite
def leaves(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(SOURCES)))
    value = {
        "id": st.integers(-31, 31).map(str),
        "day": st.integers(0, 400).map(lambda back: f"current_date - {back}"),
        "region": st.sampled_from(["''", "'e'", "'eu'", "'eu-w'", "'us'", "'zz'"]),
        "ts": st.integers(0, 960).map(lambda back: f"current_timestamp - interval '{back}' hour"),
    }[column]
    shape = draw(st.sampled_from(["compare", "in", "between", "null", "like"]))
    if shape == "in":
        return f"{column} in ({draw(value)}, {draw(value)})"
    if shape == "between":
        return f"{column} between {draw(value)} and {draw(value)}"
    if shape == "null":
        return f"{column} is null"
    if shape == "like" and column == "region":
        return f"region like '{draw(st.sampled_from(['e', 'eu', 'eu-', 'u']))}%'"
    return f"{column} {draw(operators)} {draw(value)}"


filters = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(
    filters,
    rows,
    st.sampled_from([(column, transform) for column in SOURCES for transform in TRANSFORMS[column]]),
)
def test_a_partition_with_a_matching_row_is_never_left_out(
    sql: str, row: dict[str, Any], partitioning: tuple[str, Transform[Any, Any]]
) -> None:
    column, transform = partitioning
    field = SCHEMA.find_field(column)
    spec = PartitionSpec(PartitionField(field.field_id, 1000, transform, "p"), spec_id=3)
    value = transform.transform(field.field_type)(row[column])
    expression, _ = parse_predicate(sql, SCHEMA, NOW)
    # Negations pushed to the leaves: as in SQL, a null is neither below nor not below a value.
    matches = expression_evaluator(SCHEMA, rewrite_not(expression), case_sensitive=True)
    record = [row.get(field.name) for field in SCHEMA.fields]
    if matches(record):
        assert selected(sql, spec, (value,)) == [True]


def test_the_constant_today_is_the_day_of_now() -> None:
    assert date.fromordinal(date(1970, 1, 1).toordinal() + TODAY) == date(2026, 11, 13)
