"""Manifests written by Iceberg's Java runtime: our inventory must equal Java's own metadata tables."""

from typing import Any

import pytest
from pyiceberg.table import Table

from tests.builders.inventories import inventory_of
from tests.oracle.client import JavaCatalog
from tidyberg.model.inventory import Inventory
from tidyberg.testing import Warehouse, local_path

NAME = "db.events"
ENTRY = "snapshot_id, sequence_number, file_sequence_number"
FILE = "data_file.file_path, data_file.record_count, data_file.file_size_in_bytes, data_file.spec_id"


def create(java: JavaCatalog, version: int, partitioned_by: str = "") -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    partitioning = f"PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
    mode = "merge-on-read" if version > 1 else "copy-on-write"
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, day DATE, seen TIMESTAMP, name STRING, price DECIMAL(9,2), raw BINARY) "
        f"USING iceberg {partitioning} TBLPROPERTIES ('format-version'='{version}', "
        f"'write.delete.mode'='{mode}')"
    )


def insert(java: JavaCatalog, first: int, rows: int = 20) -> None:
    java.sql(
        f"INSERT INTO {NAME} SELECT id, date_add(DATE '2026-01-01', CAST(id % 3 AS INT)), "
        "TIMESTAMP '2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, CAST(id % 5 AS INT)), "
        "CASE WHEN id % 4 = 0 THEN NULL ELSE concat('name/', id % 4) END, CAST(id % 3 AS DECIMAL(9,2)), "
        f"CAST(CAST(id % 2 AS STRING) AS BINARY) FROM range({first}, {first + rows}, 1, 1)"
    )


def java_data_files(java: JavaCatalog, *more: str) -> list[tuple[Any, ...]]:
    columns = ", ".join([FILE, ENTRY, *(f"data_file.{name}" for name in more)])
    return sorted(java.sql(f"SELECT {columns} FROM {NAME}.entries WHERE status < 2 AND data_file.content = 0"))


def our_data_files(inventory: Inventory, *more: str) -> list[tuple[Any, ...]]:
    names = ("path", "records", "size", "spec_id", "snapshot_id", "sequence_number", "file_sequence_number", *more)
    return sorted(tuple(row[name] for name in names) for row in inventory.data_files.to_pylist())


def load(warehouse: Warehouse) -> Table:
    return warehouse.catalog.load_table(NAME)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "partitioned_by", ["", "days(day), bucket(3, id)", "name, price, raw, hours(seen), truncate(5, name)"]
)
def test_data_files_are_those_of_javas_entries_table(
    warehouse: Warehouse, java: JavaCatalog, version: int, partitioned_by: str
) -> None:
    create(java, version, partitioned_by)
    insert(java, 0)
    insert(java, 100)
    java.sql(f"DELETE FROM {NAME} WHERE id < 3")
    java.call("rewrite_manifests", table=NAME)
    insert(java, 200)
    inventory = inventory_of(load(warehouse))
    lineage = ("first_row_id",) if version == 3 else ()
    assert our_data_files(inventory, *lineage) == java_data_files(java, *lineage)
    if version == 3:
        assert None not in inventory.data_files["first_row_id"].to_pylist()
    for row in inventory.data_files.to_pylist():
        # Java names directories as Partition.path promises to.
        assert f"/data/{inventory.partitions[row['partition']].path}".rstrip("/") in row["path"]


def test_row_ids_of_a_table_upgraded_to_version_3_are_javas(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, 2, "days(day)")
    insert(java, 0)
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version'='3')")
    inventory = inventory_of(load(warehouse))
    assert our_data_files(inventory, "first_row_id") == java_data_files(java, "first_row_id")
    insert(java, 100)
    java.sql(f"DELETE FROM {NAME} WHERE id = 5")
    inventory = inventory_of(load(warehouse))
    assert our_data_files(inventory, "first_row_id") == java_data_files(java, "first_row_id")


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_are_scoped_as_java_wrote_them(
    warehouse: Warehouse, java: JavaCatalog, granularity: str
) -> None:
    create(java, 2, "days(day)")
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.delete.granularity'='{granularity}')")
    insert(java, 0)
    insert(java, 100)
    java.sql(f"DELETE FROM {NAME} WHERE id IN (0, 3, 6, 100, 102, 105)")
    inventory = inventory_of(load(warehouse))
    found = inventory.delete_files.to_pylist()
    assert {row["kind"] for row in found} == {"position"}
    assert sum(row["records"] for row in found) == 6
    if granularity == "file":
        assert {row["scope"] for row in found} == {"file"}
        assert {row["referenced_data_file"] for row in found} <= set(inventory.data_files["path"].to_pylist())
    else:
        assert "partition" in {row["scope"] for row in found}


def test_deletion_vectors_are_those_of_javas_files_table(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, 3)
    insert(java, 0)
    insert(java, 100)
    java.sql(f"DELETE FROM {NAME} WHERE id IN (1, 2, 101)")
    inventory = inventory_of(load(warehouse))
    names = ("path", "referenced_data_file", "content_offset", "content_size", "records", "kind", "scope", "format")
    ours = sorted(tuple(row[name] for name in names) for row in inventory.delete_files.to_pylist())
    theirs = java.sql(
        "SELECT file_path, referenced_data_file, content_offset, content_size_in_bytes, record_count, 'dv', 'file', "
        f"upper(file_format) FROM {NAME}.delete_files"
    )
    assert ours == sorted(theirs)
    assert len(ours) == 2


def test_equality_deletes_without_partitions_reach_the_whole_table(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, 2)
    insert(java, 0)
    path = java.equality_delete(NAME, {"id": [1, 2]})
    (found,) = inventory_of(load(warehouse)).delete_files.to_pylist()
    assert local_path(found["path"]) == local_path(path)
    assert (found["kind"], found["scope"], found["records"]) == ("equality", "global", 2)
    assert found["equality_ids"] == [1]
