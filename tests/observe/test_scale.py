"""Inventories stay cheap as tables grow; benchmarks/observe.py has the figures."""

import time
from pathlib import Path

from tests.observe.builders import inventory_of
from tidyberg.observe.statistics import partition_statistics
from tidyberg.testing import Warehouse, forge_table


def test_ten_thousand_files_take_less_than_a_second_of_one_core(tmp_path: Path) -> None:
    with Warehouse(tmp_path) as warehouse:
        table = forge_table(warehouse, "db.events", 10_000, partitions=500, manifests=5)
    started = time.process_time()
    inventory = inventory_of(table)
    statistics = partition_statistics(inventory, small_file_threshold=2**25, hot_window_seconds=60, now_ms=0)
    assert time.process_time() - started < 1.0
    assert inventory.data_files.num_rows == 10_000
    assert [one.files for one in statistics] == [20] * 500
    assert inventory.data_files.nbytes < 10_000 * 300
