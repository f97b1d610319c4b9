import datetime as dt
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StructType

from tests.builders.inventories import BY_REGION, SCHEMA, column, inventory_of, our_view, pyiceberg_view
from tidyberg.model.inventory import DATA_FILES, DELETE_FILES, Inventory
from tidyberg.model.manifest import ManifestInfo
from tidyberg.observe.reading import fetch_manifests
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, Warehouse, forge_static_table
from tidyberg.testing.deletes import delete_equal, delete_positions


def test_an_empty_table_has_an_empty_inventory(warehouse: Warehouse) -> None:
    inventory = inventory_of(warehouse.create_table())
    assert inventory.data_files.schema == DATA_FILES
    assert inventory.delete_files.schema == DELETE_FILES
    assert (inventory.data_files.num_rows, inventory.partitions, inventory.manifests) == (0, (), ())


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize(
    ("source", "transform"),
    [
        (1, BucketTransform(4)),
        (2, IdentityTransform()),
        (3, IdentityTransform()),
        (4, IdentityTransform()),
        (5, IdentityTransform()),
        (5, TruncateTransform(1000)),
        (6, IdentityTransform()),
        (6, TruncateTransform(6)),
        (7, IdentityTransform()),
        (8, DayTransform()),
        (8, IdentityTransform()),
        (9, HourTransform()),
        (9, IdentityTransform()),
        (10, MonthTransform()),
        (10, IdentityTransform()),
        (8, YearTransform()),
        (12, IdentityTransform()),
        (12, BucketTransform(3)),
        (13, IdentityTransform()),
        (14, IdentityTransform()),
        (6, VoidTransform()),
    ],
    ids=str,
)
def test_partitions_of_every_transform_are_as_pyiceberg_reads_them(
    tmp_path: Path, source: int, transform: Transform[Any, Any], format_version: int
) -> None:
    spec = PartitionSpec(PartitionField(source, 1000, transform, "part"))
    samples = _partition_samples(SAMPLE_SCHEMA.find_type(source), transform)
    entries = [ForgedEntry(f"f{n}", partition=(value,)) for n, value in enumerate([*samples, None, samples[0]])]
    table = forge_static_table(
        tmp_path, [ForgedManifest(entries)], schema=SAMPLE_SCHEMA, specs=[spec], format_version=format_version
    )
    inventory = inventory_of(table)
    assert our_view(inventory) == pyiceberg_view(table)
    found = [inventory.partitions[number].values for number in column(inventory, "partition")]
    assert found == [(value,) for value in [*samples, None, samples[0]]]
    assert len(inventory.partitions) == len(samples) + 1


def _partition_samples(kind: Any, transform: Transform[Any, Any]) -> list[Any]:
    if isinstance(transform, VoidTransform):
        return ["x"]
    match str(transform.result_type(kind)):
        case "int" | "long" | "date":
            return [0, 19_000, -5]
        case "timestamp" | "timestamptz":
            return [1_700_000_000_123_456, 0, -1]
        case "float" | "double":
            return [0.0, -0.0, 1.5]
        case "boolean":
            return [True, False]
        case "string":
            return ["a/b c=ü", "", "null"]
        case "binary":
            return [b"", b"\x00\xff"]
        case "fixed[4]":
            return [b"abcd", b"\x00\x01\x02\x03"]
        case "uuid":
            return [UUID(int=0), UUID(int=2**127 + 5)]
        case "decimal(12, 2)":
            return [Decimal("12.30"), Decimal("-0.01"), Decimal("0.00")]
    raise AssertionError(kind)


