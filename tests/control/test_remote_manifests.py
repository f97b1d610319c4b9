"""Plans are the same if tasks of the engine read the manifests and return only the entries that the plan needs."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StructType

from tests.builders.events_table import REF
from tests.builders.inventories import BY_REGION, SCHEMA, inventory_of
from tidyberg.control import remote_manifests
from tidyberg.control.remote_manifests import counting_rule, reading_on
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.inventory import Inventory
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.pin import pin
from tidyberg.observe.reading import RemoteReader
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.planning.document import plan_to_json
from tidyberg.testing import ForgedEntry, ForgedManifest, forge_static_table

NOW = 10_000_000
BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=1)
UNPARTITIONED = PartitionSpec(spec_id=2)
PROMOTED = StructType(NestedField(1000, "id", IntegerType(), required=False))  # ids were ints when it was written
VALUES: dict[int, Sequence[tuple[Any, ...]]] = {
    0: ((None,), ("null",), ("r1",), ("r2",)),
    1: ((None,), (1,), (2,)),
    2: ((),),
}
SNAPSHOTS = [
    {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": NOW - 1_000 * age,
        "summary": {"operation": what},
    }
    for number, age, what in ((2, 9_000, "append"), (3, 5_000, "replace"), (4, 900, "append"), (5, 100, "append"))
]
PATH_COLUMN = 2147483546


def random_manifest(random: Random, number: int, specs: Sequence[int], version: int) -> ForgedManifest:
    spec_id = random.choice(specs)
    entries = [
        ForgedEntry(
            f"{number}-{n}.parquet",
            status=random.choice((0, 1, 1, 2)),
            records=random.choice((0, 10, 1_000)),
            size=random.choice((50, 400, 750, 900, 1_000, 1_800, 1_801, 5_000)),
            partition=random.choice(VALUES[spec_id]),
            snapshot_id=random.choice((1, 2, 3, 4, 5)),
            sequence_number=random.randint(1, 5),
            file_sequence_number=random.randint(1, 5),
            values={"first_row_id": random.choice((None, 77))} if version == 3 else {},
        )
        for n in range(random.randint(0, 12))
    ]
    return ForgedManifest(
        entries,
        sequence_number=random.randint(1, 5),
        spec_id=spec_id,
        first_row_id=random.choice((None, 1_000)) if version == 3 else None,
        partition_type=PROMOTED if spec_id == 1 and random.random() < 0.5 else None,
    )


def random_deletes(random: Random, number: int, specs: Sequence[int], version: int) -> ForgedManifest:
    spec_id = random.choice(specs)
    entries = []
    for n in range(random.randint(1, 4)):
        named = f"{random.randrange(4)}-{random.randrange(12)}.parquet"
        kind = random.choice(("equality", "partition", "bounds", "referenced"))
        content = 1
        values: dict[str, Any] = {}
        if kind == "equality":
            content, values = 2, {"equality_ids": [1]}
        elif kind == "bounds":
            values = {bound: {PATH_COLUMN: named.encode()} for bound in ("lower_bounds", "upper_bounds")}
        elif kind == "referenced" and version == 3:
            values = {"referenced_data_file": named, "file_format": "PUFFIN", "content_offset": 4}
        entries.append(
            ForgedEntry(
                f"d{number}-{n}.parquet",
                content=content,
                partition=random.choice(VALUES[spec_id]),
                sequence_number=random.choice((None, 2, 4)),
                file_sequence_number=random.choice((None, 2, 4)),
                values=values,
            )
        )
    return ForgedManifest(
        entries,
        sequence_number=random.randint(1, 5),
        spec_id=spec_id,
        content=1,
        partition_type=PROMOTED if spec_id == 1 and random.random() < 0.5 else None,
    )


def random_table(random: Random, directory: Path) -> StaticTable:
    version = random.choice((2, 2, 3))
    specs = random.choice(((0,), (1,), (0, 1), (0, 1, 2)))
    manifests = [random_manifest(random, number, specs, version) for number in range(random.randint(1, 6))]
    manifests += [random_deletes(random, number, specs, version) for number in range(random.choice((0, 0, 1, 2)))]
    random.shuffle(manifests)
    known = [spec for spec in (BY_REGION, BY_ID, UNPARTITIONED) if spec.spec_id in specs]
    return forge_static_table(
        directory, manifests, schema=SCHEMA, specs=known, format_version=version, snapshots=SNAPSHOTS
    )


def random_options(random: Random) -> PlanOptions:
    return PlanOptions(
        strategy=random.choice(list(Strategy)),
        where=random.choice((None, None, "region = 'r1'", "id >= 2", "region is null")),
        force=random.random() < 0.3,
        rewrite_to_current_spec=random.random() < 0.3,
        target_file_size=1_000,
        small_file_threshold=random.choice((100, 700, 2_000)),
        min_input_files=random.choice((1, 2, 5)),
        max_files=random.choice((None, None, 7)),
        max_file_count_per_partition=random.choice((2, 100)),
        max_delete_ratio=random.choice((0.0, 0.1, 0.5)),
        hot_window_seconds=random.choice((1, 600)),
        hot_commits=random.choice((1, 2)),
    )


def far_inventory(table: Table, options: PlanOptions, cache: ManifestCache | None = None) -> Inventory:
    """As a plan under these options sees the table when tasks read its manifests, two in each."""
    pinned = pin(table, REF)
    remote = RemoteReader(0, reading_on(InlineEngine, table.io), counting_rule(pinned, options, NOW))
    with patch.object(remote_manifests, "_TASK_MANIFESTS", 2):
        return take_inventory(table, pinned, cache, remote)


def plan_text(inventory: Inventory, options: PlanOptions) -> str:
    statistics = partition_statistics(
        inventory,
        small_file_threshold=options.small_file_threshold,
        hot_window_seconds=options.hot_window_seconds,
        now_ms=NOW,
    )
    return f"{statistics}\n{plan_to_json(make_plan(inventory, statistics, options, now_ms=NOW))}"


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_plan_is_the_same_when_what_it_cannot_take_is_only_counted(random: Random) -> None:
    with TemporaryDirectory() as directory:
        table = random_table(random, Path(directory))
        whole = inventory_of(table)
        for options in [random_options(random) for _ in range(3)]:
            assert plan_text(far_inventory(table, options), options) == plan_text(whole, options)


def table_of(directory: Path, sizes: Sequence[int], *deletes: ForgedEntry) -> StaticTable:
    entries = [ForgedEntry(f"{n}.parquet", size=size, partition=(f"r{n % 4}",)) for n, size in enumerate(sizes)]
    manifests = [ForgedManifest(entries[start : start + 10]) for start in range(0, len(entries), 10)]
    if deletes:
        manifests.append(ForgedManifest(deletes, content=1, sequence_number=2))
    return forge_static_table(directory, manifests, schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS)


def reported(inventory: Inventory) -> list[str]:
    return sorted(inventory.data_files["path"].to_pylist())


def test_files_of_the_right_size_are_counted_and_not_listed(tmp_path: Path) -> None:
    sizes = [10 if n % 10 == 0 else 1_000 + n for n in range(100)]
    inventory = far_inventory(table_of(tmp_path, sizes), PlanOptions(target_file_size=1_000))
    assert reported(inventory) == sorted(f"{n}.parquet" for n in range(0, 100, 10))
    assert sum(inventory.counted_files["files"].to_pylist()) == 90
    assert sum(inventory.counted_files["bytes"].to_pylist()) == sum(size for size in sizes if size > 10)
    assert inventory.counted_files.num_rows == 4  # partitions, of one snapshot


def test_files_that_are_only_counted_may_need_a_delete_for_all_partitions(tmp_path: Path) -> None:
    """Otherwise a minor compaction of some partitions would merge the delete, which has to stay, again and again."""
    data = ForgedManifest([ForgedEntry(f"{n}.parquet", partition=(f"r{n}",), sequence_number=1) for n in (1, 2)])
    keys = ForgedEntry("d", content=2, sequence_number=2, values={"equality_ids": [1]})
    deletes = ForgedManifest([keys], content=1, sequence_number=2, spec_id=2)
    specs = [BY_REGION, UNPARTITIONED]
    table = forge_static_table(
        tmp_path, [data, deletes], schema=SCHEMA, specs=specs, format_version=3, snapshots=SNAPSHOTS
    )
    options = PlanOptions(strategy=Strategy.DELETES_ONLY, where="region = 'r1'")
    inventory = far_inventory(table, options)
    assert reported(inventory) == ["1.parquet"]
    assert plan_text(inventory, options) == plan_text(inventory_of(table), options)


NAMING = {bound: {PATH_COLUMN: b"5.parquet"} for bound in ("lower_bounds", "upper_bounds")}
OF_R1 = [f"{n}.parquet" for n in range(1, 100, 4)]


@pytest.mark.parametrize(
    ("delete", "expected"),
    [
        (ForgedEntry("d", content=1, partition=("r1",)), OF_R1),
        (ForgedEntry("d", content=2, partition=("r1",)), OF_R1),
        (ForgedEntry("d", content=1, partition=("r1",), values=NAMING), ["5.parquet"]),
        (ForgedEntry("d", content=1, partition=("r9",)), []),
    ],
    ids=["positions of a partition", "keys of a partition", "positions of one file", "another partition"],
)
def test_files_that_a_delete_may_apply_to_are_listed(tmp_path: Path, delete: ForgedEntry, expected: list[str]) -> None:
    table = table_of(tmp_path, [1_000] * 100, delete)
    assert reported(far_inventory(table, PlanOptions(target_file_size=1_000))) == sorted(expected)


def test_files_of_partitions_that_are_not_asked_for_are_counted_whatever_their_size(tmp_path: Path) -> None:
    inventory = far_inventory(
        table_of(tmp_path, [10] * 100), PlanOptions(where="region = 'r2'", target_file_size=1_000)
    )
    assert reported(inventory) == sorted(f"{n}.parquet" for n in range(2, 100, 4))
    assert sum(inventory.counted_files["files"].to_pylist()) == 75


def test_manifests_that_were_only_counted_are_never_cached(tmp_path: Path) -> None:
    table, cache = table_of(tmp_path, [1_000] * 20), ManifestCache()
    assert far_inventory(table, PlanOptions(target_file_size=1_000), cache).data_files.num_rows == 0
    assert inventory_of(table, cache=cache).data_files.num_rows == 20


def test_a_manifest_that_is_listed_twice_counts_twice_as_ever(tmp_path: Path) -> None:
    table = table_of(tmp_path, [1_000] * 20)
    options = PlanOptions(target_file_size=1_000)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    listed = read_manifest_list(table.io, snapshot.manifest_list)
    with patch("tidyberg.observe.inventory.read_manifest_list", return_value=[*listed, listed[0]]):
        assert plan_text(far_inventory(table, options), options) == plan_text(inventory_of(table), options)
