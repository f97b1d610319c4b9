"""A hot partition gives up its cold files, except those that a writer may be changing."""

from dataclasses import replace

import pytest

from tests.builders.scenes import HOUR, NOW, Delete, File, Scene, plan_for, statistics_of
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan, Rewrite, Skip
from tidyberg.model.sizes import KB, MB
from tidyberg.planning.decide import make_plan

MINUTE = 60_000
FRESH = ((2, 3 * MINUTE, "append"), (3, MINUTE, "append"))
STREAM = Scene(
    [*(File(64 * KB) for _ in range(20)), *(File(64 * KB, snapshot=2 + n % 2, sequence=2) for n in range(4))],
    snapshots=((1, HOUR, "append"), *FRESH),
)


def verdict(plan: Plan) -> Rewrite | Skip:
    return plan.partitions[0].verdict


def taken(plan: Plan) -> int:
    return sum(len(group.files) for group in plan.groups)


def with_summary(scene: Scene, snapshot: int, operation: str, summary: dict[str, str]) -> Inventory:
    inventory = scene.inventory()
    history = dict(inventory.pinned.snapshots)
    history[snapshot] = replace(history[snapshot], operation=operation, summary=summary)
    return replace(inventory, pinned=replace(inventory.pinned, snapshots=history))


@pytest.mark.parametrize("strategy", [Strategy.AUTO, Strategy.TIME_SERIES])
def test_a_hot_partition_gives_up_its_cold_files_and_keeps_the_fresh_ones(strategy: Strategy) -> None:
    plan = plan_for(STREAM, PlanOptions(strategy=strategy))
    assert taken(plan) == 20
    assert {file.sequence_number for group in plan.groups for file in group.files} == {1}
    assert verdict(plan).reason.endswith("; 4 files wait: 2 commits in the last 10 min, cools 00:09 UTC")


def test_cold_files_wait_if_they_are_too_few() -> None:
    few = replace(STREAM, files=STREAM.files[16:])
    assert verdict(plan_for(few)) == Skip("hot", "hot: 2 commits in the last 10 min, cools 00:09 UTC")
    assert taken(plan_for(few, PlanOptions(min_input_files=4))) == 4


@pytest.mark.parametrize(
    "delete",
    [
        Delete("position", "file", references="f000003.parquet", snapshot=3, sequence=3),
        Delete("position", "partition", snapshot=3, sequence=3),
        Delete("dv", "file", references="f000003.parquet", snapshot=3, sequence=3, format="PUFFIN", offset=4),
    ],
)
def test_a_hot_partition_keeps_all_files_after_a_recent_delete_of_older_rows(delete: Delete) -> None:
    """The next MERGE may touch any of these files, and fails if one is gone."""
    plan = plan_for(replace(STREAM, deletes=[delete]))
    assert isinstance(verdict(plan), Skip)
    assert taken(plan_for(replace(STREAM, deletes=[replace(delete, snapshot=1)]))) == 20, "not just now"


@pytest.mark.parametrize(
    "delete",
    [
        Delete("equality", "partition", snapshot=3, sequence=3),
        Delete("position", "file", references="f000021.parquet", snapshot=3, sequence=3),
    ],
)
def test_a_stream_of_upserts_gives_up_its_cold_files(delete: Delete) -> None:
    """Equality deletes change no file. The position deletes are for a file that was added by the same commit."""
    assert taken(plan_for(replace(STREAM, deletes=[delete]))) == 20


@pytest.mark.parametrize(
    ("operation", "summary", "given_up"),
    [
        ("overwrite", {"deleted-data-files": "1", "added-data-files": "1"}, 0),
        ("overwrite", {}, 0),  # the summary does not say what it did
        ("overwrite", {"added-delete-files": "1", "added-data-files": "1"}, 20),  # upserts
        ("append", {"added-data-files": "1"}, 20),
    ],
)
def test_a_hot_partition_keeps_all_files_after_a_recent_copy_on_write_change(
    operation: str, summary: dict[str, str], given_up: int
) -> None:
    assert taken(plan_for(with_summary(STREAM, 3, operation, summary))) == given_up


def test_a_file_larger_than_all_smaller_ones_together_waits() -> None:
    """Otherwise a stream would rewrite its first rows in every run."""
    files = [File(40 * MB), File(3 * MB), *STREAM.files]
    plan = plan_for(replace(STREAM, files=files), PlanOptions(small_file_threshold=64 * MB))
    assert taken(plan) == 20
    grown = plan_for(replace(STREAM, files=[*files, File(38 * MB)]), PlanOptions(small_file_threshold=64 * MB))
    assert taken(grown) == 23


def test_files_that_were_too_fresh_for_the_last_compaction_are_merged_with_its_outputs_later() -> None:
    """These files are older than the compaction, but it did not take them."""
    snapshots = (
        (1, 25 * MINUTE, "append"),
        (2, 24 * MINUTE, "append"),
        (3, 20 * MINUTE, "replace"),
        *((n, (18 - n) * MINUTE, "append") for n in range(16, 18)),
    )
    outputs = [File(50 * KB, snapshot=3, sequence=3) for _ in range(3)]
    waited = [File(64 * KB, snapshot=1 + n % 2, sequence=2) for n in range(4)]
    fresh = [File(64 * KB, snapshot=16 + n % 2, sequence=4) for n in range(2)]
    scene = Scene([*outputs, *waited, *fresh], snapshots=snapshots)
    assert taken(plan_for(scene)) == 7
    assert plan_for(replace(scene, files=[*outputs, *fresh])).is_empty, "nothing cold came since"


def test_a_partition_that_has_cooled_gives_up_all_its_files() -> None:
    inventory = STREAM.inventory()
    later = NOW + 10 * MINUTE
    plan = make_plan(inventory, statistics_of(inventory, PlanOptions(), later), PlanOptions(), now_ms=later)
    assert taken(plan) == 24
