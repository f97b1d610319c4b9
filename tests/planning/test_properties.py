"""Invariants of plans over random tables: plans are deterministic, a second run finds nothing, limits are kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.scenes import HOUR, NOW, UNORDERED, Delete, File, Scene, applied, applies, plan_for, statistics_of
from tests.timing import cpu_of
from tidyberg.model.inventory import Inventory
from tidyberg.model.left import left_alone
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import FileGroup, Plan, Rewrite, Skip
from tidyberg.model.sizes import MB
from tidyberg.planning.decide import make_plan
from tidyberg.planning.file_sizes import resolve_sizes

KB = 1024
SNAPSHOTS = (
    (1, 90 * HOUR, "append"),
    (2, 50 * HOUR, "replace"),
    (3, 10 * HOUR, "append"),
    (4, 9 * HOUR, "replace"),
    (5, 8 * HOUR, "overwrite"),
    (6, HOUR // 60, "append"),
)
DAYS = (1, 2)


def random_delete(random: Random, files: Sequence[File]) -> Delete:
    kind, scope = random.choice(
        (("position", "partition"), ("position", "file"), ("equality", "partition"), ("equality", "global"))
    )
    named = random.randrange(len(files)) if files and scope == "file" else None
    return Delete(
        kind,
        "partition" if scope == "file" and named is None else scope,
        partition=random.randrange(2) if named is None else files[named].partition,
        sequence=random.randint(0, len(SNAPSHOTS)),
        references=None if named is None else f"f{named:06d}.parquet",
        records=random.choice((1, 10, 1_000, 100_000)),
        format=random.choice(("PARQUET",) * 9 + ("ORC",)),
        snapshot=random.choice((0, 1, 3, 5, 6)),
        file_sequence=random.choice((None, None, 5)),
    )


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draws up to 60 files from a seeded generator, so that full partitions are as common as empty ones."""
    random = draw(st.randoms(use_true_random=False))
    largest = draw(st.sampled_from([40 * KB, 300 * KB, 1_000 * KB, 4_000 * KB]))
    snapshots = draw(st.sampled_from([(1,), (0, 1, 3), (1, 2, 3, 4, 5), (2, 4), (1, 4), (4, 5, 6)]))
    files = [
        File(
            size=random.choice((random.randint(1, largest), random.randint(1, 40 * KB), largest)),
            partition=random.choice((0, 0, 1)),
            sequence=random.randint(0, 6),
            snapshot=random.choice(snapshots),
            file_sequence=random.choice((None, 4, 5)),
        )
        for _ in range(draw(st.integers(0, 60)))
    ]
    deletes = [random_delete(random, files) for _ in range(draw(st.sampled_from([0, 1, 2, 5, 20])))]
    version = draw(st.sampled_from([2, 3] if deletes else [1, 2, 3]))
    if version == 1:  # has no sequence numbers
        files = [replace(file, sequence=0, file_sequence=None) for file in files]
    return Scene(files, deletes, days=DAYS, snapshots=SNAPSHOTS, format_version=version)