def test_nan_partitions_are_one(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "amount"))
    entries = [ForgedEntry("a", partition=(float("nan"),)), ForgedEntry("b", partition=(float("nan"),))]
    manifests = [ForgedManifest(entries), ForgedManifest(entries)]
    inventory = inventory_of(forge_static_table(tmp_path, manifests, schema=SAMPLE_SCHEMA, specs=[spec]))
    assert [partition.path for partition in inventory.partitions] == ["amount=nan"]


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_real_table_with_deletes_and_evolution_reads_as_pyiceberg_does(
    warehouse: Warehouse, format_version: int
) -> None:
    spec = PartitionSpec(
        PartitionField(8, 1000, DayTransform(), "day_part"), PartitionField(1, 1001, BucketTransform(2), "bucket")
    )
    table = warehouse.create_table(partition_spec=spec, format_version=format_version)
    warehouse.append_files(table, 4, 20, files_per_commit=2)
    table.delete("id < 1000010")
    with table.update_spec() as update:
        update.remove_field("bucket")
        update.add_identity("active")
    warehouse.append_files(table, 2, 20, seed=50)
    with table.update_schema() as schema_update:
        schema_update.rename_column("day", "the_day")
    warehouse.append_files(table, 1, 20, seed=60)
    inventory = inventory_of(table)
    assert our_view(inventory) == pyiceberg_view(table)
    assert len({partition.spec_id for partition in inventory.partitions}) == 2
    assert len({(partition.spec_id, partition.values) for partition in inventory.partitions}) == len(
        inventory.partitions
    )
    assert {manifest.spec_id for manifest in inventory.manifests} == {0, 1}
    assert set(column(inventory, "format")) == {"PARQUET"}
    assert set(column(inventory, "encrypted")) == {False}


def test_a_branch_has_its_own_inventory(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA)
    warehouse.append_files(table, 1, 1)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "side").commit()
    warehouse.append_files(table, 2, 1, branch="side")
    assert inventory_of(table).data_files.num_rows == 1
    assert our_view(inventory_of(table, "side")) == pyiceberg_view(table, "side")
    assert inventory_of(table, "side").data_files.num_rows == 3


def test_partitions_of_a_dropped_source_column_keep_their_values(tmp_path: Path) -> None:
    spec = PartitionSpec(
        PartitionField(90, 1000, IdentityTransform(), "gone_day"), PartitionField(91, 1001, IdentityTransform(), "gone")
    )
    stated = StructType(NestedField(1000, "gone_day", DateType()), NestedField(1001, "gone", LongType()))
    manifest = ForgedManifest([ForgedEntry("a", partition=(19_000, 7))], partition_type=stated)
    inventory = inventory_of(forge_static_table(tmp_path, [manifest], schema=SCHEMA, specs=[spec]))
    assert inventory.partitions[0].values == (19_000, 7)
    assert inventory.partitions[0].path == "gone_day=2022-01-08/gone=7"


def test_a_promoted_source_column_keeps_one_partition(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "n"))
    before = StructType(NestedField(1000, "n", IntegerType()))
    manifests = [
        ForgedManifest([ForgedEntry("a", partition=(5,))], partition_type=before),
        ForgedManifest([ForgedEntry("b", partition=(5,))]),
    ]
    inventory = inventory_of(forge_static_table(tmp_path, manifests, schema=schema, specs=[spec]))
    assert [partition.path for partition in inventory.partitions] == ["n=5"]


def test_equal_values_of_two_specs_are_two_partitions(tmp_path: Path) -> None:
    other = PartitionSpec(PartitionField(2, 1000, TruncateTransform(3), "region"), spec_id=1)
    manifests = [
        ForgedManifest([ForgedEntry("a", partition=("eu",))], spec_id=0),
        ForgedManifest([ForgedEntry("b", partition=("eu",))], spec_id=1),
    ]
    inventory = inventory_of(forge_static_table(tmp_path, manifests, schema=SCHEMA, specs=[BY_REGION, other]))
    assert [(partition.spec_id, partition.path) for partition in inventory.partitions] == [
        (0, "region=eu"),
        (1, "region=eu"),
    ]


def test_added_entries_inherit_from_their_manifest_and_existing_ones_keep_their_own(tmp_path: Path) -> None:
    entries = [
        ForgedEntry("added"),
        ForgedEntry("explicit", sequence_number=3),
        ForgedEntry("existing", status=0, snapshot_id=2, sequence_number=4, file_sequence_number=5),
        ForgedEntry("deleted", status=2, sequence_number=1, file_sequence_number=1),
    ]
    manifest = ForgedManifest(entries, added_snapshot_id=8, sequence_number=9)
    inventory = inventory_of(forge_static_table(tmp_path, [manifest], schema=SCHEMA))
    found = {
        row["path"]: (row["snapshot_id"], row["sequence_number"], row["file_sequence_number"])
        for row in inventory.data_files.to_pylist()
    }
    assert found == {"added": (8, 9, 9), "explicit": (8, 3, 9), "existing": (2, 4, 5)}


