"""What each strategy does with a partition, and what the plan says about it."""

from dataclasses import replace

import pytest

from tests.builders.scenes import HOUR, NOW, TODAY, UNORDERED, Delete, File, Scene, plan_for
from tidyberg.errors import BadInput, BadPredicate
from tidyberg.model.left import left_alone
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import DeleteFile, Plan, Rewrite, Skip
from tidyberg.model.sizes import MB
from tidyberg.planning.document import plan_hash

MINUTE = 60_000
SMALL = [File()] * 20


def skip(plan: Plan, partition: int = 0) -> Skip:
    verdict = plan.partitions[partition].verdict
    assert isinstance(verdict, Skip), verdict
    return verdict


def rewrite(plan: Plan, partition: int = 0) -> Rewrite:
    verdict = plan.partitions[partition].verdict
    assert isinstance(verdict, Rewrite), verdict
    return verdict


@pytest.mark.parametrize("strategy", [s for s in UNORDERED if s not in (Strategy.DELETE_FILES, Strategy.DELETES_ONLY)])
def test_twenty_small_files_become_one(strategy: Strategy) -> None:
    plan = plan_for(Scene(SMALL), PlanOptions(strategy=strategy))
    verdict = rewrite(plan)
    assert (verdict.files, verdict.outputs, verdict.groups) == (20, 1, (0,))
    assert verdict.dollars == plan.groups[0].estimate.dollars
    assert (plan.estimate.input_files, plan.estimate.output_files) == (20, 1)
    assert plan.estimate.payback_scans is not None
    assert plan.hash == plan_hash(plan)


def test_a_plan_names_the_snapshot_that_it_was_made_from() -> None:
    plan = plan_for(Scene(SMALL))
    assert (plan.snapshot_id, plan.sequence_number, plan.format_version, plan.branch) == (1, 1, 2, "main")
    assert plan.created_ms == NOW
    assert plan.groups[0].files[0].manifest == "m0.avro"
    assert plan.groups[0].partition_path == "day=2026-11-03"


def test_a_table_without_files_gives_an_empty_plan() -> None:
    plan = plan_for(Scene([], days=()))
    assert plan.is_empty
    assert plan.health == 100
    assert plan.estimate.dollars == 0


def test_an_unpartitioned_table_is_one_partition() -> None:
    plan = plan_for(Scene(SMALL, partitioned=False))
    assert rewrite(plan).files == 20
    assert plan.partitions[0].partition_path == ""


def test_files_in_a_group_are_ordered_by_sequence_number_and_path() -> None:
    files = [
        File(path=f"{name}.parquet", sequence=sequence) for name, sequence in zip("edcba", [2, 2, 1, 3, 1], strict=True)
    ]
    group = plan_for(Scene(files)).groups[0]
    assert [file.path[0] for file in group.files] == ["a", "c", "d", "e", "b"]


def test_small_files_takes_only_files_below_the_threshold() -> None:
    files = [*SMALL, File(32 * MB), File(100 * MB)]
    assert rewrite(plan_for(Scene(files), PlanOptions(strategy=Strategy.SMALL_FILES))).files == 20
    assert rewrite(plan_for(Scene(files), PlanOptions(strategy=Strategy.FULL))).files == 22


def test_full_splits_files_above_the_maximum_and_others_do_not() -> None:
    files = [File(3_000 * MB), File(512 * MB)]
    plan = plan_for(Scene(files), PlanOptions(strategy=Strategy.FULL))
    assert (rewrite(plan).files, rewrite(plan).outputs) == (1, 6)
    assert plan.estimate.payback_scans is None
    assert skip(plan_for(Scene(files), PlanOptions(strategy=Strategy.TIME_SERIES))).code == "tidy"


def test_auto_follows_the_rules_of_the_contract() -> None:
    medium = [File(100 * MB)] * 100
    assert skip(plan_for(Scene(medium))).code == "tidy"
    assert rewrite(plan_for(Scene([*medium, File(100 * MB)]))).reason.startswith("too many files: 101 files")
    assert rewrite(plan_for(Scene(SMALL))).reason == "small files: 20 files, average 1 MB"
    assert rewrite(plan_for(Scene(medium), PlanOptions(force=True))).reason.startswith("forced")


