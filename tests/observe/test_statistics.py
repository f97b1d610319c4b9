from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from tests.builders.events_table import REF
from tests.builders.inventories import BY_REGION, SCHEMA, inventory_of
from tidyberg.model.inventory import DATA_FILES, DELETE_FILES, Inventory, Partition, PartitionStatistics
from tidyberg.model.table import Pinned, SnapshotInfo
from tidyberg.observe.statistics import partition_statistics
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table

NOW = 1_000_000
SNAPSHOTS: list[dict[str, Any]] = [
    {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 100_000},
    {"snapshot-id": 2, "sequence-number": 2, "timestamp-ms": 200_000, "summary": {"operation": "replace"}},
    {"snapshot-id": 3, "sequence-number": 3, "timestamp-ms": 950_000},
    {"snapshot-id": 4, "sequence-number": 4, "timestamp-ms": 960_000},
]


def statistics_of(inventory: Inventory) -> dict[str, PartitionStatistics]:
    found = partition_statistics(inventory, small_file_threshold=100, hot_window_seconds=100, now_ms=NOW)
    assert [one.partition for one in found] == list(range(len(inventory.partitions)))
    return {inventory.partitions[one.partition].path: one for one in found}


def entry(path: str, region: str, snapshot: int, **more: Any) -> ForgedEntry:
    values = {"status": 0, "snapshot_id": snapshot, "sequence_number": snapshot, "file_sequence_number": snapshot}
    return ForgedEntry(path, partition=(region,), **{**values, **more})


def test_sizes_counts_and_small_files(tmp_path: Path) -> None:
    entries = [
        entry("a", "eu", 1, size=99, records=1),
        entry("b", "eu", 1, size=100, records=2),
        entry("c", "eu", 1, size=500, records=3),
        entry("d", "us", 1, size=7, records=4),
    ]
    table = forge_static_table(
        tmp_path, [ForgedManifest(entries, 4, 4)], schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS
    )
    eu = statistics_of(inventory_of(table))["region=eu"]
    assert (eu.files, eu.small_files, eu.bytes, eu.records) == (3, 1, 699, 6)
    assert (eu.delete_files, eu.deleted_rows, eu.fragment_ratio) == (0, 0, 0.0)


def test_a_replace_is_a_compaction_and_not_a_write(tmp_path: Path) -> None:
    entries = [entry("a", "eu", 1), entry("b", "eu", 2), entry("c", "us", 2), entry("d", "old", 77)]
    table = forge_static_table(
        tmp_path, [ForgedManifest(entries, 4, 4)], schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS
    )
    found = statistics_of(inventory_of(table))
    assert (found["region=eu"].last_write_ms, found["region=eu"].last_compaction_ms) == (100_000, 200_000)
    assert (found["region=us"].last_write_ms, found["region=us"].last_compaction_ms) == (None, 200_000)
    # Snapshot 77 was expired: nothing tells when.
    assert (found["region=old"].last_write_ms, found["region=old"].last_compaction_ms) == (None, None)


def test_recent_commits_are_distinct_snapshots_within_the_window(tmp_path: Path) -> None:
    data = [entry("a", "eu", 3), entry("b", "eu", 3), entry("c", "us", 1), entry("d", "us", 4)]
    deletes = [entry("e", "eu", 4, content=1)]
    manifests = [ForgedManifest(data, 4, 4), ForgedManifest(deletes, 4, 4, content=1)]
    table = forge_static_table(tmp_path, manifests, schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS)
    found = statistics_of(inventory_of(table))
    assert {path: one.recent_commits for path, one in found.items()} == {"region=eu": 2, "region=us": 1}


def test_the_edge_of_the_hot_window_is_outside(tmp_path: Path) -> None:
    table = forge_static_table(
        tmp_path, [ForgedManifest([entry("a", "eu", 3)], 4, 4)], schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS
    )
    inventory = inventory_of(table)
    for window, commits in ((50.0, 0), (50.001, 1)):
        found = partition_statistics(inventory, small_file_threshold=1, hot_window_seconds=window, now_ms=NOW)
        assert found[0].recent_commits == commits


