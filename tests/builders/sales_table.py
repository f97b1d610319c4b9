"""The table `db.sales`, partitioned by region."""

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import Positions, commit_deletes

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "amount", IntegerType(), required=False),
)

BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def regional(warehouse: Warehouse, *, format_version: int = 2, regions: tuple[str, ...] = ("eu", "us")) -> Table:
    table = warehouse.create_table("db.sales", SCHEMA, BY_REGION, format_version=format_version)
    for region in regions:
        warehouse.append_files(table, 4, 10, files_per_commit=2, values={"region": region})
    return table


REF = TableRef("lab", ("db",), "sales")

REGIONS = ("asia", "eu", "sea", "uk", "us")
THREE_REGIONS = ("asia", "eu", "us")


def delete_in(warehouse: Warehouse, table: Table, region: str) -> None:
    """Deletes a row of a live file of the region."""
    file = min((f for f in warehouse.live_files(table) if f"region={region}" in f.path), key=lambda f: f.path)
    commit_deletes(table, Positions({file.path: [0]}, file_scoped=True))