def test_auto_applies_deletes_to_files_of_the_right_size() -> None:
    plan = plan_for(Scene([File(512 * MB)] * 5, [Delete(sequence=2)]))
    assert rewrite(plan).reason == (
        "delete files: 5 files, average 512 MB; merges 1 delete file, less than 1 % of the rows"
    )
    assert (rewrite(plan).files, rewrite(plan).outputs) == (5, 5)


def test_auto_applies_few_delete_files_that_remove_many_rows() -> None:
    files = [File(100 * MB)] * 20
    deletes = [Delete("position", "file", references="f000003.parquet", records=MB)]
    plan = plan_for(Scene(files, deletes))
    assert skip(plan).code == "tidy"  # one of twenty files, all of it: 5 % of the rows
    plan = plan_for(Scene(files, deletes), PlanOptions(max_delete_ratio=0.05))
    assert skip(plan).code == "tidy"
    plan = plan_for(Scene(files, [Delete("equality", sequence=2, records=3 * MB)]))
    assert rewrite(plan).reason == (
        "deleted rows: 20 files, average 100 MB; merges 1 delete file, up to 15 % of the rows"
    )


def test_auto_takes_small_files_and_files_with_deletes_in_one_plan() -> None:
    files = [*[File()] * 110, *[File(512 * MB)] * 10]
    names = [f"f{number:06d}.parquet" for number in (0, 115, 116)]
    deletes = [Delete("position", "file", references=name) for name in names]
    assert rewrite(plan_for(Scene(files, deletes[:1]))).files == 110
    # 3 delete files are few beside 120 files, but not beside those that the merge will leave.
    taken = plan_for(Scene(files, deletes))
    assert rewrite(taken).files == 112
    assert [delete.referenced_data_file for delete in taken.deletes] == names


@pytest.mark.parametrize("strategy", UNORDERED)
def test_a_tidy_partition_is_left_alone_even_with_force(strategy: Strategy) -> None:
    for force in (False, True):
        plan = plan_for(Scene([File(512 * MB)] * 3), PlanOptions(strategy=strategy, force=force))
        assert skip(plan).code == "tidy"
        assert skip(plan).reason.startswith("already tidy")


HOT = Scene(
    [File(snapshot=n % 4 + 2) for n in range(20)],
    snapshots=((1, 48 * HOUR, "append"), *((n, (7 - n) * MINUTE, "append") for n in range(2, 6))),
)


@pytest.mark.parametrize("strategy", [Strategy.AUTO, Strategy.TIME_SERIES])
def test_a_hot_partition_is_left_alone_until_it_cools(strategy: Strategy) -> None:
    hot = skip(plan_for(HOT, PlanOptions(strategy=strategy)))
    assert hot.code == "hot"
    assert hot.reason == "hot: 4 commits in the last 10 min, cools 00:08 UTC"
    assert rewrite(plan_for(HOT, PlanOptions(strategy=strategy, force=True))).files == 20
    assert rewrite(plan_for(HOT, PlanOptions(strategy=strategy, hot_window_seconds=60))).files == 20


def test_small_files_and_full_do_not_wait() -> None:
    for strategy in (Strategy.SMALL_FILES, Strategy.FULL):
        assert rewrite(plan_for(HOT, PlanOptions(strategy=strategy))).files == 20


def test_one_commit_is_hot_for_a_time_series_only() -> None:
    scene = Scene([File(snapshot=2)] * 20, snapshots=((1, HOUR, "append"), (2, MINUTE, "append")))
    assert skip(plan_for(scene, PlanOptions(strategy=Strategy.TIME_SERIES))).code == "hot"
    assert rewrite(plan_for(scene, PlanOptions(strategy=Strategy.AUTO))).files == 20


def test_time_series_rewrites_the_oldest_partition_first() -> None:
    files = [File(partition=p, snapshot=s) for p, s in ((0, 2), (1, 1), (2, 3)) for _ in range(20 + p)]
    snapshots = ((1, 9 * HOUR, "append"), (2, 8 * HOUR, "append"), (3, 7 * HOUR, "append"))
    scene = Scene(files, days=(1, 2, 3), snapshots=snapshots)
    plan = plan_for(scene, PlanOptions(strategy=Strategy.TIME_SERIES))
    assert [group.partition_path[-1] for group in plan.groups] == ["3", "2", "4"]
    by_score = plan_for(scene, PlanOptions(strategy=Strategy.FULL))
    assert [group.partition_path[-1] for group in by_score.groups] == ["4", "3", "2"]


