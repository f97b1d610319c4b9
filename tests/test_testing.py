"""Tests the table builders of `tidyberg.testing`."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from tests.oracle.client import JavaCatalog
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse, forge_table, local_path, sample_rows

BY_DAY = PartitionSpec(PartitionField(8, 1000, IdentityTransform(), "day"))


def test_sample_rows_are_the_same_for_the_same_seed_and_differ_otherwise() -> None:
    assert str(sample_rows(50, 3).to_pylist()) == str(sample_rows(50, 3).to_pylist())
    assert str(sample_rows(50, 3).to_pylist()) != str(sample_rows(50, 4).to_pylist())


def test_sample_rows_hold_nulls_nan_and_negative_zero() -> None:
    rows = sample_rows(2000, 1)
    for name in SAMPLE_SCHEMA.column_names:
        if "." not in name and name != "id":
            assert rows[name].null_count > 0, name
    amounts = {str(value) for value in rows["amount"].to_pylist()}
    assert {"nan", "-0.0"} <= amounts
    assert [] in rows["tags"].to_pylist()


ODD_NAMES = ["a b", "a%20b", "a+b", "50%", "a#b?c"]


@pytest.mark.parametrize("location", ["file:///w/a%20b/c d#e", "file:/w/a%20b/c d#e", "/w/a%20b/c d#e"])
def test_a_location_is_no_url(location: str) -> None:
    assert local_path(location) == "/w/a%20b/c d#e"


def odd_table(warehouse: Warehouse) -> Table:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = warehouse.create_table("db.a%20b", schema)
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    return table.refresh()


def test_files_of_pyiceberg_are_where_their_locations_say(warehouse: Warehouse) -> None:
    table = odd_table(warehouse)
    table.append(pa.table({"id": range(len(ODD_NAMES)), "name": ODD_NAMES}))
    paths = [local_path(file.path) for file in warehouse.live_files(table)]
    assert [Path(path).is_file() for path in paths] == [True] * len(ODD_NAMES)
    assert len(warehouse.rows(table)) == len(ODD_NAMES)


def test_files_of_java_are_where_their_locations_say(warehouse: Warehouse, java: JavaCatalog) -> None:
    table = odd_table(warehouse)
    rows = ", ".join(f"({number}, '{name}')" for number, name in enumerate(ODD_NAMES))
    java.sql(f"INSERT INTO db.`a%20b` VALUES {rows}")
    paths = [local_path(file.path) for file in warehouse.live_files(table.refresh())]
    assert [Path(path).is_file() for path in paths] == [True] * len(ODD_NAMES)
    assert len(warehouse.rows(table)) == len(ODD_NAMES)


def test_values_steer_rows_into_one_partition(warehouse: Warehouse) -> None:
    table = warehouse.create_table(partition_spec=BY_DAY)
    warehouse.append_files(table, 4, 10, values={"day": dt.date(2026, 3, 1)})
    assert len(list(table.scan().plan_files())) == 4
    assert {task.file.partition[0] for task in table.scan().plan_files()} == {dt.date(2026, 3, 1).toordinal() - 719163}


@pytest.mark.parametrize("format_version", [1, 2])
def test_append_files_makes_as_many_commits_as_asked(warehouse: Warehouse, format_version: int) -> None:
    table = warehouse.create_table(format_version=format_version)
    warehouse.append_files(table, 7, 10, files_per_commit=3)
    assert len(table.metadata.snapshots) == 3
    assert len(list(table.scan().plan_files())) == 7
    assert table.metadata.format_version == format_version


def test_rows_compare_as_multisets_and_see_a_single_lost_row(warehouse: Warehouse) -> None:
    one, other = warehouse.create_table("db.one"), warehouse.create_table("db.other")
    everything = sample_rows(100, 5)
    warehouse.append_files(one, 1, rows=lambda _: everything)
    halves = [everything.slice(60), everything.slice(0, 60)]
    warehouse.append_files(other, 2, rows=lambda number: halves[number])
    assert warehouse.rows(one) == warehouse.rows(other)
    warehouse.append_files(other, 1, rows=lambda _: everything.slice(0, 1))
    assert warehouse.rows(one) != warehouse.rows(other)


def test_rows_distinguish_a_null_list_from_an_empty_one(warehouse: Warehouse) -> None:
    schema = pa.schema([pa.field("tags", pa.list_(pa.string()))])
    table = warehouse.create_table("db.lists", schema)
    warehouse.append_files(table, 1, rows=lambda _: pa.table({"tags": [None, []]}, schema))
    assert warehouse.rows(table) == ["(None,)", "([],)"]


def test_rows_of_old_files_have_null_in_columns_added_since(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.grown", pa.schema([("id", pa.int64())]))
    warehouse.append_files(table, 1, 2)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    assert warehouse.rows(table) == ["(0, None)", "(1, None)"]


def test_rows_of_a_branch_are_its_own(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.branched", pa.schema([("id", pa.int64())]))
    assert warehouse.rows(table) == []
    warehouse.append_files(table, 1, 1)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "side").commit()
    warehouse.append_files(table, 1, 1, seed=1, branch="side")
    assert warehouse.rows(table) == ["(0,)"]
    assert warehouse.rows(table, branch="side") == ["(0,)", "(1000000,)"]


def test_files_on_disk_and_referenced_files_agree_until_somebody_leaves_an_orphan(
    warehouse: Warehouse,
) -> None:
    table = warehouse.create_table(partition_spec=BY_DAY)
    warehouse.append_files(table, 3, 20)
    table.delete("id < 5")
    assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)
    orphan = Path(table.location().removeprefix("file://")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"")
    assert warehouse.files_on_disk(table) - warehouse.referenced_files(table) == {str(orphan)}


def test_properties_open_the_same_catalog_again(warehouse: Warehouse) -> None:
    warehouse.create_table("db.shared")
    catalog = load_catalog(warehouse.name, **warehouse.properties)
    assert catalog.list_tables("db") == [("db", "shared")]
    catalog.close()


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("partitions", [0, 70])
def test_forged_tables_list_files_as_pyiceberg_reads_them(
    warehouse: Warehouse, format_version: int, partitions: int
) -> None:
    table = forge_table(
        warehouse,
        "db.forged",
        250,
        partitions=partitions,
        manifests=3,
        columns=4,
        format_version=format_version,
    )
    files = [task.file for task in table.scan().plan_files()]
    assert sorted(file.file_size_in_bytes for file in files) == [1_000_000 + n for n in range(250)]
    assert len({file.file_path for file in files}) == 250
    for file in files:
        assert file.record_count == 1000
        assert set(file.lower_bounds) == {1, 2, 3, 4}
        if partitions:
            assert file.partition[0] == (file.file_size_in_bytes - 1_000_000) % partitions
