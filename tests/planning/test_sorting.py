"""The strategy `sort`: which files it takes, what it predicts, what it refuses, and that it comes to rest."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.key_bounds import BY_ID, TARGET, Span, bounds_table, laid_out, rewrite, skip, taken
from tests.builders.scenes import HOUR, NOW, Delete, File, plan_for
from tidyberg.errors import BadSortOrder
from tidyberg.model.inventory import DATA_FILES, Inventory
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import SORT_KEY, Plan
from tidyberg.model.sizes import MB
from tidyberg.model.sort_key import Curve, SortField, SortKey, sort_key_text
from tidyberg.model.table import SnapshotInfo

AD_HOC = SortKey((SortField(1),))
HISTORY = ((1, 48 * HOUR, "append"), (2, 24 * HOUR, "replace"))
DISJOINT = [(10 * n, 10 * n + 9) for n in range(20)]


def options(**changes: Any) -> PlanOptions:
    given: dict[str, Any] = {"sort": "id", "target_file_size": TARGET} | changes
    return PlanOptions(**given)


def reason(plan: Plan) -> str:
    return rewrite(plan).reason


def test_all_files_of_an_unsorted_partition_become_one_sorted_group() -> None:
    plan = plan_for(laid_out([(0, 999)] * 40), options())
    (group,) = plan.groups
    assert (len(group.files), group.outputs, group.mode, group.sort_key) == (40, 40, "sort", AD_HOC)
    assert reason(plan).startswith("40 of 40 files not in order, up to 40 files overlap")
    assert reason(plan).endswith("a lookup by id reads 1 file instead of 40")
    assert plan.sort_order == "id"
    assert plan.warnings == ()
    assert plan.layout is not None
    assert (plan.layout.max_depth, plan.layout.lookup_files_before, plan.layout.lookup_files_after) == (40, 40, 1)
    assert plan.layout.scratch_bytes == 2 * plan.estimate.bytes_read
    assert plan.layout.payback_queries is not None
    assert plan.layout.range_files_before == pytest.approx(40)
    assert plan.layout.range_files_after == pytest.approx(1.4)


def test_a_plan_that_may_claim_the_tables_order_says_so() -> None:
    plan = plan_for(laid_out([(0, 999)] * 8, order=BY_ID), options(sort="table"))
    assert plan.groups[0].sort_key == BY_ID


def test_each_partition_is_one_group() -> None:
    files = [File(size=TARGET, partition=n % 2) for n in range(12)]
    plan = plan_for(laid_out([(0, 999)] * 12, files=files, partitioned=True, days=(1, 2)), options())
    assert [len(group.files) for group in plan.groups] == [6, 6]
    assert plan.layout is not None
    assert plan.layout.lookup_files_before == pytest.approx(12)
    assert plan.layout.lookup_files_after == pytest.approx(2)


def test_new_files_are_sorted_among_themselves_while_the_overlap_stays_low() -> None:
    inventory = laid_out([*DISJOINT, (0, 199), (0, 199)], claims=[1] * 20 + [None, None], order=BY_ID)
    plan = plan_for(inventory, options(sort="table"))
    assert taken(plan) == [20, 21]
    assert "2 of 22 files not in order, 20 files in order stay" in reason(plan)
    assert "reads 2 files instead of 3" in reason(plan)


def test_files_in_order_take_part_only_where_the_overlap_would_be_too_deep() -> None:
    inventory = laid_out([*DISJOINT, (0, 55), (0, 55)], claims=[1] * 20 + [None, None], order=BY_ID)
    plan = plan_for(inventory, options(sort="table", max_overlap_depth=1))
    assert taken(plan) == [0, 1, 2, 3, 4, 5, 20, 21]


def test_files_in_order_that_overlap_too_deep_are_sorted_again() -> None:
    deep = [(0, 99)] * 4
    inventory = laid_out([*DISJOINT, *deep], claims=[1] * 24, order=BY_ID)
    assert taken(plan_for(inventory, options(sort="table", max_overlap_depth=4))) == [*range(10), 20, 21, 22, 23]
    assert skip(plan_for(inventory, options(sort="table", max_overlap_depth=5))).code == "tidy"


def test_a_stale_claim_counts_as_none() -> None:
    inventory = laid_out([(0, 999)] * 6, claims=[2, 2, 2, 1, 1, 1], order=BY_ID)
    assert taken(plan_for(inventory, options(sort="table"))) == [0, 1, 2]


def test_a_file_without_bounds_overlaps_everything() -> None:
    inventory = laid_out([*DISJOINT, None], claims=[1] * 21, order=BY_ID)
    plan = plan_for(inventory, options(sort="table", max_overlap_depth=1))
    assert len(taken(plan)) == 21
    assert plan.layout is not None
    assert plan.layout.unknown_files == 1


def test_files_that_were_sorted_together_do_not_overlap_whatever_their_cut_bounds_say() -> None:
    files = [File(size=TARGET, snapshot=2) for _ in range(8)]
    layout: dict[str, Any] = {"files": files, "claims": [1] * 8, "order": BY_ID, "snapshots": HISTORY}
    together = laid_out([(0, 999)] * 8, sorted_by={2: BY_ID}, **layout)
    assert skip(plan_for(together, options(sort="table"))).code == "tidy"
    assert len(taken(plan_for(laid_out([(0, 999)] * 8, **layout), options(sort="table")))) == 8


def test_files_that_were_sorted_together_leave_room_for_others_between_them() -> None:
    """Late rows and new ones that were sorted by one job, five times: nothing overlaps."""
    spans = [(start + 10 * n, start + 10 * n + 9) for n in range(5) for start in (0, 1000)]
    files = [File(size=TARGET, snapshot=2 + n) for n in range(5) for _ in range(2)]
    history = ((1, 48 * HOUR, "append"), *((2 + n, (24 - n) * HOUR, "replace") for n in range(5)))
    sorts = {2 + n: BY_ID for n in range(5)}
    layout: dict[str, Any] = {"order": BY_ID, "sorted_by": sorts, "snapshots": history}
    rest = skip(plan_for(laid_out(spans, files=files, claims=[1] * 10, **layout), options(sort="table")))
    assert rest.reason == "already in order, and at most 1 of 10 files overlap (max_overlap_depth is 4)"
    new = laid_out(
        [*spans, *[(2000, 2009)] * 8],
        files=[*files, *[File(size=TARGET)] * 8],
        claims=[*[1] * 10, *[None] * 8],
        **layout,
    )
    assert taken(plan_for(new, options(sort="table"))) == [*range(10, 18)]


@pytest.mark.parametrize("rest", [{"nulls": 1}, {"nulls": 0, "nans": 1}])
def test_nulls_and_nans_do_not_make_a_lookup_read_a_file(rest: dict[str, int]) -> None:
    """Readers skip files by bounds, which leave both out."""
    spans = [Span(10 * n, 10 * n + 9, **rest) for n in range(20)]
    refused = skip(plan_for(laid_out(DISJOINT, more={1: spans}), options()))
    assert refused.reason == "no gain: a lookup by id reads 1 file now, and 1 file after a sort"


def test_a_table_in_order_is_tidy() -> None:
    plan = plan_for(laid_out(DISJOINT, claims=[1] * 20, order=BY_ID), options(sort="table"))
    assert skip(plan).reason == "already in order, and at most 1 of 20 files overlap (max_overlap_depth is 4)"
    assert plan.partitions[0].layout is not None
    assert plan.partitions[0].layout.lookup_files_before == pytest.approx(1)


def test_small_files_in_order_are_merged_in_order() -> None:
    files = [File(size=MB, snapshot=1) for _ in DISJOINT]
    plan = plan_for(laid_out(DISJOINT, files=files, claims=[1] * 20, order=BY_ID), options(sort="table"))
    assert (len(taken(plan)), plan.groups[0].outputs, plan.groups[0].mode) == (20, 1, "sort")


def test_a_large_file_is_divided_by_its_keys() -> None:
    files = [File(size=4 * TARGET), File(size=TARGET)]
    plan = plan_for(laid_out([(0, 9), (10, 19)], files=files, claims=[1, 1], order=BY_ID), options(sort="table"))
    assert taken(plan) == [0]
    assert plan.groups[0].outputs == 4


def test_deletes_are_applied_on_the_way() -> None:
    files = [File(size=TARGET, path=f"f{n:06d}.parquet") for n in range(4)]
    deletes = [Delete(scope="file", references="f000002.parquet", sequence=2, records=500_000)]
    inventory = laid_out(DISJOINT[:4], files=files, claims=[1] * 4, order=BY_ID, deletes=deletes, partitioned=True)
    plan = plan_for(inventory, options(sort="table"))
    assert taken(plan) == [2]
    assert plan.groups[0].deletes == (0,)


@pytest.mark.parametrize(
    ("ids", "changes", "words"),
    [
        ([(n * 10, n * 10 + 9) for n in range(8)], {}, "reads 1 file now, and 1 file after a sort"),
        ([(0, 99)], {}, "one file"),
        ([(7, 7)] * 8, {}, "every row has the same id"),
    ],
)
def test_a_sort_that_lets_queries_skip_nothing_is_refused(
    ids: list[tuple[int, int]], changes: dict[str, Any], words: str
) -> None:
    inventory = laid_out(ids)
    refused = skip(plan_for(inventory, options(**changes)))
    assert refused.code == "no-gain"
    assert words in refused.reason
    assert len(taken(plan_for(inventory, options(force=True)))) == len(ids)


def test_an_all_null_key_is_refused() -> None:
    nulls = {3: [Span(nulls=TARGET // 100)] * 8}
    refused = skip(plan_for(laid_out([(0, 9)] * 8, more=nulls), options(sort="region")))
    assert refused.reason == "no gain: region is null in every row"


def test_a_key_whose_bounds_are_cut_to_the_same_prefix_is_refused_until_they_are_kept() -> None:
    urls = {3: [Span("https://www.exam", "https://www.exan")] * 8}
    inventory = laid_out([(0, 9)] * 8, more=urls)
    refused = skip(plan_for(inventory, options(sort="region")))
    assert "begin with the same 16 characters" in refused.reason
    assert "set write.metadata.metrics.column.region to full" in refused.reason
    full = replace(inventory.pinned, properties={"write.metadata.metrics.column.region": "full"})
    assert len(taken(plan_for(replace(inventory, pinned=full), options(sort="region")))) == 8
    none = replace(inventory.pinned, properties={"write.metadata.metrics.default": "counts"})
    refused = skip(plan_for(replace(inventory, pinned=none), options()))
    assert "keeps no bounds of id (metrics mode counts)" in refused.reason


def test_a_bucket_first_promises_no_skipping_but_is_sorted_for_its_order() -> None:
    order = SortKey((SortField(1, "bucket[16]"), SortField(1)), order_id=1)
    inventory = laid_out([(0, 999)] * 20, files=[File(size=30 * MB)] * 20, order=order)
    plan = plan_for(inventory, options(sort="table"))
    assert plan.layout is not None
    assert plan.layout.lookup_files_after == plan.groups[0].outputs < 20


def test_auto_sorts_a_table_with_an_order_only_where_the_overlap_is_too_deep() -> None:
    auto = PlanOptions(target_file_size=TARGET)
    deep = laid_out([(0, 999)] * 8, claims=[1] * 8, order=BY_ID)
    assert plan_for(deep, auto).groups[0].mode == "sort"
    assert plan_for(deep, replace(auto, max_overlap_depth=8)).is_empty
    assert plan_for(laid_out([(0, 999)] * 8), auto).is_empty
    assert plan_for(replace(deep, key_bounds=None), auto).is_empty
    dropped = replace(deep.pinned, sort_orders={1: SortKey((SortField(99),), order_id=1)})
    assert plan_for(replace(deep, pinned=dropped), auto).is_empty


def test_a_limit_on_files_never_cuts_a_sorted_group() -> None:
    plan = plan_for(laid_out([(0, 999)] * 8), options(max_files=5))
    assert plan.is_empty
    assert "max_files" in skip(plan).reason


def test_a_sort_without_any_order_is_an_error() -> None:
    with pytest.raises(BadSortOrder, match="has no sort order"):
        plan_for(laid_out([(0, 9)]), options(sort="table"))


def test_files_that_a_curve_has_clustered_are_known_by_their_snapshot() -> None:
    curve = SortKey((SortField(1), SortField(3)), Curve.ZORDER)
    regions = {3: [Span("a", "z")] * 8}
    files = [File(size=TARGET, snapshot=1 + (n < 6)) for n in range(8)]
    inventory = laid_out([(0, 999)] * 8, files=files, more=regions, snapshots=HISTORY, sorted_by={2: curve})
    zorder = options(sort=None, zorder="id, region")
    assert taken(plan_for(inventory, zorder)) == [6, 7]
    assert plan_for(inventory, zorder).groups[0].sort_key == curve
    assert len(taken(plan_for(inventory, replace(zorder, max_overlap_depth=1)))) == 8
    assert len(taken(plan_for(inventory, options(sort=None, hilbert="id, region")))) == 8


def test_a_plan_says_why_files_that_a_curve_has_clustered_are_taken_again() -> None:
    """Their bounds do not overlap those of new files, but bounds do not show where files lie along a curve."""
    curve = SortKey((SortField(1), SortField(3)), Curve.ZORDER)
    files = [File(size=TARGET, snapshot=1 + (n < 6)) for n in range(8)]
    spans = [(100 * n, 100 * n + 99) for n in range(8)]
    inventory = laid_out(spans, files=files, more={3: [Span("a", "z")] * 8}, snapshots=HISTORY, sorted_by={2: curve})
    plan = plan_for(inventory, options(sort=None, zorder="id, region", max_overlap_depth=1))
    assert len(taken(plan)) == 8
    assert reason(plan).startswith("2 of 8 files not in order, with 6 files of earlier sorts, which may overlap them")


def test_an_expired_snapshot_leaves_the_overlap_to_decide_about_a_curve() -> None:
    def grid(side: int) -> Inventory:
        cells = [(x, y) for x in range(side) for y in range(side)]
        files = [File(size=TARGET, snapshot=9) for _ in cells]
        regions = {3: [Span(f"r{10 * y:03d}", f"r{10 * y + 9:03d}") for _, y in cells]}
        return laid_out([(10 * x, 10 * x + 9) for x, _ in cells], files=files, more=regions)

    zorder = options(sort=None, zorder="id, region")
    assert skip(plan_for(grid(4), zorder)).code == "tidy"
    random = laid_out([(0, 39)] * 16, files=[File(size=TARGET, snapshot=9)] * 16, more={3: [Span("r000", "r039")] * 16})
    plan = plan_for(random, zorder)
    assert len(taken(plan)) == 16
    assert plan.layout is not None
    assert (plan.layout.lookup_files_before, plan.layout.lookup_files_after) == (16, 4)


def sorted_again(inventory: Inventory, plan: Plan, ratio: float) -> Inventory:
    """Returns the inventory after the plan's commit: the outputs divide the range of their inputs evenly."""
    if plan.is_empty:
        return inventory
    (group,) = plan.groups
    assert group.sort_key is not None
    gone = {file.path for file in group.files}
    rows = inventory.data_files.to_pylist()
    assert inventory.key_bounds is not None
    spans = [
        Span(*(None if row[name] is None else int.from_bytes(row[name], "little", signed=True) for name in names))
        for names in (("lower_1", "upper_1"),)
        for row in inventory.key_bounds.to_pylist()
    ]
    inputs = [span for row, span in zip(rows, spans, strict=True) if row["path"] in gone]
    low = min((span.low for span in inputs if span.low is not None), default=0)
    high = max((span.high for span in inputs if span.high is not None), default=1000)
    kept = [(row, span) for row, span in zip(rows, spans, strict=True) if row["path"] not in gone]
    number = max(inventory.pinned.snapshots) + 1
    edges = [low + (high - low) * n // group.outputs for n in range(group.outputs + 1)]
    outputs = [
        (
            rows[0]
            | {
                "path": f"out-{number}-{n:03d}",
                "size": max(1, int(group.bytes * ratio / group.outputs)),
                "records": max(1, group.records // group.outputs),
                "snapshot_id": number,
                "sequence_number": plan.sequence_number,
                "file_sequence_number": plan.sequence_number + 1,
                "sort_order_id": group.sort_key.order_id,
            },
            Span(edges[n], edges[n + 1]),
        )
        for n in range(group.outputs)
    ]
    summary = {SORT_KEY: sort_key_text(group.sort_key)}
    snapshot = SnapshotInfo(number, None, plan.sequence_number + 1, NOW, "replace", summary)
    pinned = inventory.pinned
    together = kept + outputs
    return replace(
        inventory,
        pinned=replace(
            pinned, snapshot_id=number, sequence_number=number, snapshots={**pinned.snapshots, number: snapshot}
        ),
        data_files=pa.Table.from_pylist([row for row, _ in together], DATA_FILES),
        key_bounds=bounds_table({1: [span for _, span in together]}),
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25),
    st.lists(st.sampled_from([None, 1, 1]), min_size=25, max_size=25),
    st.lists(st.sampled_from([MB, TARGET // 2, TARGET, 3 * TARGET]), min_size=25, max_size=25),
    st.sampled_from([None, BY_ID]),
    st.integers(1, 5),
    st.sampled_from([0.5, 1.0]),
)
def test_sorting_twice_does_nothing_the_second_time(
    pairs: Sequence[tuple[int, int] | None],
    claims: list[int | None],
    sizes: list[int],
    order: SortKey | None,
    limit: int,
    ratio: float,
) -> None:
    ids = [None if pair is None else (min(pair), max(pair)) for pair in pairs]
    files = [File(size=size) for size, _ in zip(sizes, ids, strict=False)]
    inventory = laid_out(ids, files=files, claims=claims[: len(ids)], order=order)
    how = options(sort="table" if order else "id", max_overlap_depth=limit)
    first = plan_for(inventory, how)
    after = sorted_again(inventory, first, ratio)
    assert plan_for(after, how).groups == ()
