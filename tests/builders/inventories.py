"""Inventories of real tables, and what PyIceberg finds in the same tables."""

from typing import Any

from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.events_table import REF
from tidyberg.model.inventory import Inventory
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "region", StringType(), required=False)
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=0)


def inventory_of(table: Table, branch: str = "main", cache: ManifestCache | None = None) -> Inventory:
    return take_inventory(table, pin(table, REF, branch), cache)


def column(inventory: Inventory, name: str) -> list[Any]:
    values: list[Any] = inventory.data_files[name].to_pylist()
    return values


def pyiceberg_view(table: Table, branch: str = "main") -> list[tuple[Any, ...]]:
    """Returns the live data files as PyIceberg reads them."""
    snapshot = table.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                path = table.specs()[file.spec_id].partition_to_path(file.partition, table.schema())
                numbers = (entry.sequence_number, entry.file_sequence_number, entry.snapshot_id)
                found.append((file.file_path, file.file_size_in_bytes, file.record_count, file.spec_id, path, *numbers))
    return sorted(found)


def our_view(inventory: Inventory) -> list[tuple[Any, ...]]:
    return sorted(
        (
            row["path"],
            row["size"],
            row["records"],
            row["spec_id"],
            inventory.partitions[row["partition"]].path,
            row["sequence_number"],
            row["file_sequence_number"],
            row["snapshot_id"],
        )
        for row in inventory.data_files.to_pylist()
    )