def test_version_1_manifests_count_as_sequence_0_after_an_upgrade(tmp_path: Path) -> None:
    old = ForgedManifest([ForgedEntry("old", status=0)], added_snapshot_id=4, sequence_number=0, format_version=1)
    new = ForgedManifest([ForgedEntry("new")], added_snapshot_id=5, sequence_number=2)
    inventory = inventory_of(forge_static_table(tmp_path, [old, new], schema=SCHEMA, format_version=2))
    assert column(inventory, "sequence_number") == [0, 2]
    assert column(inventory, "snapshot_id") == [4, 5]
    assert column(inventory, "manifest") == [0, 1]


def test_row_ids_of_version_3_follow_each_other_within_a_manifest(tmp_path: Path) -> None:
    manifests = [
        ForgedManifest(
            [
                ForgedEntry("a", records=10),
                ForgedEntry("own", records=7, values={"first_row_id": 5000}),
                ForgedEntry("gone", status=2, records=3, sequence_number=1, file_sequence_number=1),
                ForgedEntry("b", records=20),
                ForgedEntry("c", status=0, records=1, sequence_number=1, file_sequence_number=1),
            ],
            first_row_id=100,
        ),
        ForgedManifest([ForgedEntry("d", records=4), ForgedEntry("e", records=4)], first_row_id=900),
        ForgedManifest([ForgedEntry("unassigned"), ForgedEntry("ignored", values={"first_row_id": 7})]),
    ]
    inventory = inventory_of(forge_static_table(tmp_path, manifests, schema=SCHEMA, format_version=3))
    assert dict(zip(column(inventory, "path"), column(inventory, "first_row_id"), strict=True)) == {
        "a": 100, "own": 5000, "b": 110, "c": 130, "d": 900, "e": 904, "unassigned": None,
        "ignored": None,
    }  # fmt: skip


def test_deletes_have_kind_and_scope(tmp_path: Path) -> None:
    by_region = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=1)
    only_void = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "region"), spec_id=2)
    path_column = 2147483546
    one_file = {"lower_bounds": {path_column: b"data-1"}, "upper_bounds": {path_column: b"data-1"}}
    two_files = {"lower_bounds": {path_column: b"data-1"}, "upper_bounds": {path_column: b"data-2"}}
    vector = {
        "file_format": "PUFFIN",
        "referenced_data_file": "data-3",
        "content_offset": 4,
        "content_size_in_bytes": 9,
    }
    equality = {"equality_ids": [1, 2], **one_file}

    def delete(path: str, content: int, values: dict[str, Any], *partition: Any) -> ForgedEntry:
        return ForgedEntry(path, content=content, values=values, partition=partition)

    manifests = [
        ForgedManifest(
            [
                delete("bounded", 1, one_file, "eu"),
                delete("ranged", 1, two_files, "eu"),
                delete("named", 1, {"referenced_data_file": "data-2"}, "eu"),
                delete("vector", 1, vector, "us"),
                delete("keys", 2, equality, "us"),
            ],
            spec_id=1,
            content=1,
        ),
        ForgedManifest([delete("everywhere", 2, equality), delete("flat", 1, {})], spec_id=0, content=1),
        ForgedManifest([delete("void", 2, equality, None)], spec_id=2, content=1),
    ]
    specs = [PartitionSpec(spec_id=0), by_region, only_void]
    inventory = inventory_of(forge_static_table(tmp_path, manifests, schema=SCHEMA, specs=specs, format_version=3))
    names = ("path", "kind", "scope", "referenced_data_file")
    assert list(zip(*(delete_column(inventory, name) for name in names), strict=True)) == [
        ("bounded", "position", "file", "data-1"),
        ("ranged", "position", "partition", None),
        ("named", "position", "file", "data-2"),
        ("vector", "dv", "file", "data-3"),
        ("keys", "equality", "partition", None),
        ("everywhere", "equality", "global", None),
        ("flat", "position", "partition", None),
        ("void", "equality", "global", None),
    ]
    assert delete_column(inventory, "equality_ids")[4] == [1, 2]
    assert (delete_column(inventory, "content_offset")[3], delete_column(inventory, "content_size")[3]) == (4, 9)
    assert delete_column(inventory, "format")[3] == "PUFFIN"
    assert inventory.data_files.num_rows == 0
    assert [manifest.holds_deletes for manifest in inventory.manifests] == [True, True, True]


