"""Plans are the same if tasks of the engine read the manifests and return only the entries that the plan needs."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable, Table

from tests.builders.events_table import REF
from tests.builders.inventories import BY_REGION, SCHEMA, inventory_of
from tests.builders.random_manifests import NOW, PATH_COLUMN, SNAPSHOTS, UNPARTITIONED, random_table
from tests.builders.scenes import UNORDERED
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


def random_options(random: Random) -> PlanOptions:
    return PlanOptions(
        strategy=random.choice(UNORDERED),
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


def test_a_delete_that_is_older_than_the_file_it_names_is_not_needed_by_it(tmp_path: Path) -> None:
    """Readers do not apply it, so the reader of a huge table's manifests only counts that file."""
    data = ForgedManifest([ForgedEntry("5.parquet", size=5_000, partition=("r1",), sequence_number=5)])
    older = ForgedEntry("d", content=1, partition=("r1",), sequence_number=2, values=NAMING)
    manifests = [data, ForgedManifest([older], content=1, sequence_number=2)]
    table = forge_static_table(tmp_path, manifests, schema=SCHEMA, specs=[BY_REGION], snapshots=SNAPSHOTS)
    options = PlanOptions(strategy=Strategy.DELETES_ONLY)
    assert reported(far_inventory(table, options)) == []
    assert plan_text(far_inventory(table, options), options) == plan_text(inventory_of(table), options)


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