def test_too_few_files_wait_unless_forced() -> None:
    plan = plan_for(Scene([File()] * 4))
    assert skip(plan) == Skip("too-few-files", "4 files to merge, fewer than min_input_files (5)")
    assert rewrite(plan_for(Scene([File()] * 4), PlanOptions(force=True))).files == 4
    assert rewrite(plan_for(Scene([File()] * 4), PlanOptions(min_input_files=4))).files == 4
    assert skip(plan_for(Scene([File()]))).code == "tidy"


def test_files_that_cannot_be_merged_are_no_gain_even_with_force() -> None:
    files = [File(300 * MB)] * 6
    for force in (False, True):
        plan = plan_for(Scene(files), PlanOptions(strategy=Strategy.FULL, force=force))
        assert skip(plan) == Skip("no-gain", "no gain: 6 files cannot be merged into fewer")


def test_files_that_only_a_low_group_size_keeps_apart_are_not_called_tidy() -> None:
    options = PlanOptions(max_group_size=1, force=True)
    plan = plan_for(Scene(SMALL), options)
    assert skip(plan) == Skip("group-size", "20 files cannot be merged within max_group_size (1 B)")
    (left,) = left_alone(plan)
    assert (left.disposition, left.take_now) == ("waiting", {"max_group_size": None})
    assert rewrite(plan_for(Scene(SMALL), replace(options, max_group_size=None))).outputs == 1
    large = plan_for(Scene([File(300 * MB)] * 6), replace(options, strategy=Strategy.FULL))
    assert skip(large).code == "no-gain", "a larger group would not merge them either"


def test_a_table_of_an_unknown_format_version_is_refused() -> None:
    plan = plan_for(Scene(SMALL, format_version=4))
    assert skip(plan) == Skip("format-version", "format v4 tables are not supported")
    assert plan.is_empty


def test_v1_tables_are_planned() -> None:
    assert rewrite(plan_for(Scene([File(sequence=0)] * 20, format_version=1))).files == 20


@pytest.mark.parametrize("strategy", [Strategy.SMALL_FILES, Strategy.TIME_SERIES])
def test_strategies_by_size_take_small_files_with_their_deletes_and_leave_large_ones(strategy: Strategy) -> None:
    files = [*SMALL, *[File(512 * MB)] * 3]
    plan = plan_for(Scene(files, [Delete(sequence=2)] * 9), PlanOptions(strategy=strategy))
    assert rewrite(plan).files == 20
    assert plan.groups[0].deletes == tuple(range(9))
    assert (
        skip(plan_for(Scene(files[:4], [Delete(sequence=2)]), PlanOptions(strategy=strategy))).code == "too-few-files"
    )


def test_full_rewrites_every_file_with_deletes_even_alone() -> None:
    files = [File(512 * MB), File(512 * MB), File(3_000 * MB)]
    deletes = [Delete("position", "file", references=f"f{number:06d}.parquet") for number in (1, 2)]
    plan = plan_for(Scene(files, deletes), PlanOptions(strategy=Strategy.FULL))
    assert [(len(group.files), group.outputs, group.deletes) for group in plan.groups] == [(1, 1, (0,)), (1, 6, (1,))]
    alone = plan_for(Scene(files[:2], deletes[:1]), PlanOptions(strategy=Strategy.FULL))
    assert rewrite(alone).reason == "1 of 2 files with deletes; merges 1 delete file, less than 1 % of the rows"


def test_a_plan_lists_its_deletes_with_all_their_fields() -> None:
    deletes = [
        Delete("equality", sequence=3, path="z.parquet", manifest=4, records=7),
        Delete("dv", "file", sequence=2, references="f000001.parquet", format="PUFFIN", path="a.puffin", offset=90),
        Delete("dv", "file", sequence=2, references="f000000.parquet", format="PUFFIN", path="a.puffin", offset=4),
        Delete("position", sequence=0, path="b.parquet"),
    ]
    plan = plan_for(Scene(SMALL, deletes))
    assert plan.deletes == (
        DeleteFile("a.puffin", "dv", 1000, 10, 2, "m9.avro", "f000000.parquet", (), 4, 40),
        DeleteFile("a.puffin", "dv", 1000, 10, 2, "m9.avro", "f000001.parquet", (), 90, 40),
        DeleteFile("z.parquet", "equality", 1000, 7, 3, "m4.avro", None, (1, 3)),
    )
    assert plan.groups[0].deletes == (0, 1, 2)
    assert plan_for(Scene(SMALL)).deletes == ()


