"""`full` means full: it merges small files from two on, whichever compaction wrote them, and then it is done."""

from dataclasses import replace

import pytest

from tests.builders.scenes import HOUR, File, Scene, applied, plan_for
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan, Rewrite, Skip
from tidyberg.model.sizes import MB

KB = 1024
FULL = PlanOptions(strategy=Strategy.FULL)
SNAPSHOTS = ((1, 9 * HOUR, "append"), (2, 8 * HOUR, "replace"))


def verdict(plan: Plan) -> Rewrite | Skip:
    return plan.partitions[0].verdict


def sizes_taken(plan: Plan) -> list[list[int]]:
    return [sorted(file.size for file in group.files) for group in plan.groups]


def test_full_merges_files_that_auto_left_with_the_output_of_auto() -> None:
    files = [File(50 * KB, snapshot=2), *[File(10 * KB)] * 6]
    plan = plan_for(Scene(files, snapshots=SNAPSHOTS), FULL)
    assert sizes_taken(plan) == [[*[10 * KB] * 6, 50 * KB]]
    assert plan.groups[0].outputs == 1


def test_full_merges_one_file_that_auto_left_with_the_output_of_auto() -> None:
    plan = plan_for(Scene([File(50 * KB, snapshot=2), File(10 * KB)], snapshots=SNAPSHOTS), FULL)
    assert sizes_taken(plan) == [[10 * KB, 50 * KB]]


@pytest.mark.parametrize("second", [2, 3])
def test_full_merges_two_small_outputs_of_other_compactions_and_then_finds_nothing(second: int) -> None:
    snapshots = (*SNAPSHOTS, (3, 7 * HOUR, "replace"))
    scene = Scene([File(50 * KB, snapshot=2), File(60 * KB, snapshot=second)], snapshots=snapshots)
    plan = plan_for(scene, FULL)
    assert sizes_taken(plan) == [[50 * KB, 60 * KB]]
    assert verdict(plan_for(applied(scene.inventory(), plan, 0.5), FULL)) == Skip(
        "tidy", "already tidy: compacted, and nothing written since"
    )


def test_full_leaves_its_own_outputs_until_something_is_written_or_the_target_grows() -> None:
    outputs = [File(100 * MB, snapshot=2)] * 4
    scene = Scene(outputs, snapshots=(*SNAPSHOTS, (3, HOUR, "append")), full_targets={2: 512 * MB})
    assert plan_for(scene, FULL).is_empty
    assert sizes_taken(plan_for(replace(scene, files=[*outputs, File(snapshot=3)]), FULL)) == [[MB, *[100 * MB] * 4]]
    assert sizes_taken(plan_for(scene, replace(FULL, force=True))) == [[100 * MB] * 4]
    assert sizes_taken(plan_for(scene, replace(FULL, target_file_size=1024 * MB))) == [[100 * MB] * 4]


def test_full_does_not_call_files_tidy_that_it_could_merge() -> None:
    scene = Scene([File(100 * MB, snapshot=2)] * 4, snapshots=SNAPSHOTS, full_targets={2: 512 * MB})
    assert verdict(plan_for(scene, FULL)) == Skip(
        "compacted", "4 files could be merged, but the last full compaction left them and nothing was written since"
    )
    left = Scene([File(100 * MB, snapshot=2), File(100 * MB)], snapshots=SNAPSHOTS, full_targets={2: 512 * MB})
    assert verdict(plan_for(left, FULL)).reason.startswith("2 files could be merged, but")
    large = Scene([File(300 * MB, snapshot=2)] * 4, snapshots=SNAPSHOTS, full_targets={2: 512 * MB})
    assert verdict(plan_for(large, FULL)) == Skip("tidy", "already tidy: compacted, and nothing written since")


def test_a_file_that_was_appended_during_a_full_compaction_is_merged_by_the_next_one() -> None:
    snapshots = ((1, 9 * HOUR, "append"), (2, 8 * HOUR, "append"), (3, 7 * HOUR, "replace"))
    files = [File(50 * KB, sequence=1, file_sequence=3, snapshot=3), File(10 * KB, sequence=2, snapshot=2)]
    scene = Scene(files, snapshots=snapshots, full_targets={3: 512 * MB})
    assert sizes_taken(plan_for(scene, FULL)) == [[10 * KB, 50 * KB]]


def test_a_full_compaction_that_a_limit_cut_short_is_finished_by_the_next_one() -> None:
    scene = Scene([File(size * KB) for size in range(1, 9)])
    first = plan_for(scene, replace(FULL, max_files=7))
    assert first.full_target is None
    after = applied(scene.inventory(), first, 1.0)
    second = plan_for(after, FULL)
    assert sizes_taken(second) == [[8 * KB, 28 * KB]]
    assert second.full_target == 512 * MB