def test_delete_files_committed_to_a_real_table_are_found(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    warehouse.append_files(table, 2, 5, values={"region": "eu"})
    target = column(inventory_of(table), "path")[0]
    delete_positions(table, target, [0, 3])
    delete_equal(table, target, {"id": [1, 2, 3]})
    inventory = inventory_of(table.refresh())
    assert sorted(delete_column(inventory, "kind")) == ["equality", "position"]
    found = {row["kind"]: row for row in inventory.delete_files.to_pylist()}
    assert (found["position"]["scope"], found["position"]["referenced_data_file"]) == ("file", target)
    assert (found["equality"]["scope"], found["equality"]["records"]) == ("partition", 3)
    assert paths_of(inventory) == ["region=eu", "region=eu"]
    assert set(delete_column(inventory, "partition")) == set(column(inventory, "partition"))


def test_values_in_partition_paths_are_escaped_and_labels_are_not(warehouse: Warehouse) -> None:
    table = warehouse.create_table("db.events", SCHEMA, BY_REGION)
    warehouse.append_files(table, 1, rows=lambda _: pa.table({"id": [1], "region": ["a b/c"]}))
    partition = inventory_of(table).partitions[0]
    assert partition.path == "region=a+b%2Fc"
    assert partition.label == "region=a b/c"


def test_dates_travel_as_days(warehouse: Warehouse) -> None:
    spec = PartitionSpec(PartitionField(8, 1000, IdentityTransform(), "day"))
    table = warehouse.create_table(partition_spec=spec)
    warehouse.append_files(table, 1, 3, values={"day": dt.date(1970, 1, 11)})
    partition = inventory_of(table).partitions[0]
    assert (partition.values, partition.path) == ((10,), "day=1970-01-11")


def test_partitions_of_doubles_differ_in_the_last_bit(warehouse: Warehouse) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "amount"))
    table = warehouse.create_table(partition_spec=spec)
    values = [0.1, 0.1 + 2**-56, 1e300]
    for value in values:
        warehouse.append_files(table, 2, 3, values={"amount": value})
    assert sorted(partition.values for partition in inventory_of(table).partitions) == [(value,) for value in values]


@given(st.lists(st.integers(0, 100_000), max_size=60), st.sampled_from(["s3://b", "file:///t", "/t"]))
def test_manifests_are_fetched_in_order_whatever_their_sizes(lengths: list[int], root: str) -> None:
    infos = _listed(root, lengths)
    assert list(fetch_manifests(str.encode, infos)) == [info.path.encode() for info in infos]


@pytest.mark.parametrize(
    ("root", "seconds", "ahead"), [("/t", 0.0, False), ("file:///t", 0.15, True), ("s3://b", 0.0, True)]
)
def test_threads_fetch_manifests_from_slow_storage(root: str, seconds: float, ahead: bool) -> None:
    readers = []

    def read(path: str) -> bytes:
        if seconds:
            time.sleep(seconds)
        readers.append(threading.current_thread())
        return path.encode()

    infos = _listed(root, [100_000] * 6)
    assert list(fetch_manifests(read, infos)) == [info.path.encode() for info in infos]
    assert len(readers) == len(infos)
    assert any(reader is not threading.current_thread() for reader in readers) is ahead


def _listed(root: str, lengths: list[int]) -> list[ManifestInfo]:
    return [ManifestInfo(f"{root}/m{number}", length, 0, False, 1, 1, None) for number, length in enumerate(lengths)]


def delete_column(inventory: Inventory, name: str) -> list[Any]:
    values: list[Any] = inventory.delete_files[name].to_pylist()
    return values


def paths_of(inventory: Inventory) -> list[str]:
    """Returns the partition path of every data file."""
    return [inventory.partitions[number].path for number in column(inventory, "partition")]
