"""Sort orders: the text that users write, the table's own order, curves, and what is refused."""

import shlex
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.builders.scenes import SCHEMA, File, Scene
from tidyberg.errors import BadInput, BadSortOrder
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.sort_key import Curve, SortField, SortKey
from tidyberg.model.table import Pinned
from tidyberg.planning.sort_orders import asked_sort_key, describe_key, sort_flag, sort_key_of, table_order
from tidyberg.planning.sort_text import parse_sort_text

PINNED = Scene([File()]).inventory().pinned


def key_of(text: str) -> SortKey:
    return sort_key_of(text, PINNED)


def with_orders(*orders: SortKey, current: int) -> Pinned:
    return replace(PINNED, sort_orders={order.order_id or 0: order for order in orders}, sort_order_id=current)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("id", [SortField(1)]),
        ("id asc", [SortField(1)]),
        ("id desc", [SortField(1, descending=True, nulls_last=True)]),
        ("id desc nulls first", [SortField(1, descending=True)]),
        ("ID NULLS LAST, Region", [SortField(1, nulls_last=True), SortField(3)]),
        ("place.city", [SortField(9)]),
        ('"odd name" desc, `odd name`', None),
        ('"odd name"', [SortField(11)]),
        ("bucket(16, id)", [SortField(1, "bucket[16]")]),
        ("bucket[16](id)", [SortField(1, "bucket[16]")]),
        ("truncate(region, 4), identity(id)", [SortField(3, "truncate[4]"), SortField(1)]),
        ("bucket(16,id), id", [SortField(1, "bucket[16]"), SortField(1)]),
        (
            "year(day), months(ts), day(seen), hours(ts)",
            [SortField(2, "year"), SortField(4, "month"), SortField(5, "day"), SortField(4, "hour")],
        ),
        ("flag, price, uid, ratio, clock", [SortField(6), SortField(7), SortField(12), SortField(13), SortField(16)]),
    ],
)
def test_a_text_names_columns_transforms_directions_and_the_place_of_nulls(
    text: str, fields: list[SortField] | None
) -> None:
    if fields is None:
        with pytest.raises(BadSortOrder, match="twice"):
            key_of(text)
        return
    assert key_of(text) == SortKey(tuple(fields))
    assert key_of(describe_key(key_of(text), SCHEMA)) == key_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("id,", "ends where a column is expected"),
        ("id region", "has 'region' at character 4 where a comma is expected"),
        ("odd name", 'Put other names in quotes: "my column".'),
        ("id nulls", "first or last"),
        ("id; drop", "character 3"),
        ("idd", "no column idd. Did you mean id"),
        ("zz9", "The table has"),
        ("void(id)", "Void has no order"),
        ("sha(id)", "not a transform"),
        ("bucket(id)", "needs a number above 0"),
        ("bucket(0, id)", "needs a number above 0"),
        (f"bucket({'9' * 5000}, id)", "a number of 5,000 digits at character 8. A width is below 2^31."),
        (f"bucket[{'9' * 10}](id)", "below 2^31"),
        ("day(3, ts)", "takes only a column"),
        ("day(region)", "does not apply to column region"),
        ("hour(day)", "does not apply"),
        ("bucket(4, ratio)", "does not apply"),
        ("truncate(2, ts)", "does not apply"),
        ("tags", "a list, which has no order"),
        ("tags.element", "inside a list or a map"),
        ("place", "such as place.city"),
        ("id, ID desc", "twice"),
        ("a" * 10_001, "characters long"),
    ],
)
def test_a_bad_text_is_refused_with_what_to_do(text: str, words: str) -> None:
    with pytest.raises(BadSortOrder) as caught:
        key_of(text)
    assert words in str(caught.value)


def test_a_column_that_is_called_table_is_not_taken_for_the_order_of_the_table() -> None:
    schema = Schema(NestedField(1, "table", LongType()), NestedField(2, "id", LongType()))
    assert describe_key(SortKey((SortField(1),)), schema) == '"table"'
    assert describe_key(SortKey((SortField(1), SortField(2))), schema) == "table, id"


