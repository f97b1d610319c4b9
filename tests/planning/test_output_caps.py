"""A plan never makes many files of few: the target has a minimum, and a job has a maximum of outputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.scenes import TODAY, Delete, File, Scene, plan_for
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Skip
from tidyberg.model.sizes import KB, MB

FORCED = PlanOptions(strategy=Strategy.FULL, force=True, target_file_size=8 * MB, min_input_files=1)


def test_a_table_property_below_the_minimum_target_is_raised_to_it() -> None:
    scene = Scene([File(4 * MB)] * 5, properties={"write.target-file-size-bytes": "1"})
    plan = plan_for(scene, PlanOptions(strategy=Strategy.FULL, force=True, min_target_file_size=MB))
    assert plan.target_file_size == MB
    assert plan.estimate.output_files == 20


@given(sizes=st.lists(st.integers(1 * KB, 14 * MB), min_size=1, max_size=30))
def test_outputs_are_never_more_than_inputs_unless_oversized_files_are_split(sizes: list[int]) -> None:
    """14 MB are below the maximum of 1.8 x 8 MB, but rounding alone would make two files of one."""
    plan = plan_for(Scene([File(size) for size in sizes]), FORCED)
    for group in plan.groups:
        assert group.outputs <= len(group.files)


@pytest.mark.parametrize("kind", ["position", "equality"])
@pytest.mark.parametrize("size", [12 * MB + 1, 13 * MB, 14 * MB])
def test_a_file_within_the_maximum_stays_one_file_when_its_deletes_are_applied(size: int, kind: str) -> None:
    """From 1.5 times the target on, two files would be nearer to it. But the file is not to be split."""
    scene = Scene([File(size)], [Delete(kind, sequence=2)])
    plan = plan_for(scene, FORCED)
    assert [group.outputs for group in plan.groups] == [1]


def test_an_oversized_file_is_split() -> None:
    plan = plan_for(Scene([File(40 * MB)]), FORCED)
    assert [group.outputs for group in plan.groups] == [5]


@pytest.mark.parametrize("most", [1, 5, 9])
def test_a_job_plans_no_more_outputs_than_it_may_write_and_says_what_it_leaves(most: int) -> None:
    days = tuple(TODAY - 20 + number for number in range(8))
    scene = Scene([File(partition=number) for number in range(8) for _ in range(10)], days=days)
    options = PlanOptions(strategy=Strategy.FULL, max_output_files=most)
    plan = plan_for(scene, options)
    assert plan.estimate.output_files == min(most, 8)
    left = [p.verdict for p in plan.partitions if isinstance(p.verdict, Skip)]
    assert len(left) == 8 - min(most, 8)
    for verdict in left:
        assert (verdict.code, verdict.reason) == (
            "outputs",
            "max_output_files: leaves all 10 files for another time",
        )
    assert len(plan.left_out) == len(left)
