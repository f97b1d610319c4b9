"""Which manifest lists which entries, and whether a rewrite pays."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.errors import BadInput
from tidyberg.model.manifest_rewrite import ManifestPlan
from tidyberg.model.options import Prices
from tidyberg.model.table import TableRef
from tidyberg.planning.manifest_layout import EntryColumns, EntryGroup, Layout, PlannedManifest, SourceManifest
from tidyberg.planning.manifest_rewrite import ManifestFacts, PlannedManifests, plan_manifests, target_bytes

REF = TableRef("lab", ("db",), "events")
SIZE = 100  # of each entry


def facts(manifests: Sequence[Sequence[int]], partitions: int, deleted: Sequence[int] = ()) -> ManifestFacts:
    """Manifests by the partitions of their entries. Every manifest has as many bytes as its entries."""
    rows = [(number, partition) for number, listed in enumerate(manifests) for partition in listed]
    zeros = np.zeros(len(rows), np.int64)
    return ManifestFacts(
        REF,
        "main",
        1,
        EntryColumns(
            np.array([number for number, _ in rows], np.int64),
            zeros,
            np.array([partition for _, partition in rows], np.int64),
            zeros,
            zeros,
            zeros + SIZE,
        ),
        [
            SourceManifest(SIZE * len(one), deleted[at] if deleted else 0, may_stay=True)
            for at, one in enumerate(manifests)
        ],
        [EntryGroup(0, holds_deletes=False, compression=1.0)],
        [Layout(0, np.arange(partitions, dtype=np.int64)[:, None])],
    )


def planned(given: ManifestFacts, target: int, *, force: bool = False) -> PlannedManifests:
    return plan_manifests(given, {}, Prices(), target, force=force)


def spans(found: PlannedManifests) -> list[tuple[int, int, int | None]]:
    return [(one.start, one.stop, one.keeps) for one in found.manifests]


def carried_out(given: ManifestFacts, found: PlannedManifests, partitions: int) -> ManifestFacts:
    """The table after the rewrite."""
    order = given.entries.partition[found.order]
    return facts([order[one.start : one.stop].tolist() for one in found.manifests], partitions)


def test_entries_are_clustered_and_cut_where_partitions_end() -> None:
    found = planned(facts([[0, 1, 2, 3]] * 5, 4), 6 * SIZE)
    assert spans(found) == [(0, 5, None), (5, 10, None), (10, 15, None), (15, 20, None)]
    assert (found.plan.scan_before, found.plan.scan_after, found.plan.verdict) == (5.0, 1.0, "rewrite")


def test_a_large_partition_is_divided_evenly() -> None:
    found = planned(facts([[0]] * 21, 1), 10 * SIZE)
    assert spans(found) == [(0, 7, None), (7, 14, None), (14, 21, None)]


def test_manifests_of_the_right_size_that_overlap_no_other_stay() -> None:
    found = planned(facts([[0] * 8, [1] * 8, *[[2]] * 12], 3), 10 * SIZE)
    assert [one.keeps for one in found.manifests] == [0, 1, None, None]
    assert (found.plan.created, found.plan.replaced, found.plan.entries) == (2, 12, 12)


def test_a_few_entries_between_two_manifests_are_written_with_the_next_one() -> None:
    found = planned(facts([[0] * 8, [2] * 8, [1]], 3), 10 * SIZE)
    assert spans(found) == [(0, 8, 0), (8, 17, None)]


def test_a_manifest_whose_range_another_one_is_in_does_not_stay() -> None:
    found = planned(facts([[0] * 4 + [9] * 4, [5] * 8], 10), 10 * SIZE)
    assert [one.keeps for one in found.manifests] == [None, None]


def test_manifests_that_list_deleted_files_do_not_stay() -> None:
    found = planned(facts([[0] * 8, [1] * 8], 2, deleted=[1, 0]), 10 * SIZE)
    assert [one.keeps for one in found.manifests] == [None, 1]


def test_too_small_a_gain_is_no_reason_to_rewrite() -> None:
    found = planned(facts([[0, 1], [0, 1]], 2), 10 * SIZE).plan
    assert (found.verdict, found.manifests_after) == ("too_little", 1)
    assert "Use --force" in found.reason
    assert planned(facts([[0, 1], [0, 1]], 2), 10 * SIZE, force=True).plan.verdict == "rewrite"


def test_many_manifests_less_are_a_reason_even_if_scans_of_partitions_gain_nothing() -> None:
    found = planned(facts([[number] for number in range(20)], 20), 10 * SIZE).plan
    assert (found.verdict, found.scan_before, found.scan_after) == ("rewrite", 1.0, 1.0)
    assert found.payback_scans is None


def test_force_keeps_nothing() -> None:
    found = planned(facts([[0] * 8], 1), 10 * SIZE, force=True)
    assert spans(found) == [(0, 8, None)]


def test_nothing_is_tidy() -> None:
    assert planned(facts([], 0), 10).plan.verdict == "tidy"


def test_a_rewrite_costs_more_for_more_requests_and_pays_back_by_saved_reads() -> None:
    def plan(manifests: int) -> ManifestPlan:
        return planned(facts([[0]] * manifests, 1), 1000 * SIZE).plan

    few, many = plan(20), plan(200)
    assert (few.get_requests, few.put_requests) == (33, 3)
    assert many.dollars > few.dollars
    assert many.dollars_per_scan > few.dollars_per_scan
    assert few.payback_scans == -(-few.dollars // few.dollars_per_scan)


def test_the_size_is_given_or_the_tables_or_icebergs() -> None:
    name = "commit.manifest.target-size-bytes"
    assert [target_bytes({name: "100"}, 7), target_bytes({name: "100"}, None), target_bytes({}, None)] == [
        7,
        100,
        8 * 1024 * 1024,
    ]
    with pytest.raises(BadInput):
        target_bytes({name: "0"}, None)


@given(st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=12), st.integers(1, 3000), st.booleans())
def test_every_entry_is_listed_once_and_a_second_rewrite_changes_nothing(
    manifests: list[list[int]], target: int, force: bool
) -> None:
    before = facts(manifests, 7)
    found = planned(before, target, force=force)
    assert sorted(found.order.tolist()) == list(range(len(before.entries)))
    edges = [(one.start, one.stop) for one in found.manifests]
    assert [start for start, _ in edges] == [0, *[stop for _, stop in edges]][: len(edges)]
    assert (edges[-1][1] if edges else 0) == len(before.entries)
    assert all(start < stop for start, stop in edges)
    for one in found.manifests:
        _check_kept(before, found, one)
    after = planned(carried_out(before, found, 7), target)
    assert not after.plan.pays or not edges


def _check_kept(before: ManifestFacts, found: PlannedManifests, one: PlannedManifest) -> None:
    if one.keeps is not None:
        own = np.flatnonzero(before.entries.manifest == one.keeps).tolist()
        assert sorted(found.order[one.start : one.stop].tolist()) == own
