"""Branches and staged snapshots that wait to be published prevent a compaction of the branch below them."""

from dataclasses import replace

import pytest

from tests.builders.scenes import File, Scene, plan_for
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions
from tidyberg.model.plan import Skip
from tidyberg.model.table import SnapshotInfo


def table_with(
    history: dict[int, int | None], branches: dict[str, int], staged: dict[int, tuple[str, str]] | None = None
) -> Inventory:
    """Builds snapshots with their parents. Staged ones have an operation and a `wap.id`. The branch is main."""
    inventory = Scene([File() for _ in range(6)]).inventory()
    snapshots = {}
    for number, parent in history.items():
        operation, wap_id = (staged or {}).get(number, ("append", ""))
        summary = {"wap.id": wap_id} if wap_id else {}
        snapshots[number] = SnapshotInfo(number, parent, number, 0, operation, summary)
    pinned = replace(inventory.pinned, snapshots=snapshots, branches=branches, snapshot_id=branches["main"])
    return replace(inventory, pinned=pinned)


def skip_of(inventory: Inventory, options: PlanOptions | None = None) -> Skip | None:
    plan = plan_for(inventory, options)
    skips = {verdict for row in plan.partitions if isinstance(verdict := row.verdict, Skip)}
    assert bool(skips) == plan.is_empty
    return skips.pop() if skips else None


@pytest.mark.parametrize("ahead", [2, 3])
def test_a_branch_ahead_of_the_head_prevents_a_compaction(ahead: int) -> None:
    skip = skip_of(table_with({1: None, 2: 1, 3: 2}, {"main": 1, "audit": ahead}))
    assert skip is not None
    assert skip.code == "wap-branch"
    assert "branch audit is ahead of main" in skip.reason
    assert "--ignore-wap-branches" in skip.reason


@pytest.mark.parametrize(
    ("history", "branches"),
    [
        ({1: None}, {"main": 1}),
        ({1: None}, {"main": 1, "audit": 1}),  # at the head: nothing waits there yet
        ({1: None, 2: 1}, {"main": 2, "audit": 1}),  # behind: published or old
        ({1: None, 2: 1, 3: 1}, {"main": 2, "audit": 3}),  # aside: it cannot fast-forward as it is
        ({2: 1, 3: 9}, {"main": 2, "audit": 3}),  # its ancestors are expired
    ],
)
def test_a_branch_that_is_not_ahead_does_not_prevent_a_compaction(
    history: dict[int, int | None], branches: dict[str, int]
) -> None:
    assert skip_of(table_with(history, branches)) is None


def test_a_branch_that_waits_to_be_published_can_be_compacted_itself() -> None:
    inventory = table_with({1: None, 2: 1}, {"main": 1, "audit": 2})
    of_audit = replace(inventory, pinned=replace(inventory.pinned, branch="audit", snapshot_id=2))
    assert skip_of(of_audit) is None


def test_ignore_wap_branches_allows_the_compaction() -> None:
    inventory = table_with({1: None, 2: 1}, {"main": 1, "audit": 2})
    assert skip_of(inventory, PlanOptions(ignore_wap_branches=True)) is None


def test_a_staged_snapshot_that_is_no_append_prevents_a_compaction() -> None:
    skip = skip_of(table_with({1: None, 2: 1}, {"main": 1}, {2: ("overwrite", "nightly")}))
    assert skip is not None
    assert skip.code == "wap-branch"
    assert "staged with wap.id nightly" in skip.reason


@pytest.mark.parametrize(
    ("history", "main", "operation"),
    [
        ({1: None, 2: 1}, 1, "append"),  # can be picked onto any head
        ({1: None, 2: 1}, 2, "overwrite"),  # published by moving main to it
        ({1: None, 2: 1, 3: 1}, 3, "overwrite"),  # not on the head: it could not be published before either
    ],
)
def test_a_staged_append_or_published_snapshot_does_not_prevent_a_compaction(
    history: dict[int, int | None], main: int, operation: str
) -> None:
    assert skip_of(table_with(history, {"main": main}, {2: (operation, "nightly")})) is None
