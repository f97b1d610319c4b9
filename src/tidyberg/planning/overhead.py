"""Measures what a table keeps besides its live files: snapshots, manifests, and bytes that only old snapshots need."""

from dataclasses import dataclass

from tidyberg.model.inventory import Inventory

DELETE_OLD_METADATA = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True, slots=True)
class TableOverhead:
    snapshots: int
    manifests: int
    dead_bytes: int  # in files that only older snapshots reference; freed when these expire
    deletes_old_metadata: bool  # otherwise every commit leaves a metadata.json behind forever
    metadata_bytes: int | None = None  # the size of the current metadata.json; None: not known


def overhead_of(inventory: Inventory) -> TableOverhead:
    history, properties = inventory.pinned.snapshots, inventory.pinned.properties
    # A file that a snapshot removed is still needed by its parent, as long as the parent is kept.
    removed = (info.summary.get("removed-files-size", "") for info in history.values() if info.parent_id in history)
    return TableOverhead(
        snapshots=len(history),
        manifests=len(inventory.manifests),
        dead_bytes=sum(int(text) for text in removed if text.isdigit()),
        deletes_old_metadata=properties.get(DELETE_OLD_METADATA, "false").strip().lower() == "true",
        metadata_bytes=inventory.pinned.metadata_bytes,
    )
