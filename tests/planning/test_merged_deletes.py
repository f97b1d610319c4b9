"""When deletes are merged instead of rewriting their data files, and which of them leave."""

from dataclasses import replace

import pytest

from tests.builders.scenes import Delete, File, Scene, plan_for
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Rewrite, Skip
from tidyberg.model.sizes import MB

LARGE = [File(512 * MB)] * 4
KEYS = [Delete("equality", sequence=2)] * 5
V3 = Scene(LARGE, KEYS, format_version=3)
AUTO, MERGE = PlanOptions(), PlanOptions(strategy=Strategy.DELETES_ONLY)


def test_auto_merges_where_a_rewrite_costs_more() -> None:
    plan = plan_for(V3, AUTO)
    assert plan.keeps_data
    assert plan.full_rewrite is not None
    assert plan.estimate.dollars * 2 < plan.full_rewrite.dollars
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.reason.startswith("merges 5 deletes of 4 data files into deletion vectors, for $")
    assert "; a rewrite costs $" in verdict.reason


@pytest.mark.parametrize(
    "scene",
    [
        replace(V3, format_version=2),
        replace(V3, files=[File(1 * MB)] * 20),
        replace(V3, deletes=[Delete(scope="file", references="f000000.parquet", records=10**7, sequence=2)] * 2),
        replace(V3, deletes=[*KEYS, Delete("equality", scope="global", sequence=2)], days=(20_760, 20_761)),
    ],
    ids=["keys in v2", "small files", "many rows", "a delete that stays"],
)
def test_auto_rewrites_as_before(scene: Scene) -> None:
    if len(scene.days) > 1:  # the other partition is too large to be left out, and its files cannot be read
        scene = replace(scene, files=[*LARGE, File(512 * MB, partition=1, format="ORC")])
    plan = plan_for(scene, AUTO)
    assert plan.groups
    assert not any(group.keeps_data for group in plan.groups)


@pytest.mark.parametrize("limit", [{"max_files": 100}, {"max_cost": 100.0}])
def test_auto_with_a_limit_rewrites_because_a_part_could_not_leave(limit: dict[str, float]) -> None:
    plan = plan_for(V3, replace(AUTO, **limit))  # type: ignore[arg-type]
    assert plan.groups
    assert not plan.keeps_data


def test_a_delete_stays_for_a_file_that_cannot_be_read() -> None:
    plan = plan_for(replace(V3, files=[*LARGE, File(512 * MB, format="ORC")]), MERGE)
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Skip)
    assert (verdict.code, verdict.reason) == ("format", "1 file not in Parquet")


def test_v2_merges_only_where_a_data_file_has_several_deletes() -> None:
    one = [Delete(scope="file", references=f"f{number:06d}.parquet", sequence=2) for number in range(4)]
    assert not plan_for(Scene(LARGE, one), MERGE).groups
    plan = plan_for(Scene(LARGE, [*one, one[0]]), MERGE)
    assert [[file.path for file in group.files] for group in plan.groups] == [["f000000.parquet"]]
    shared = Delete(sequence=2)
    assert not plan_for(Scene(LARGE, [shared]), MERGE).groups, "each data file has one delete already"
    plan = plan_for(Scene(LARGE, [shared, one[3]]), MERGE)
    assert sum(len(group.files) for group in plan.groups) == 4, "the shared delete leaves only with all its files"


def test_a_plan_says_how_equality_deletes_of_v2_leave() -> None:
    verdict = plan_for(replace(V3, format_version=2), MERGE).partitions[0].verdict
    assert isinstance(verdict, Skip)
    assert verdict.reason == "5 deletes to keep: those by value leave format v2 only when their files are rewritten"


def test_a_vector_alone_is_no_work() -> None:
    vector = Delete("dv", scope="file", references="f000000.parquet", sequence=2, format="PUFFIN", offset=4)
    plan = plan_for(replace(V3, deletes=[vector]), MERGE)
    assert not plan.groups
    verdict = plan.partitions[0].verdict
    assert isinstance(verdict, Skip)
    assert verdict.code == "tidy"
