"""Bounds of key columns are read from manifests, next to the files that they belong to."""

from pathlib import Path

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from tests.builders.inventories import inventory_of
from tidyberg.control.remote_manifests import reading_on
from tidyberg.execute.inline import InlineEngine
from tidyberg.observe.key_bounds import bound_columns, read_key_bounds
from tidyberg.testing import Warehouse

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "place", StructType(NestedField(3, "city", StringType(), required=False)), required=False),
    NestedField(4, "ratio", DoubleType(), required=False),
)


def test_each_file_has_its_bounds_and_null_counts_also_of_nested_columns(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        table = warehouse.create_table("db.t", SCHEMA)
        for start in (20, 0, 10):
            ids = [None, *range(start, start + 5)]
            table.append(
                pa.table(
                    {
                        "id": pa.array(ids, pa.int64()),
                        "place": [{"city": None if n is None else f"c{n:02d}"} for n in ids],
                        "ratio": pa.array([None] * len(ids), pa.float64()),
                    }
                )
            )
        table.delete("id >= 20")  # the first file goes, and its manifest is written again
        inventory = inventory_of(table.refresh())
        found = read_key_bounds(table.io, inventory, (3, 1, 4))
        remote = read_key_bounds(
            table.io, inventory, (3, 1, 4), reading_on(InlineEngine, table.io, bound_columns((3, 1, 4)))
        )
    assert found.equals(remote)
    expected = {
        task.file.file_path: (
            from_bytes(LongType(), task.file.lower_bounds[1]) if 1 in task.file.lower_bounds else None,
            from_bytes(StringType(), task.file.upper_bounds[3]) if 3 in task.file.upper_bounds else None,
            task.file.null_value_counts[1],
            task.file.null_value_counts[4],
        )
        for task in table.refresh().scan().plan_files()
    }
    assert len(expected) == inventory.data_files.num_rows >= 2
    for path, row in zip(inventory.data_files["path"].to_pylist(), found.to_pylist(), strict=True):
        low = None if row["lower_1"] is None else from_bytes(LongType(), row["lower_1"])
        high = None if row["upper_3"] is None else from_bytes(StringType(), row["upper_3"])
        assert (low, high, row["nulls_1"], row["nulls_4"]) == expected[path]
        assert row["lower_4"] is None


def test_a_table_without_files_has_no_bounds(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        table = warehouse.create_table("db.t", SCHEMA)
        assert read_key_bounds(table.io, inventory_of(table), (1,)).num_rows == 0