def test_a_global_equality_delete_counts_where_an_older_file_lives(tmp_path: Path) -> None:
    by_region = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=1)
    data = [entry("a", "eu", 1), entry("b", "eu", 4), entry("c", "us", 3), entry("d", "asia", 4)]
    deletes = [
        ForgedEntry("e", 0, 5, content=2, snapshot_id=3, sequence_number=3, file_sequence_number=3,
                    values={"equality_ids": [1]}),
    ]  # fmt: skip
    manifests = [ForgedManifest(data, 4, 4, spec_id=1), ForgedManifest(deletes, 4, 4, spec_id=0, content=1)]
    table = forge_static_table(
        tmp_path, manifests, schema=SCHEMA, specs=[PartitionSpec(spec_id=0), by_region], snapshots=SNAPSHOTS
    )
    found = statistics_of(inventory_of(table))
    assert {path: one.delete_files for path, one in found.items()} == {
        "region=eu": 1, "region=us": 0, "region=asia": 0, "": 0,
    }  # fmt: skip
    assert (found["region=eu"].deleted_rows, found["region=eu"].fragment_ratio) == (5, 0.5)


def test_a_table_without_files_has_no_statistics(tmp_path: Path) -> None:
    table = forge_static_table(tmp_path, [], schema=SCHEMA)
    assert statistics_of(inventory_of(table)) == {}


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),  # partition
        st.integers(0, 300),  # size
        st.integers(0, 50),  # records
        st.integers(1, 6),  # sequence number and snapshot
    ),
    max_size=25,
)
DELETES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 6), st.booleans()), max_size=10)


@settings(max_examples=150, deadline=None)
@given(ROWS, DELETES, st.lists(st.sampled_from(["append", "replace", "overwrite"]), min_size=4, max_size=4))
def test_statistics_equal_a_loop_over_files(
    rows: list[tuple[int, int, int, int]], deletes: list[tuple[int, int, int, bool]], operations: list[str]
) -> None:
    # Snapshots 5 and 6 are expired.
    snapshots = {
        number: SnapshotInfo(number, None, number, number * 1000, operation)
        for number, operation in enumerate(operations, 1)
    }
    inventory = _inventory(rows, deletes, snapshots)
    found = partition_statistics(inventory, small_file_threshold=100, hot_window_seconds=2, now_ms=4500)
    for number, one in enumerate(found):
        data = [row for row in rows if row[0] == number]
        oldest = min((row[3] for row in data), default=99)
        mine = [row for row in deletes if (oldest < row[2] if row[3] else row[0] == number)]
        writers = {row[3] for row in data} | {row[2] for row in mine}
        known = [snapshots[writer] for writer in writers if writer in snapshots]
        expected = PartitionStatistics(
            partition=number,
            files=len(data),
            small_files=sum(row[1] < 100 for row in data),
            bytes=sum(row[1] for row in data),
            records=sum(row[2] for row in data),
            delete_files=len(mine),
            deleted_rows=sum(row[1] for row in mine),
            fragment_ratio=len(mine) / max(len(data), 1),
            last_write_ms=max((one.timestamp_ms for one in known if one.operation != "replace"), default=None),
            last_compaction_ms=max((one.timestamp_ms for one in known if one.operation == "replace"), default=None),
            recent_commits=sum(one.timestamp_ms > 2500 and one.operation != "replace" for one in known),
        )
        assert one == expected


def _inventory(
    rows: list[tuple[int, int, int, int]],
    deletes: list[tuple[int, int, int, bool]],
    snapshots: dict[int, SnapshotInfo],
) -> Inventory:
    pinned = Pinned(
        table=REF, uuid="", location="", metadata_location="", format_version=2, branch="main", snapshot_id=4,
        sequence_number=4, timestamp_ms=4000, schema=SCHEMA, specs={0: BY_REGION}, default_spec_id=0,
        sort_order_id=0, properties={}, snapshots=snapshots,
    )  # fmt: skip
    data_files = [
        {"path": str(n), "format": "PARQUET", "size": size, "records": records, "spec_id": 0, "partition": partition,
         "sequence_number": sequence, "file_sequence_number": sequence, "snapshot_id": sequence, "manifest": 0,
         "encrypted": False}
        for n, (partition, size, records, sequence) in enumerate(rows)
    ]  # fmt: skip
    delete_files = [
        {"path": f"d{n}", "format": "PARQUET", "size": 1, "records": records, "kind": "equality",
         "scope": "global" if everywhere else "partition", "spec_id": 0, "partition": partition,
         "sequence_number": sequence, "file_sequence_number": sequence, "snapshot_id": sequence, "manifest": 0}
        for n, (partition, records, sequence, everywhere) in enumerate(deletes)
    ]  # fmt: skip
    return Inventory(
        pinned,
        [Partition(0, (str(n),), f"region={n}") for n in range(4)],
        [],
        pa.Table.from_pylist(data_files, DATA_FILES),
        pa.Table.from_pylist(delete_files, DELETE_FILES),
    )
