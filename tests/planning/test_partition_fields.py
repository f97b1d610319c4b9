"""A filter may name partition fields, in the form in which plans print them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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

from tests.builders.scenes import BY_DAY, NOW, SCHEMA, TODAY, UNPARTITIONED, File, Scene, plan_for
from tidyberg.errors import BadPredicate
from tidyberg.model.inventory import Partition
from tidyberg.model.options import PlanOptions
from tidyberg.planning.partition_fields import partition_fields
from tidyberg.planning.predicate import parse_predicate
from tidyberg.planning.select import select_partitions

DAY_COLUMN, TS = 2, 4
HOUR_MICROS = 3_600_000_000
WITHOUT_DAY = Schema(*(field for field in SCHEMA.fields if field.name != "day"))


def spec_of(number: int, *fields: tuple[int, Transform[Any, Any], str]) -> PartitionSpec:
    parts = (PartitionField(source, 1000 + 10 * number + n, by, name) for n, (source, by, name) in enumerate(fields))
    return PartitionSpec(*parts, spec_id=number)


def select(
    sql: str, specs: list[PartitionSpec], *tuples: tuple[int, tuple[Any, ...]], schema: Schema = WITHOUT_DAY
) -> tuple[list[bool], dict[int, str]]:
    """`tuples` are spec ids with partition values. The last spec is the current one."""
    by_id = {spec.spec_id: spec for spec in specs}
    fields = partition_fields(by_id, specs[-1].spec_id, schema, {0: SCHEMA})
    expression, _ = parse_predicate(sql, schema, NOW, fields)
    return select_partitions(expression, schema, by_id, [Partition(n, values, "") for n, values in tuples], fields)


def resolved(sql: str, transform: Transform[Any, Any], source: int = TS, name: str = "p") -> str:
    spec = spec_of(3, (source, transform, name))
    return parse_predicate(sql, WITHOUT_DAY, NOW, partition_fields({3: spec}, 3, WITHOUT_DAY, {0: SCHEMA}))[1]


@pytest.mark.parametrize(
    ("sql", "transform", "shown"),
    [
        ("p >= current_date - 7", DayTransform(), "p >= '2026-11-06'"),
        ("p = '2026-11-12'", DayTransform(), "p = '2026-11-12'"),
        ("p > current_timestamp - interval '36' hour", DayTransform(), "p > '2026-11-11'"),
        ("p in ('2026-11-12', date '2026-11-13')", DayTransform(), "p in ('2026-11-12', '2026-11-13')"),
        ("p >= current_date - 30", MonthTransform(), "p >= '2026-10'"),
        ("p = '2026-11'", MonthTransform(), "p = '2026-11'"),
        ("p = '2026'", YearTransform(), "p = '2026'"),
        ("p = 2026", YearTransform(), "p = '2026'"),
        ("p < current_date", YearTransform(), "p < '2026'"),
        ("p = '2026-11-12-10'", HourTransform(), "p = '2026-11-12-10'"),
        ("p >= current_timestamp - interval '2' hour", HourTransform(), "p >= '2026-11-12-22'"),
        ("p between '2026-11-12 10:30' and '2026-11-12T12:00:00+02:00'", HourTransform(),
         "p between '2026-11-12-10' and '2026-11-12-10'"),
        ("p is null", DayTransform(), "p is null"),
        ("p = 3", BucketTransform(16), "p = 3"),
        ("P = 3", BucketTransform(16), "p = 3"),
    ],
)  # fmt: skip
def test_a_date_or_time_means_the_unit_that_contains_it(sql: str, transform: Transform[Any, Any], shown: str) -> None:
    assert resolved(sql, transform) == shown
    assert resolved(shown, transform) == shown, "what is shown reads back to the same"


def test_truncated_and_identity_values_compare_by_value() -> None:
    assert resolved("p = 'eu'", TruncateTransform(2), source=3) == "p = 'eu'"
    assert resolved("p like 'e%'", TruncateTransform(2), source=3) == "p like 'e%'"
    assert resolved("p in (10, 20)", TruncateTransform(10), source=1) == "p in (10, 20)"
    assert resolved("p = 'eu'", IdentityTransform(), source=3) == "p = 'eu'"


@pytest.mark.parametrize(
    ("sql", "transform", "said"),
    [
        ("p = 'soon'", DayTransform(), "'soon' is neither a date nor a time; partition field p holds days"),
        ("p = 20770", DayTransform(), "20770 is neither a date nor a time"),
        ("p >= 'eu'", BucketTransform(4), "'eu' is not a value of partition field p, which is of type int"),
        ("q = 3", BucketTransform(4), "There is no column or partition field q"),
        ("p = 3", VoidTransform(), "There is no column p"),
    ],
)
def test_a_value_that_the_field_cannot_have_is_refused(sql: str, transform: Transform[Any, Any], said: str) -> None:
    with pytest.raises(BadPredicate, match=said):
        resolved(sql, transform)


def test_errors_list_columns_and_partition_fields() -> None:
    with pytest.raises(BadPredicate) as refusal:
        resolved("nowhere = 3", DayTransform(), name="ts_day")
    assert "The table has" in str(refusal.value.hint)
    assert "its partition fields are ts_day." in str(refusal.value.hint)
    with pytest.raises(BadPredicate) as refusal:
        resolved("ts_dy = 3", DayTransform(), name="ts_day")
    assert refusal.value.hint == "Did you mean ts_day?"


def test_a_day_field_selects_days() -> None:
    spec = spec_of(3, (TS, DayTransform(), "day"))
    days = [(3, (TODAY - 8,)), (3, (TODAY - 7,)), (3, (TODAY,)), (3, (None,))]
    assert select("day >= current_date - 7", [spec], *days) == ([False, True, True, False], {})
    assert select("day is null", [spec], *days) == ([False, False, False, True], {})
    assert select("not day = current_date", [spec], *days)[0] == [True, True, False, True]
    assert select("day = current_date and region = 'eu'", [spec], *days)[0] == [False, False, True, False]


def test_a_column_hides_a_partition_field_of_the_same_name() -> None:
    spec = spec_of(3, (TS, DayTransform(), "day"))  # SCHEMA has a column `day`, of which this spec knows nothing
    assert select("day = current_date", [spec], (3, (TODAY,)), (3, (TODAY - 1,)), schema=SCHEMA) == ([True, True], {})


def test_partitions_without_the_field_are_judged_by_its_source_column() -> None:
    by_hour = spec_of(3, (TS, HourTransform(), "ts_hour"))
    by_month = spec_of(4, (TS, MonthTransform(), "ts_month"))
    by_day = spec_of(5, (TS, DayTransform(), "ts_day"))
    here = (3, (TODAY * 24 + 23,)), (3, (TODAY * 24 + 24,)), (4, (682,)), (4, (681,)), (5, (TODAY,)), (5, (TODAY + 1,))
    for sql, wanted in (
        ("ts_day = current_date", [True, False, True, False, True, False]),
        ("ts_day != current_date", [False, True, True, True, False, True]),
        ("ts_day <= current_date", [True, False, True, True, True, False]),
        ("ts_day > current_date", [False, True, True, False, False, True]),
        ("ts_day in ('2026-11-14')", [False, True, True, False, False, True]),
        ("ts_day not in ('2026-11-14', '2026-11-15')", [True, False, True, True, True, False]),
        ("ts_month = '2026-11'", [True, True, True, False, True, True]),
        ("ts_hour >= '2026-11-14-00'", [False, True, True, False, False, True]),
    ):
        assert select(sql, [by_hour, by_month, by_day], *here) == (wanted, {}), sql


def test_a_partition_that_the_filter_cannot_decide_is_left_alone_with_a_reason() -> None:
    nothing, by_bucket = spec_of(1), spec_of(3, (1, BucketTransform(4), "id_bucket"))
    old, three, two = (1, ()), (3, (3,)), (3, (2,))
    reason = "the filter cannot tell: partition spec 1 has no field id_bucket"
    assert select("id_bucket = 3", [nothing, by_bucket], old, three, two) == ([False, True, False], {0: reason})
    assert select("not id_bucket = 3", [nothing, by_bucket], old, three, two) == ([False, False, True], {0: reason})
    # What else the filter says may decide all the same.
    assert select("id_bucket = 3 or region = 'eu'", [nothing, by_bucket], old) == ([True], {})
    assert select("id_bucket = 3 and false", [nothing, by_bucket], old) == ([False], {})


def test_a_field_name_means_the_field_of_the_current_spec() -> None:
    before, now = spec_of(3, (1, BucketTransform(4), "part")), spec_of(4, (3, IdentityTransform(), "part"))
    chosen, undecided = select("part = 'eu'", [before, now], (3, (1,)), (4, ("eu",)), (4, ("us",)))
    assert chosen == [False, True, False]
    assert list(undecided) == [0]


def test_a_field_whose_column_was_dropped_can_be_named() -> None:
    spec = spec_of(3, (DAY_COLUMN, IdentityTransform(), "day"))  # WITHOUT_DAY has no such column any more
    assert select("day = current_date", [spec], (3, (TODAY,)), (3, (TODAY - 1,))) == ([True, False], {})


@settings(max_examples=300, deadline=None)
@given(
    st.none() | st.integers((TODAY - 40) * 24 * HOUR_MICROS, TODAY * 24 * HOUR_MICROS),
    st.sampled_from([YearTransform(), MonthTransform(), DayTransform(), HourTransform()]),
    st.sampled_from([YearTransform(), MonthTransform(), DayTransform(), HourTransform(), IdentityTransform()]),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.integers(0, 960),
    st.booleans(),
)
def test_no_file_of_another_spec_that_holds_a_selected_row_is_dropped(
    micros: int | None, asked: Transform[Any, Any], other: Transform[Any, Any], sign: str, back: int, negate: bool
) -> None:
    """A row is written under both specs. If the field selects it, the file without the field is selected too."""
    kind = SCHEMA.find_field("ts").field_type
    old, new = spec_of(3, (TS, other, "q")), spec_of(4, (TS, asked, "p"))
    sql = f"p {sign} current_timestamp - interval '{back}' hour"
    sql = f"not ({sql})" if negate else sql
    values = [(number, (by.transform(kind)(micros),)) for number, by in ((3, other), (4, asked))]
    (elsewhere, direct), undecided = select(sql, [old, new], *values)
    assert not undecided
    assert elsewhere or not direct


def test_a_plan_says_what_the_filter_could_not_decide() -> None:
    scene = Scene(files=[File(100, partition=0, sequence=n) for n in range(9)])
    inventory = scene.inventory()
    later = spec_of(7, (1, BucketTransform(4), "id_bucket"))
    pinned = replace(inventory.pinned, specs={0: BY_DAY, 1: UNPARTITIONED, 7: later}, default_spec_id=7)
    plan = plan_for(replace(inventory, pinned=pinned), PlanOptions(where="id_bucket = 2"))
    assert plan.resolved_where == "id_bucket = 2"
    assert {row.verdict.reason for row in plan.partitions} == {
        "the filter cannot tell: partition spec 0 has no field id_bucket"
    }
