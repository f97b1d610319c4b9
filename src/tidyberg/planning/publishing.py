"""Protects work that waits to be published (write-audit-publish). A compaction could make publishing it impossible.

A branch is published by fast-forwarding the target branch to it. Catalogs and engines allow that only while the head of
the target is an ancestor of the branch, and a compaction adds a snapshot that is not.

A snapshot that was staged with `wap.id` is published by cherry-picking it. Iceberg can apply an append to any head.
Every other operation can only be applied to the head that it was written on.
"""

from collections.abc import Iterator, Mapping

from tidyberg.model.plan import Skip
from tidyberg.model.table import Pinned, SnapshotInfo

_WAP_ID = "wap.id"
_HINT = "publish or drop it first, or use --ignore-wap-branches"


def waiting_to_be_published(pinned: Pinned) -> Skip | None:
    head = pinned.snapshot_id
    if head is None:
        return None
    for name, ahead in sorted(pinned.branches.items()):
        if name != pinned.branch and ahead != head and head in _ancestors(ahead, pinned.snapshots):
            return Skip(
                "wap-branch",
                f"branch {name} is ahead of {pinned.branch} and could not be published after a compaction: {_HINT}",
            )
    published = {snapshot for name in pinned.branches.values() for snapshot in _ancestors(name, pinned.snapshots)}
    for staged in sorted(pinned.snapshots.values(), key=lambda snapshot: snapshot.snapshot_id):
        if staged.parent_id != head or _WAP_ID not in staged.summary or staged.snapshot_id in published:
            continue
        if staged.operation != "append":
            return Skip(
                "wap-branch",
                f"snapshot {staged.snapshot_id}, staged with {_WAP_ID} {staged.summary[_WAP_ID]}, could not be "
                f"published to {pinned.branch} after a compaction: {_HINT}",
            )
    return None


def _ancestors(snapshot_id: int, snapshots: Mapping[int, SnapshotInfo]) -> Iterator[int]:
    """Yields the snapshot and its ancestors, as far as they are not expired."""
    current: int | None = snapshot_id
    while current is not None and current in snapshots:
        yield current
        current = snapshots[current].parent_id
