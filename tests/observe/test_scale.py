"""Inventories stay cheap as tables grow; benchmarks/planning.py has the figures."""

from functools import partial
from pathlib import Path

from pyiceberg.table import Table

from tests.builders.inventories import inventory_of
from tests.timing import cpu_of
from tidyberg.manifests.entries import read_entries
from tidyberg.model.options import PlanOptions
from tidyberg.observe.statistics import partition_statistics
from tidyberg.planning.decide import make_plan
from tidyberg.testing import Warehouse, forge_table, local_path


def test_an_inventory_of_ten_thousand_files_takes_few_bytes_a_file(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        table = forge_table(warehouse, "db.events", 10_000, partitions=500, manifests=5)
    inventory = inventory_of(table)
    statistics = partition_statistics(inventory, small_file_threshold=2**25, hot_window_seconds=60, now_ms=0)
    assert inventory.data_files.num_rows == 10_000
    assert [one.files for one in statistics] == [20] * 500
    assert inventory.data_files.nbytes < 10_000 * 300


def test_reading_and_planning_grow_with_the_number_of_files_and_no_faster(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        tables = [
            forge_table(warehouse, f"db.t{files}", files, partitions=files // 100, manifests=files // 500)
            for files in (4_000, 40_000)
        ]
    few, many = (cpu_of(partial(_plan, table)) for table in tables)
    assert many < 20 * few


def test_a_thousand_manifests_cost_little_more_than_their_entries_in_one(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        one, each = (forge_table(warehouse, f"db.t{count}", 1_000, manifests=count) for count in (1, 1_000))
    files = [[(str(path), path.read_bytes(), False) for path in _manifests(table)] for table in (one, each)]
    together, apart = (cpu_of(partial(_read, held), times=3) for held in files)
    # One by one, a thousand manifests took seventeen times as long as their entries in one.
    assert apart < 2 * together
    together, apart = (cpu_of(partial(inventory_of, table), times=3) for table in (one, each))
    assert apart < 3 * together


def _plan(table: Table) -> None:
    inventory = inventory_of(table)
    statistics = partition_statistics(inventory, small_file_threshold=2**25, hot_window_seconds=60, now_ms=0)
    assert make_plan(inventory, statistics, PlanOptions(), now_ms=0).groups


def _read(held: list[tuple[str, bytes, bool]]) -> None:
    assert list(read_entries(held))


def _manifests(table: Table) -> list[Path]:
    return sorted((Path(local_path(table.location())) / "metadata").glob("forged-*.avro"))
