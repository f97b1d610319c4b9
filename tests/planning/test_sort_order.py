"""A plan warns if it compacts a table with a sort order without sorting."""

from dataclasses import replace

import pyarrow as pa

from tests.builders.scenes import File, Scene, plan_for
from tidyberg.model.inventory import DATA_FILES, Inventory
from tidyberg.model.plan import Plan
from tidyberg.planning.document import plan_from_json, plan_to_json


def with_order(order: int, orders_of_files: list[int | None]) -> Inventory:
    inventory = Scene([File() for _ in orders_of_files]).inventory()
    column = DATA_FILES.get_field_index("sort_order_id")
    files = inventory.data_files.set_column(
        column, DATA_FILES.field("sort_order_id"), pa.array(orders_of_files, pa.int32())
    )
    return replace(inventory, data_files=files, pinned=replace(inventory.pinned, sort_order_id=order))


def warned(plan: Plan) -> str:
    assert not plan.is_empty
    return " ".join(plan.warnings)


def test_a_plan_that_does_not_sort_a_sorted_table_says_so() -> None:
    plan = plan_for(with_order(3, [None] * 9 + [3]))
    assert "the table has a sort order (3), and rows are not sorted" in warned(plan)
    assert "1 file written in that order is among them" in warned(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "written in that order" not in warned(plan_for(with_order(3, [None] * 10)))


def test_there_is_no_warning_without_a_sort_order_or_for_an_empty_plan() -> None:
    assert warned(plan_for(with_order(0, [None] * 10))) == ""
    assert plan_for(with_order(3, [3])).warnings == ()