@pytest.mark.parametrize(
    ("file", "code"),
    [(File(format="ORC"), "format"), (File(format="AVRO"), "format"), (File(encrypted=True), "encrypted")],
)
def test_other_formats_and_encrypted_files_are_skipped(file: File, code: str) -> None:
    assert skip(plan_for(Scene([file] * 20), PlanOptions(force=True))).code == code
    assert rewrite(plan_for(Scene([file, *SMALL]))).files == 20


def test_delete_files_looks_at_the_fragment_ratio() -> None:
    options = PlanOptions(strategy=Strategy.DELETE_FILES)
    few = skip(plan_for(Scene(SMALL, [Delete(sequence=2)] * 2), options))
    assert few.code == "other-strategy"  # its files are small, which is not what this strategy looks for
    words = "fragment ratio 0.10, less than 1 % of the rows deleted, at most 0.1 allowed"
    assert few.reason.startswith(f"nothing for delete_files to do ({words}), but ")
    many = rewrite(plan_for(Scene(SMALL, [Delete(sequence=2, records=1_000)] * 3), options))
    assert many.reason == (
        "20 of 20 files with deletes: fragment ratio 0.15, at most 0.1 allowed; "
        "merges 3 delete files, up to 1 % of the rows"
    )
    assert (many.files, many.outputs) == (20, 1)
    dangling = skip(plan_for(Scene(SMALL, [Delete(sequence=0)] * 3), options))
    assert dangling == Skip("no-gain", "no gain: 3 delete files apply to no live file")


