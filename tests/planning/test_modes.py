"""Groups that change rows or partitions are never copied; by default only large row groups are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.scenes import Delete, File, Scene, applies, plan_for
from tidyberg.errors import BadInput
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy
from tidyberg.model.plan import Plan
from tidyberg.model.sizes import MB
from tidyberg.planning.document import options_of, plan_from_json, plan_to_json

FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
COPY, ENCODE = replace(FULL, mode=RewriteMode.COPY), replace(FULL, mode=RewriteMode.ENCODE)


def ways(plan: Plan) -> set[tuple[str, str]]:
    return {(group.mode, group.mode_reason) for group in plan.groups}


def of_files(*files: File, deletes: tuple[Delete, ...] = (), format_version: int = 2) -> Scene:
    return Scene(files, deletes, format_version=format_version)


LARGE = [File(size=48 * MB, row_groups=1)] * 8
SMALL = [File(size=48 * MB, row_groups=24)] * 8


def test_large_row_groups_are_copied_and_small_ones_are_merged_by_encoding() -> None:
    assert ways(plan_for(of_files(*LARGE), FULL)) == {("copy", "large row groups")}
    assert ways(plan_for(of_files(*SMALL), FULL)) == {("encode", "small row groups")}


def test_the_average_row_group_of_a_group_decides_its_mode() -> None:
    mixed = [File(size=40 * MB, row_groups=1), *[File(size=4 * MB, row_groups=1)] * 8]
    assert ways(plan_for(of_files(*mixed), FULL)) == {("copy", "large row groups")}  # 72 MB in 9
    more = [*mixed, File(size=4 * MB, row_groups=1)]
    assert ways(plan_for(of_files(*more), FULL)) == {("encode", "small row groups")}
    lower = replace(FULL, copy_min_row_group_bytes=7 * MB)
    assert ways(plan_for(of_files(*more), lower)) == {("copy", "large row groups")}


def test_a_file_without_split_offsets_counts_as_one_row_group() -> None:
    assert ways(plan_for(of_files(*[File(size=9 * MB)] * 8), FULL)) == {("copy", "large row groups")}
    assert ways(plan_for(of_files(*[File(size=7 * MB)] * 8), FULL)) == {("encode", "small row groups")}


def test_callers_can_ask_for_copies_and_forbid_them() -> None:
    assert ways(plan_for(of_files(*SMALL), COPY)) == {("copy", "asked for")}
    assert ways(plan_for(of_files(*LARGE), ENCODE)) == {("encode", "asked for")}


@pytest.mark.parametrize("options", [FULL, COPY])
def test_groups_with_deletes_or_moves_are_encoded_even_if_copies_are_asked_for(options: PlanOptions) -> None:
    deleted = of_files(*LARGE, deletes=(Delete(sequence=2),))
    assert ways(plan_for(deleted, options)) == {("encode", "deletes apply")}


def test_rows_of_format_v3_are_copied_too() -> None:
    assert ways(plan_for(of_files(*LARGE, format_version=3), FULL)) == {("copy", "large row groups")}


def test_a_delete_that_applies_to_no_file_does_not_prevent_a_copy() -> None:
    later = [replace(file, sequence=5) for file in LARGE]
    assert ways(plan_for(of_files(*later, deletes=(Delete(sequence=2),)), FULL)) == {("copy", "large row groups")}


def test_a_file_is_split_by_copying_only_between_row_groups() -> None:
    whole, fine = File(size=2000 * MB, row_groups=1), File(size=2000 * MB, row_groups=16)
    coarse = {("encode", "row groups too large to be divided")}
    assert ways(plan_for(of_files(whole), COPY)) == coarse
    assert ways(plan_for(of_files(File(size=2000 * MB)), FULL)) == coarse
    assert ways(plan_for(of_files(fine), FULL)) == {("copy", "large row groups")}


def test_parquet_options_prevent_copies_unless_copies_are_asked_for() -> None:
    codec = {"compression-codec": "gzip"}
    assert ways(plan_for(of_files(*LARGE), replace(FULL, parquet=codec))) == {("encode", "Parquet options asked for")}
    assert ways(plan_for(of_files(*LARGE), replace(COPY, parquet=codec))) == {("copy", "asked for")}


def test_a_copy_is_priced_below_an_encode_and_keeps_the_bytes() -> None:
    copied, encoded = plan_for(of_files(*LARGE), FULL), plan_for(of_files(*LARGE), ENCODE)
    assert copied.estimate.seconds < encoded.estimate.seconds
    assert copied.estimate.dollars < encoded.estimate.dollars
    assert copied.estimate.bytes_written == copied.estimate.bytes_read


def test_the_mode_is_part_of_the_document_and_its_hash() -> None:
    automatic, asked = plan_for(of_files(*LARGE), FULL), plan_for(of_files(*LARGE), COPY)
    assert plan_from_json(plan_to_json(asked)) == asked
    assert options_of(asked).mode is RewriteMode.COPY
    assert automatic.hash != asked.hash


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="'move' is not a way to rewrite"):
        RewriteMode.parse("move")


files = st.builds(
    File,
    size=st.sampled_from([1 * MB, 12 * MB, 90 * MB, 1200 * MB]),
    partition=st.integers(0, 1),
    sequence=st.integers(1, 4),
    row_groups=st.sampled_from([None, 1, 2, 9]),
)
deletes = st.builds(
    Delete,
    kind=st.sampled_from(["position", "equality"]),
    scope=st.just("partition"),
    partition=st.integers(0, 1),
    sequence=st.integers(1, 4),
)


@given(st.lists(files, max_size=12), st.lists(deletes, max_size=3), st.sampled_from(RewriteMode))
def test_no_group_is_copied_while_a_delete_applies_to_one_of_its_files(
    some_files: list[File], some_deletes: list[Delete], mode: RewriteMode
) -> None:
    scene = Scene(some_files, some_deletes, days=(20_000, 20_001))
    inventory = scene.inventory()
    rows = {row["path"]: row for row in inventory.data_files.to_pylist()}
    against = inventory.delete_files.to_pylist()
    for group in plan_for(inventory, replace(FULL, mode=mode, force=True)).groups:
        deleted = any(applies(delete, rows[file.path]) for file in group.files for delete in against)
        assert group.mode == "encode" or not deleted
        assert group.mode_reason
