"""Plans move files of older partition specs to the current one."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
)

from tests.builders.scenes import File, Scene, plan_for
from tidyberg.model.inventory import Inventory, Partition
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Rewrite, Skip
from tidyberg.model.sizes import GB, MB
from tidyberg.planning.moving import pack_in_order

MOVE = PlanOptions(strategy=Strategy.FULL, rewrite_to_current_spec=True)
TS = 4  # the schema's timestamp column


def spec(number: int, *transforms: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    fields = [PartitionField(source, 1000 + 10 * number + at, t, f"p{at}") for at, (source, t) in enumerate(transforms)]
    return PartitionSpec(*fields, spec_id=number)


def table(files: list[File], old: PartitionSpec, current: PartitionSpec, there: int = 0) -> Inventory:
    """All files are in one partition of the old spec. The current spec has `there` partitions without files."""
    inventory = Scene(files).inventory()
    pinned = replace(inventory.pinned, specs={0: old, 1: current}, default_spec_id=1)
    partitions = [Partition(0, inventory.partitions[0].values, "p0=x")]
    partitions += [Partition(1, (number,), f"p0={number}") for number in range(there)]
    return replace(inventory, pinned=pinned, partitions=partitions)


HOURS, DAYS = spec(0, (TS, HourTransform())), spec(1, (TS, DayTransform()))


def test_files_of_any_size_are_moved_and_the_reason_says_so() -> None:
    plan = plan_for(table([File(size=512 * MB)], HOURS, DAYS), MOVE)
    assert [(group.spec_id, group.output_spec_id, group.outputs) for group in plan.groups] == [(0, 1, 1)]
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.reason == "1 of 1 file moved to the current partition spec"


def test_files_of_older_specs_stay_without_the_option() -> None:
    assert plan_for(table([File(size=512 * MB)], HOURS, DAYS), replace(MOVE, rewrite_to_current_spec=False)).is_empty


def test_files_of_the_current_spec_are_judged_by_the_strategy() -> None:
    inventory = table([File(size=512 * MB)], DAYS, HOURS)
    current = replace(inventory, pinned=replace(inventory.pinned, default_spec_id=0))
    assert plan_for(current, MOVE).is_empty
    merged = replace(Scene([File() for _ in range(6)]).inventory(), pinned=replace(inventory.pinned, default_spec_id=0))
    assert [group.output_spec_id for group in plan_for(merged, MOVE).groups] == [None]


def test_hot_partitions_wait_and_unreadable_files_are_left_out() -> None:
    inventory = table([File(size=MB), File(size=MB, format="ORC")], HOURS, DAYS)
    plan = plan_for(inventory, MOVE)
    assert [len(group.files) for group in plan.groups] == [1]
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert "leaves out 1 file not in Parquet" in verdict.reason


@pytest.mark.parametrize(
    ("old", "current", "outputs"),
    [
        (HOURS, DAYS, 1),
        (spec(0, (TS, DayTransform())), spec(1, (TS, HourTransform())), 9),
        (spec(0, (TS, DayTransform())), spec(1, (TS, MonthTransform()), (TS, DayTransform())), 1),
        (spec(0, (3, IdentityTransform())), spec(1, (3, TruncateTransform(2)), (3, BucketTransform(4))), 1),
        (spec(0, (3, IdentityTransform())), spec(1, (TS, DayTransform())), 9),
        (spec(0, (1, BucketTransform(8))), spec(1, (1, BucketTransform(4))), 9),
        (spec(0), spec(1, (TS, DayTransform())), 9),
        (HOURS, spec(1), 1),
    ],
)
def test_a_moved_group_has_one_output_per_partition_that_its_rows_may_belong_to(
    old: PartitionSpec, current: PartitionSpec, outputs: int
) -> None:
    plan = plan_for(table([File(size=MB), File(size=MB)], old, current, there=9), MOVE)
    assert [group.outputs for group in plan.groups] == [outputs]
    assert plan.estimate.output_files == outputs


@pytest.mark.parametrize(
    ("current", "words"),
    [
        (spec(1, (TS, UnknownTransform("zorder"))), "has the unknown transform"),
        (spec(1, (99, DayTransform())), "a column that the table no longer has"),
        (spec(1, (3, DayTransform())), "does not take string"),
    ],
)
def test_a_spec_that_cannot_be_computed_is_skipped_with_the_name_of_the_field(
    current: PartitionSpec, words: str
) -> None:
    plan = plan_for(table([File(), File()], HOURS, current), MOVE)
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Skip)
    assert verdict.code == "partition-spec"
    assert words in verdict.reason


def test_files_that_were_written_one_after_another_share_a_group() -> None:
    """Files written at one time often belong to the same partitions. Packing by size would mix them with others."""
    files = [File(size=(600 if n % 2 else 300) * MB, sequence=n + 1, path=f"f{n}") for n in range(6)]
    plan = plan_for(table(files, spec(0), DAYS), replace(MOVE, max_group_size=1 * GB))
    assert sorted(tuple(file.path for file in group.files) for group in plan.groups) == [
        ("f0", "f1"), ("f2", "f3"), ("f4", "f5"),
    ]  # fmt: skip


@given(st.lists(st.integers(1, 1000)), st.integers(1, 2000))
def test_packing_in_order_keeps_order_and_limit(sizes: list[int], limit: int) -> None:
    groups = pack_in_order(sizes, limit)
    assert [position for group in groups for position in group] == list(range(len(sizes)))
    assert all(len(group) == 1 or sum(sizes[p] for p in group) <= limit for group in groups)
    for one, two in pairwise(groups):
        assert sum(sizes[p] for p in one) + sizes[two[0]] > limit


def test_a_plan_with_max_files_moves_some_files() -> None:
    plan = plan_for(table([File(), File(), File()], HOURS, DAYS), replace(MOVE, max_files=2))
    assert [len(group.files) for group in plan.groups] == [2]
    assert isinstance(plan.partitions[0].verdict, Rewrite)
