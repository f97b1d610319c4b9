"""Plans with boundaries: which files are taken, what that buys, what is left out, and that once is enough."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.key_bounds import BY_ID, TARGET, Span, laid_out, rewrite, skip, taken
from tests.builders.scenes import HOUR, Delete, File, plan_for
from tidyberg.errors import BadSortOrder
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import BOUNDARIES, Plan, Skip
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import SortField, SortKey

HISTORY = ((1, 48 * HOUR, "append"), (2, 24 * HOUR, "replace"))
DISJOINT = [(100 * number, 100 * number + 99) for number in range(10)]
LATE = [(100 * number - 50, 100 * number + 99) for number in range(10)]


def options(boundaries: str = "300, 600", **changes: Any) -> PlanOptions:
    given: dict[str, Any] = {"sort": "id", "target_file_size": TARGET, "boundaries": boundaries}
    return PlanOptions(**(given | changes))


def boundaries(plan: Plan) -> list[int]:
    texts = [text for group in plan.groups for text in group.boundaries]
    return sorted(int.from_bytes(bytes.fromhex(text), "little", signed=True) for text in texts)


def summed_up(inventory: Inventory, summaries: Mapping[int, Mapping[str, str]]) -> Inventory:
    """The inventory with more in the summaries of some snapshots."""
    known = {
        number: replace(info, summary={**info.summary, **summaries.get(number, {})})
        for number, info in inventory.pinned.snapshots.items()
    }
    return replace(inventory, pinned=replace(inventory.pinned, snapshots=known))


def test_only_files_that_straddle_are_taken() -> None:
    plan = plan_for(laid_out(LATE), options())
    assert taken(plan) == [3, 6]
    assert boundaries(plan) == [300, 600]
    group, other = plan.groups
    assert (group.mode, group.mode_reason, group.outputs) == ("sort", "rows are sorted and cut at 1 boundary", 2)
    assert other.outputs == 2
    assert rewrite(plan).reason == (
        "2 of 10 files may straddle 2 boundaries of id; 8 files stay; "
        "a query between two boundaries reads 4 files (192 MB) instead of 4 files (256 MB)"
    )
    forecast = plan.boundaries
    assert forecast is not None
    assert (forecast.asked, forecast.files_before, forecast.files_after) == (("300", "600"), 4, 4)
    assert forecast.payback_queries is not None
    assert plan.asked_boundaries == "300, 600"


def test_the_direction_of_the_order_does_not_matter_to_what_straddles() -> None:
    for order in ("id desc", "id desc nulls first", "id nulls last"):
        assert taken(plan_for(laid_out(LATE), options(sort=order))) == [3, 6]


def test_the_order_of_the_table_is_claimed() -> None:
    plan = plan_for(laid_out(LATE, order=BY_ID), options(sort="table"))
    assert plan.groups[0].sort_key == BY_ID


def test_with_one_boundary_both_of_its_sides_count() -> None:
    plan = plan_for(laid_out(LATE), options("300"))
    assert taken(plan) == [3]
    assert rewrite(plan).reason.endswith(
        "a query for one side of the boundary reads 5.5 files (320 MB) instead of 5.5 files (352 MB)"
    )


def test_boundaries_beyond_the_values_that_are_rewritten_are_no_part_of_the_group() -> None:
    plan = plan_for(laid_out(LATE), options("300, 5000, -5000"))
    assert (taken(plan), boundaries(plan)) == ([3], [300])


def test_a_boundary_between_taken_files_divides_their_outputs_too() -> None:
    """No file straddles 20, but an output from 10 to 30 would."""
    plan = plan_for(laid_out([(0, 19), (20, 40)]), options("10, 20, 30"))
    assert boundaries(plan) == [10, 20, 30]


def test_files_between_which_others_lie_are_not_sorted_together() -> None:
    """Their outputs would reach over the files that stay."""
    plan = plan_for(laid_out(DISJOINT), options("350, 450, 750"))
    assert sorted(len(group.files) for group in plan.groups) == [1, 2]
    assert [group.boundaries for group in plan_for(laid_out(DISJOINT), options("350, 650")).groups] == [
        ((350).to_bytes(8, "little").hex(),),
        ((650).to_bytes(8, "little").hex(),),
    ]
    unknown = plan_for(laid_out([*DISJOINT, None]), options("350, 650"))
    assert [len(group.files) for group in unknown.groups] == [3]


def test_each_partition_has_its_own_boundaries() -> None:
    files = [File(size=TARGET, partition=n % 2) for n in range(10)]
    plan = plan_for(laid_out(LATE, files=files, partitioned=True, days=(1, 2)), options())
    assert [(len(group.files), len(group.boundaries)) for group in plan.groups] == [(1, 1), (1, 1)]


def test_a_boundary_that_would_leave_a_small_file_is_left_out() -> None:
    plan = plan_for(laid_out(DISJOINT), options("350, 610"))
    assert (taken(plan), boundaries(plan)) == ([3], [350])
    assert rewrite(plan).reason.startswith(
        "2 of 10 files may straddle 2 boundaries of id; "
        "1 boundary left out, because files that end there would be below 16 MB; 9 files stay; "
    )


def test_if_all_boundaries_would_leave_small_files_nothing_is_gained() -> None:
    plan = plan_for(laid_out(DISJOINT), options("310, 695"))
    assert skip(plan).code == "no-gain"
    assert skip(plan).reason == (
        "no gain: 2 of 10 files may straddle 2 boundaries of id, but files that end there would be below 16 MB"
    )


def test_files_may_be_as_small_as_the_threshold_for_small_files() -> None:
    assert taken(plan_for(laid_out(DISJOINT), options("610", small_file_threshold=MB))) == [6]


def test_force_keeps_every_boundary() -> None:
    assert boundaries(plan_for(laid_out(DISJOINT), options("350, 610", force=True))) == [350, 610]


def test_force_cuts_files_although_queries_read_as_much_as_before() -> None:
    """A file counts as spread evenly, so all of it lies below its greatest value."""
    at_the_end = laid_out([(0, 1)])
    no_bounds = laid_out([None] * 4, properties={"write.metadata.metrics.default": "counts"})
    for inventory in (at_the_end, no_bounds):
        assert skip(plan_for(inventory, options("0, 1"))).code == "no-gain"
        assert 1 in boundaries(plan_for(inventory, options("0, 1", force=True)))


def test_files_that_straddle_nothing_are_tidy() -> None:
    assert skip(plan_for(laid_out(LATE), options("2000, 3000"))) == Skip(
        "tidy", "already tidy: no file straddles any of 2 boundaries of id"
    )
    assert skip(plan_for(laid_out([]), options())).code == "empty"


def test_files_of_a_job_with_the_same_boundaries_are_left_alone() -> None:
    """I10: it left out boundaries that were not worth it. Force and other boundaries look at them again."""
    files = [File(size=TARGET, snapshot=2) for _ in LATE]
    order = SortKey((SortField(1),))
    sorted_ones = laid_out(LATE, files=files, snapshots=HISTORY, sorted_by={2: order})
    done = summed_up(sorted_ones, {2: {BOUNDARIES: "300, 600"}})
    assert skip(plan_for(done, options())).code == "tidy"
    assert skip(plan_for(done, options("600, 300, 300"))).code == "tidy"
    assert taken(plan_for(done, options("300"))) == [3]
    assert taken(plan_for(done, options(force=True))) == [3, 6]
    assert taken(plan_for(done, options(sort="id desc"))) == [3, 6]
    assert taken(plan_for(sorted_ones, options())) == [3, 6]


def test_deletes_of_files_that_straddle_are_part_of_the_group() -> None:
    files = [File(size=TARGET, path=f"f{number:06d}.parquet") for number in range(10)]
    deletes = [
        Delete(scope="file", references=f"f{number:06d}.parquet", sequence=2, records=100, path=f"d{number}")
        for number in (2, 3)
    ]
    plan = plan_for(laid_out(LATE, files=files, deletes=deletes), options())
    assert taken(plan) == [3, 6]
    assert [delete.path for delete in plan.deletes] == ["d3"]


def test_files_that_cannot_be_read_are_left_out_with_the_reason() -> None:
    files = [File(size=TARGET, format="ORC" if number == 3 else "PARQUET") for number in range(10)]
    plan = plan_for(laid_out(LATE, files=files), options())
    assert taken(plan) == [6]
    assert rewrite(plan).reason.endswith("leaves out 1 file not in Parquet")
    assert [(rest.code, rest.files) for rest in rewrite(plan).rest] == [("format", 1)]
    alone = skip(plan_for(laid_out(LATE, files=files), options("300")))
    assert (alone.code, alone.reason) == ("format", "cannot be sorted: 1 file not in Parquet")


def test_limits_apply_as_to_every_sort() -> None:
    assert len(taken(plan_for(laid_out(LATE), options(max_files=1)))) == 1
    together = laid_out([(0, 199), (0, 199)])
    assert skip(plan_for(together, options("100", max_files=1))).code == "limit"
    assert skip(plan_for(laid_out(LATE), options(max_cost=0.0))).code == "budget"


@pytest.mark.parametrize("mode", ["none", "counts"])
def test_without_bounds_in_manifests_nothing_is_gained(mode: str) -> None:
    plan = plan_for(laid_out([None] * 4, properties={"write.metadata.metrics.default": mode}), options())
    assert "the table keeps no bounds of id" in skip(plan).reason


def test_texts_beyond_what_manifests_keep_are_left_out() -> None:
    names = [Span(f"{letter}a", f"{letter}z") for letter in "abcd"]
    long_one = "'" + "b" * 17 + "'"
    plan = plan_for(laid_out([None] * 4, more={3: names}), options(f"bm, {long_one}", sort="region"))
    assert taken(plan) == [1]
    assert "1 boundary left out, because manifests keep only 16 characters of region; set " in rewrite(plan).reason
    only = skip(plan_for(laid_out([None] * 4, more={3: names}), options(long_one, sort="region")))
    assert only.code == "no-gain"
    full = {"write.metadata.metrics.column.region": "full"}
    plan = plan_for(laid_out([None] * 4, more={3: names}, properties=full), options(f"bm, {long_one}", sort="region"))
    assert "left out, because manifests" not in rewrite(plan).reason


@pytest.mark.parametrize(("sort", "given"), [("bucket(4, id)", "1"), ("id", "x"), ("region", "'a")])
def test_wrong_boundaries_are_refused(sort: str, given: str) -> None:
    with pytest.raises(BadSortOrder):
        plan_for(laid_out(LATE, more={3: [Span("a", "b")] * 10}), options(given, sort=sort))


def test_outputs_have_the_target_size() -> None:
    spans: Sequence[tuple[int, int]] = [(0, 99)] * 12
    plan = plan_for(laid_out(spans), options("25"))
    assert (len(taken(plan)), plan.groups[0].outputs) == (12, 3 + 9)