@st.composite
def random_options(draw: st.DrawFn, /, **fixed: Any) -> PlanOptions:
    target = draw(st.sampled_from([200 * KB, 512 * KB, 1_000 * KB]))
    return PlanOptions(
        **{
            "strategy": draw(st.sampled_from(UNORDERED)),
            "target_file_size": target,
            "min_file_size": draw(st.none() | st.integers(1, target)),
            "max_file_size": draw(st.none() | st.integers(target, 3 * target)),
            "max_group_size": draw(st.none() | st.integers(target // 2, 3 * target)),
            "small_file_threshold": draw(st.integers(1, target)),
            "min_input_files": draw(st.integers(1, 5)),
            "max_file_count_per_partition": draw(st.integers(1, 20)),
            "max_delete_ratio": draw(st.sampled_from([0, 0.1, 0.3, 2])),
            "hot_window_seconds": draw(st.sampled_from([1, 1, 600])),
            "force": draw(st.booleans()),
            **fixed,
        }
    )


@settings(max_examples=300, deadline=None)
@given(scenes(), random_options(force=False), st.floats(0.3, 1.0), st.floats(0, 1))
def test_running_twice_does_nothing_the_second_time(
    scene: Scene, options: PlanOptions, ratio: float, removed: float
) -> None:
    inventory = scene.inventory()
    first = plan_for(inventory, options)
    second = plan_for(applied(inventory, first, ratio, removed), options)
    assert second.groups == ()


@settings(max_examples=150, deadline=None)
@given(scenes(), random_options(strategy=Strategy.AUTO, force=False), st.floats(0.3, 1.0), st.floats(0, 1))
def test_auto_calls_tidy_what_it_would_never_take(
    scene: Scene, options: PlanOptions, ratio: float, removed: float
) -> None:
    """What waits is taken later by the same strategy: there is none that auto could refer to."""
    inventory = scene.inventory()
    after = applied(inventory, plan_for(inventory, options), ratio, removed)
    left = left_alone(plan_for(after, options))
    assert {each.code for each in left if each.disposition == "waiting"} <= {"hot", "too-few-files", "group-size"}


@settings(max_examples=150, deadline=None)
@given(scenes(), random_options(strategy=Strategy.DELETES_ONLY, force=False))
def test_merged_deletes_make_no_work_after_their_snapshot_has_expired(scene: Scene, options: PlanOptions) -> None:
    inventory = scene.inventory()
    after = applied(inventory, plan_for(inventory, options), 1.0)
    pinned = after.pinned
    kept = {number: info for number, info in pinned.snapshots.items() if number != pinned.snapshot_id}
    auto = replace(options, strategy=Strategy.AUTO)
    expired = plan_for(replace(after, pinned=replace(pinned, snapshots=kept)), auto)
    assert expired.groups == plan_for(after, auto).groups


@settings(max_examples=300, deadline=None)
@given(
    scenes(),
    random_options(force=False),
    st.lists(st.sampled_from(UNORDERED), max_size=2),
    st.lists(st.floats(0.3, 1.0), min_size=3, max_size=3),
    st.floats(0, 1),
)
def test_full_after_any_history_leaves_nothing_to_a_second_full_and_calls_nothing_tidy_that_could_be_merged(
    scene: Scene, options: PlanOptions, history: list[Strategy], ratios: list[float], removed: float
) -> None:
    inventory = scene.inventory()
    full = replace(options, strategy=Strategy.FULL)
    for strategy, ratio in zip([*history, Strategy.FULL], ratios, strict=False):
        plan = plan_for(inventory, replace(options, strategy=strategy))
        inventory = applied(inventory, plan, ratio, removed)
    second = plan_for(inventory, full)
    assert second.groups == ()
    forced = plan_for(inventory, replace(full, force=True))
    could_merge = {group.partition_path for group in forced.groups if group.outputs < len(group.files)}
    skips = [(row.partition_path, row.verdict) for row in second.partitions if isinstance(row.verdict, Skip)]
    called_tidy = {path for path, skip in skips if skip.code in ("tidy", "no-gain")}
    assert not could_merge & called_tidy


@settings(max_examples=100, deadline=None)
@given(scenes(), random_options(force=True), st.floats(0.3, 1.0))
def test_forced_runs_come_to_an_end(scene: Scene, options: PlanOptions, ratio: float) -> None:
    inventory = scene.inventory()
    for _ in range(64):  # a split file may shrink and be merged again, half as many files each time
        plan = plan_for(inventory, options)
        if plan.is_empty:
            return
        inventory = applied(inventory, plan, ratio)
    pytest.fail("every run finds work again")


@settings(max_examples=150, deadline=None)
@given(scenes(), random_options(), st.randoms(use_true_random=False))
def test_the_order_of_the_inventory_does_not_matter(scene: Scene, options: PlanOptions, random: Any) -> None:
    inventory = scene.inventory()
    shuffled = list(range(inventory.data_files.num_rows))
    random.shuffle(shuffled)
    files = inventory.data_files.take(pa.array(shuffled, pa.int64()))
    shuffled = list(range(inventory.delete_files.num_rows))
    random.shuffle(shuffled)
    deletes = inventory.delete_files.take(pa.array(shuffled, pa.int64()))
    mixed = replace(inventory, data_files=files, delete_files=deletes)
    assert plan_for(mixed, options) == plan_for(inventory, options)
    last = len(inventory.partitions) - 1
    turned = replace(
        inventory,
        partitions=list(reversed(inventory.partitions)),
        data_files=_renumbered(files, last),
        delete_files=_renumbered(deletes, last),
    )
    assert plan_for(turned, options) == plan_for(inventory, options)


def _renumbered(files: pa.Table, last: int) -> pa.Table:
    column = files.schema.get_field_index("partition")
    turned = pa.array([last - number for number in files["partition"].to_pylist()], pa.int32())
    return files.set_column(column, files.schema.field(column), turned)


@settings(max_examples=200, deadline=None)
@given(scenes(), random_options())
def test_a_plan_keeps_its_invariants(scene: Scene, options: PlanOptions) -> None:
    inventory = scene.inventory()
    plan = plan_for(inventory, options)
    sizes = resolve_sizes(options, {})
    taken = [file.path for group in plan.groups for file in group.files]
    assert len(taken) == len(set(taken)) <= len(scene.files)
    assert [group.group_id for group in plan.groups] == list(range(len(plan.groups)))
    rows = {row["path"]: row for row in inventory.data_files.to_pylist()}
    for group in plan.groups:
        assert group.files or group.keeps_data
        assert len({rows[file.path]["partition"] for file in group.files}) == min(1, len(group.files))
        keys = [(file.sequence_number, file.path) for file in group.files]
        assert keys == sorted(keys)
        if len(group.files) > 1:
            assert group.bytes <= min(2 * sizes.target, sizes.group_limit)
        if group.keeps_data:
            assert group.deletes
            continue
        if group.outputs >= len(group.files):  # I10: then the gain is another than files
            split = options.strategy is Strategy.FULL and group.bytes > sizes.maximum and group.outputs > 1
            rid_of_deletes = options.strategy in (Strategy.DELETE_FILES, Strategy.FULL, Strategy.AUTO)
            assert split or (rid_of_deletes and group.deletes)
        assert group.estimate.bytes_written <= group.outputs * sizes.maximum
        assert group.estimate.bytes_written <= group.bytes
    deletes_are_those_that_apply(plan, inventory)
    verdicts_are_true(plan, len(inventory.partitions))


def deletes_are_those_that_apply(plan: Plan, inventory: Inventory) -> None:
    rows = {row["path"]: row for row in inventory.data_files.to_pylist()}
    deletes = {row["path"]: row for row in inventory.delete_files.to_pylist()}
    named = [delete.path for delete in plan.deletes]
    assert named == sorted(set(named))
    for group in plan.groups:
        assert list(group.deletes) == sorted(set(group.deletes))
        if group.keeps_data:
            merged = [row for row in deletes.values() if plan.format_version > 2 or row["kind"] != "equality"]
            merged_deletes_are_those_that_apply(group, named, rows, merged, deletes)
            continue
        assert {named[position] for position in group.deletes} == {
            path for path, row in deletes.items() if any(applies(row, rows[file.path]) for file in group.files)
        }
        assert {deletes[named[position]]["format"] for position in group.deletes} <= {"PARQUET"}
    assert {position for group in plan.groups for position in group.deletes} == set(range(len(named)))


def merged_deletes_are_those_that_apply(
    group: FileGroup,
    named: list[str],
    rows: dict[str, dict[str, Any]],
    merged: list[dict[str, Any]],
    deletes: dict[str, dict[str, Any]],
) -> None:
    """A minor compaction of v2 merges position deletes only. Deletes that apply to no file are in a group without."""
    found = {named[position] for position in group.deletes}
    if group.files:
        assert found == {row["path"] for row in merged if any(applies(row, rows[file.path]) for file in group.files)}
    for path in found if not group.files else ():
        assert not any(applies(deletes[path], row) for row in rows.values())


def verdicts_are_true(plan: Plan, partitions: int) -> None:
    assert len(plan.partitions) == partitions
    claimed: list[int] = []
    for row in plan.partitions:
        if isinstance(row.verdict, Rewrite):
            groups = [plan.groups[number] for number in row.verdict.groups]
            assert groups
            assert {group.partition_path for group in groups} == {row.partition_path}
            assert row.verdict.files == sum(len(group.files) for group in groups)
            assert row.verdict.outputs == sum(group.outputs for group in groups)
            claimed += row.verdict.groups
        else:
            assert row.verdict.reason
    assert sorted(claimed) == list(range(len(plan.groups)))
    # Where deletes are merged, the files that are read and replaced are delete files.
    inputs = [len(group.deletes) if group.keeps_data else len(group.files) for group in plan.groups]
    assert plan.estimate.input_files == sum(inputs)
    assert plan.estimate.output_files == sum(group.outputs for group in plan.groups)


@settings(max_examples=200, deadline=None)
@given(scenes(), random_options(), st.integers(1, 40), st.floats(0, 0.001))
def test_limits_are_kept_and_the_plan_lists_what_they_leave(
    scene: Scene, options: PlanOptions, max_files: int, max_cost: float
) -> None:
    inventory = scene.inventory()
    free = plan_for(inventory, options)
    limited = plan_for(inventory, replace(options, max_files=max_files, max_cost=max_cost))
    assert sum(len(group.files) for group in limited.groups) <= max_files
    assert limited.estimate.dollars <= max_cost
    verdicts_are_true(limited, len(inventory.partitions))
    if not any(group.keeps_data for group in free.groups):  # these are taken as a whole, and `auto` has none of them
        assert bool(limited.left_out) == (limited.estimate.input_files < free.estimate.input_files)


@settings(max_examples=100, deadline=None)
@given(scenes(), random_options(force=False), st.integers(2, 10))
def test_limited_runs_finish_the_work_in_the_end(scene: Scene, options: PlanOptions, max_files: int) -> None:
    inventory = scene.inventory()
    limited = replace(options, max_files=max_files)
    first = {file["path"] for file in inventory.data_files.to_pylist()}
    runs, allowed = 0, 2 * len(first) + 2  # every run leaves fewer files, or fewer with deletes,
    while not (plan := plan_for(inventory, limited)).is_empty:
        runs += 1
        divided = (group for group in plan.groups if first & {file.path for file in group.files})
        allowed += sum(2 * group.outputs for group in divided)  # but a large file can become many, once
        assert runs <= allowed, "limited runs never end"
        inventory = applied(inventory, plan, 1.0)


@pytest.mark.parametrize(("files", "partitions"), [(10_000, 1), (10_000, 10_000), (50_000, 100)])
def test_ten_times_the_files_are_planned_in_about_ten_times_as_long(files: int, partitions: int) -> None:
    """Comparing each file with each other would take a hundred times as long."""
    few, many = _planning(files // 10, max(1, partitions // 10)), _planning(files, partitions)
    assert cpu_of(many) < 30 * cpu_of(few, times=3)


def _planning(files: int, partitions: int) -> Callable[[], Plan]:
    sizes = np.random.default_rng(3).integers(1, 40 * MB, files).tolist()
    inventory = Scene([File(sizes[n], n % partitions) for n in range(files)], days=range(partitions)).inventory()
    options = PlanOptions(strategy=Strategy.FULL, where="day >= '1970-01-01'")
    planned = partial(make_plan, inventory, statistics_of(inventory, options), options, now_ms=NOW)
    assert len(planned().partitions) == partitions
    return planned
