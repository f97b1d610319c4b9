"""A plan merges files in the table's sort order if they claim it, and warns if it compacts others without sorting."""

from dataclasses import replace

import pyarrow as pa
import pytest

from tests.builders.scenes import File, Scene, plan_for
from tidyberg.model.inventory import DATA_FILES, Inventory
from tidyberg.model.options import PlanOptions, RewriteMode
from tidyberg.model.plan import Plan
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.planning.document import plan_from_json, plan_to_json

BY_ID = SortKey((SortField(1),))


def with_order(order: int, orders_of_files: list[int | None], key: SortKey | None = BY_ID) -> Inventory:
    inventory = Scene([File() for _ in orders_of_files]).inventory()
    column = DATA_FILES.get_field_index("sort_order_id")
    files = inventory.data_files.set_column(
        column, DATA_FILES.field("sort_order_id"), pa.array(orders_of_files, pa.int32())
    )
    orders = {} if key is None else {order: replace(key, order_id=order)}
    pinned = replace(inventory.pinned, sort_order_id=order, sort_orders=orders)
    return replace(inventory, data_files=files, pinned=pinned)


def warned(plan: Plan) -> str:
    assert not plan.is_empty
    return " ".join(plan.warnings)


def test_a_plan_that_does_not_sort_a_sorted_table_says_so() -> None:
    plan = plan_for(with_order(3, [None] * 9 + [3]))
    assert "the table has a sort order (3), and rows of 10 files are not sorted" in warned(plan)
    assert "1 file written in that order is among them" in warned(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "written in that order" not in warned(plan_for(with_order(3, [None] * 10)))


def test_there_is_no_warning_without_a_sort_order_or_for_an_empty_plan() -> None:
    assert warned(plan_for(with_order(0, [None] * 10))) == ""
    assert plan_for(with_order(3, [3])).warnings == ()


def test_files_that_all_claim_the_order_are_merged_in_it_with_the_requests_of_encoding() -> None:
    plan = plan_for(with_order(3, [3] * 10))
    assert {group.mode for group in plan.groups} == {"merge"}
    assert {group.tasks for group in plan.groups} == {1}
    assert plan.warnings == ()
    assert plan_from_json(plan_to_json(plan)) == plan
    encoded = plan_for(with_order(3, [2] * 10), PlanOptions(mode=RewriteMode.ENCODE))
    assert plan.estimate.request_dollars == encoded.estimate.request_dollars
    assert plan.estimate.seconds > encoded.estimate.seconds


@pytest.mark.parametrize(
    ("orders", "key"),
    [
        ([3] * 9 + [2], BY_ID),
        ([3] * 9 + [None], BY_ID),
        ([3] * 10, None),
        ([3] * 10, SortKey((SortField(99),))),
        ([3] * 10, SortKey((SortField(1, "zigzag"),))),
        ([3] * 10, SortKey((SortField(1, "hour"),))),
    ],
    ids=["older-order", "no-claim", "unknown-order", "dropped-column", "unknown-transform", "other-type"],
)
def test_an_order_that_cannot_be_kept_is_not_kept_and_the_plan_says_so(
    orders: list[int | None], key: SortKey | None
) -> None:
    plan = plan_for(with_order(3, orders, key))
    assert "merge" not in {group.mode for group in plan.groups}
    assert "rows of 10 files are not sorted" in warned(plan)