def test_a_text_that_equals_an_order_of_the_table_may_claim_it() -> None:
    by_id, by_day = SortKey((SortField(1),), order_id=1), SortKey((SortField(2),), order_id=2)
    same_again = replace(by_id, order_id=3)
    pinned = with_orders(by_id, by_day, same_again, current=1)
    assert sort_key_of("id", pinned).order_id == 1  # the current one of two
    assert sort_key_of("day", pinned).order_id == 2
    assert sort_key_of("id nulls last", pinned).order_id is None
    assert sort_key_of("id, day", pinned).order_id is None


def test_the_order_of_the_table_is_used_as_it_is() -> None:
    order = SortKey((SortField(4, "day", descending=True), SortField(1)), order_id=5)
    pinned = with_orders(order, current=5)
    assert table_order(pinned) == order
    assert asked_sort_key(PlanOptions(strategy=Strategy.SORT), pinned) == order
    assert asked_sort_key(PlanOptions(sort="Table"), pinned) == order


def test_a_table_without_an_order_or_with_a_dropped_column_is_refused() -> None:
    with pytest.raises(BadSortOrder, match="has no sort order"):
        table_order(PINNED)
    dropped = with_orders(SortKey((SortField(99),), order_id=1), current=1)
    with pytest.raises(BadSortOrder, match="dropped"):
        table_order(dropped)
    unknown = with_orders(SortKey((SortField(1, "unknown"),), order_id=1), current=1)
    with pytest.raises(BadSortOrder, match="does not know"):
        table_order(unknown)


def test_a_curve_is_over_two_or_more_plain_columns() -> None:
    key = asked_sort_key(PlanOptions(zorder="id, region"), PINNED)
    assert key == SortKey((SortField(1), SortField(3)), Curve.ZORDER)
    assert describe_key(key, SCHEMA) == "z-order of id, region"
    hilbert = asked_sort_key(PlanOptions(hilbert="id,place.city"), PINNED)
    assert hilbert == SortKey((SortField(1), SortField(9)), Curve.HILBERT)
    for text, words in [
        ("id", "at least 2 columns"),
        ("id, tags", "no order"),
        ("id desc, day", "plain columns"),
        ("id, bucket(4, id)", "plain columns"),
        ("id, id", "twice"),
        ("id, day, region, ts, seen, flag, price, uid, ratio", "over 9 columns"),
    ]:
        with pytest.raises(BadSortOrder, match=words):
            asked_sort_key(PlanOptions(zorder=text), PINNED)


@pytest.mark.parametrize(
    ("column", "flag"),
    [
        ("id", "--sort-order id"),
        ("table", """--sort-order '"table"'"""),
        ("my col", """--sort-order '"my col"'"""),
        ("it's", """--sort-order '"it'"'"'s"'"""),
    ],
)
def test_a_hint_names_a_column_as_a_shell_and_the_order_read_it(column: str, flag: str) -> None:
    assert sort_flag(column) == flag
    (order,) = shlex.split(flag)[1:]
    assert [field.column for field in parse_sort_text(order)] == [column]


def test_a_curve_never_claims_an_order() -> None:
    order = SortKey((SortField(1), SortField(2)), order_id=1)
    key = asked_sort_key(PlanOptions(zorder="id, day"), with_orders(order, current=1))
    assert key == SortKey(order.fields, Curve.ZORDER)


def test_options_hold_one_order_and_set_the_strategy() -> None:
    assert PlanOptions(sort="id").strategy is Strategy.SORT
    assert PlanOptions(strategy=Strategy.SORT).sort == "table"
    assert PlanOptions(strategy=Strategy.SORT, hilbert="a,b").sort is None
    assert asked_sort_key(PlanOptions(), PINNED) is None
    with pytest.raises(BadInput, match="exclude each other"):
        PlanOptions(sort="id", zorder="a, b")
    with pytest.raises(BadInput, match="strategy full"):
        PlanOptions(sort="id", strategy=Strategy.FULL)
    with pytest.raises(BadInput, match="rewrite_to_current_spec"):
        PlanOptions(sort="id", rewrite_to_current_spec=True)
    with pytest.raises(BadInput, match="max_overlap_depth"):
        PlanOptions(max_overlap_depth=0)