def test_delete_files_looks_at_the_deleted_rows_and_takes_touched_files_only() -> None:
    options = PlanOptions(strategy=Strategy.DELETE_FILES)
    files = [File(512 * MB, path=f"{number:02d}.parquet") for number in range(20)]
    rows = 512 * MB // 100
    deletes = [Delete("position", "file", references="03.parquet", records=rows // 2)]
    assert skip(plan_for(Scene(files, deletes), options)).reason == (
        "already tidy: fragment ratio 0.05, about 2 % of the rows deleted, at most 0.1 allowed"
    )
    heavy = File(5_120 * MB, path="heavy.parquet")
    most = Delete("position", "file", references="heavy.parquet", records=8 * rows)
    by_rows = plan_for(Scene([heavy, *files], [most]), options)
    assert rewrite(by_rows).reason == (
        "1 of 21 files with deletes: about 27 % of the rows deleted, at most 0.1 allowed; "
        "merges 1 delete file, about 27 % of the rows"
    )
    assert [file.path for group in by_rows.groups for file in group.files] == ["heavy.parquet"]
    assert rewrite(by_rows).outputs == 2
    unknown = plan_for(Scene(files, [Delete("equality", sequence=2, records=3 * rows)]), options)
    assert rewrite(unknown).reason == (
        "20 of 20 files with deletes: up to 15 % of the rows deleted, at most 0.1 allowed; "
        "merges 1 delete file, up to 15 % of the rows"
    )


def test_outputs_of_a_compaction_that_got_new_deletes_are_rewritten() -> None:
    snapshots = ((1, 9 * HOUR, "append"), (2, 8 * HOUR, "replace"), (3, 7 * HOUR, "delete"))
    packed = [File(10 * MB, sequence=1, file_sequence=2, snapshot=2)] * 10
    old, new = Delete(sequence=1), Delete("position", "file", sequence=3, references="f000004.parquet")
    for strategy in (Strategy.AUTO, Strategy.DELETE_FILES, Strategy.FULL):
        options = PlanOptions(strategy=strategy, max_delete_ratio=0.05)
        scene = Scene(packed, [old], snapshots=snapshots, full_targets={2: 512 * MB})
        assert skip(plan_for(scene, options)).code in ("tidy", "no-gain", "compacted")
        plan = plan_for(replace(scene, deletes=[old, new]), options)
        assert [file.path for group in plan.groups for file in group.files] == ["f000004.parquet"]
        assert [delete.path for delete in plan.deletes] == ["d00001.parquet"]


def test_a_partition_with_delete_files_only_is_empty() -> None:
    plan = plan_for(Scene(SMALL, [Delete(partition=1)], days=(1, 2)))
    assert skip(plan, 1).code == "empty"


def test_a_filter_selects_partitions_and_is_resolved_in_the_plan() -> None:
    scene = Scene([File(partition=n % 3) for n in range(60)], days=(TODAY - 8, TODAY - 7, TODAY))
    plan = plan_for(scene, PlanOptions(where="day >= current_date - 7"))
    assert [v.verdict.kind for v in plan.partitions] == ["skip", "rewrite", "rewrite"]
    assert skip(plan).code == "filtered"
    assert plan.resolved_where == "day >= '2026-11-06'"
    assert plan.options["where"] == "day >= current_date - 7"
    with pytest.raises(BadPredicate):
        plan_for(scene, PlanOptions(where="dya = 1"))


def test_contradicting_sizes_are_refused() -> None:
    with pytest.raises(BadInput):
        plan_for(Scene(SMALL), PlanOptions(min_file_size=600 * MB))


def test_outputs_of_a_compaction_are_not_packed_again_before_something_new_is_written() -> None:
    snapshots = ((1, 9 * HOUR, "append"), (2, 8 * HOUR, "replace"), (3, 7 * HOUR, "append"))
    packed = [File(10 * MB, snapshot=2)] * 10
    settled = skip(plan_for(Scene(packed, snapshots=snapshots)))
    assert settled == Skip("tidy", "already tidy: compacted, and nothing written since")
    assert rewrite(plan_for(Scene([*packed, File(snapshot=3)], snapshots=snapshots))).files == 11
    older = plan_for(Scene([*packed, *SMALL], snapshots=snapshots))
    assert rewrite(older).files == 20
    assert rewrite(plan_for(Scene(packed, snapshots=snapshots), PlanOptions(force=True))).files == 10


def test_outputs_whose_snapshot_expired_are_files_like_others() -> None:
    assert rewrite(plan_for(Scene([File(10 * MB, snapshot=77)] * 10))).files == 10


def test_max_files_takes_the_smallest_files_of_a_group_and_says_what_it_left() -> None:
    files = [File((n + 1) * 1_000) for n in range(20)]
    plan = plan_for(Scene(files), PlanOptions(max_files=8))
    assert rewrite(plan).files == 8
    assert max(file.size for file in plan.groups[0].files) == 8_000
    assert rewrite(plan).reason.endswith("; max_files leaves 12 files for another time")
    assert plan.left_out == ("day=2026-11-03: 12 files, 170 KB left by max_files",)
    assert skip(plan_for(Scene(files), PlanOptions(max_files=1))) == Skip(
        "limit", "max_files: leaves all 20 files for another time"
    )


def test_max_cost_takes_the_best_scored_groups_that_fit() -> None:
    scene = Scene([File(partition=n) for n in (0, 1) for _ in range(100 - 50 * n)], days=(1, 2))
    whole = plan_for(scene)
    first = whole.groups[0]
    assert len(first.files) == 100
    plan = plan_for(scene, PlanOptions(max_cost=whole.estimate.dollars * 0.999))
    assert [len(group.files) for group in plan.groups] == [100]
    assert plan.estimate.dollars <= whole.estimate.dollars * 0.999
    assert skip(plan, 1) == Skip("budget", "max_cost: leaves all 50 files for another time")
    assert plan.left_out == ("day=1970-01-03: 50 files, 50 MB left by max_cost",)
    assert plan_for(scene, PlanOptions(max_cost=0)).is_empty


def test_a_plan_lists_at_most_100_partitions_that_limits_left_out() -> None:
    scene = Scene([File(partition=n % 150) for n in range(1_500)], days=range(150))
    plan = plan_for(scene, PlanOptions(max_files=10))
    assert len(plan.left_out) == 101
    assert plan.left_out[-1] == "and 49 more partitions"
