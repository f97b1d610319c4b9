"""How long an inventory takes and how much memory, from a thousand files to a million.

    python benchmarks/observe.py [files ...]

Each line is a fresh process on a forged table (20 columns with metrics, the files named without existing), so
that the peak of one does not hide in another's. Imports are timed apart; the second inventory is from the cache.
CPU seconds stand beside wall seconds for machines that are busy with other things.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

DEFAULT = (1_000, 10_000, 100_000)
SHAPES = ((0, 1), (0, 10), (1_000, 10))  # partitions, manifests
COLUMNS = (
    "files", "partitions", "manifests", "inventory", "its CPU", "cached", "statistics",
    "import CPU", "RSS before", "RSS peak",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=int, default=DEFAULT)
    parser.add_argument("--one", nargs=2, metavar=("DIRECTORY", "TABLE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one)))
        return
    print("  ".join(f"{name:>13}" for name in COLUMNS))
    with tempfile.TemporaryDirectory() as directory:
        for files in arguments.files:
            for partitions, manifests in (*SHAPES, *(((10, files),) if files <= 1_000 else ())):
                report(directory, files, partitions, manifests)


def report(directory: str, files: int, partitions: int, manifests: int) -> None:
    table = f"bench.t{files}_{partitions}_{manifests}"
    forge(directory, table, files, partitions, manifests)
    command = [sys.executable, __file__, "--one", directory, table]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["files"] == files, found
    cells = [f"{files:,}", f"{partitions:,}", f"{manifests:,}"]
    cells += [f"{found[name]:.3f} s" for name in ("wall", "cpu", "cached", "statistics", "imports")]
    cells += [f"{found[name] / 1024:,.0f} MB" for name in ("before", "peak")]
    print("  ".join(f"{cell:>13}" for cell in cells), flush=True)


def forge(directory: str, table: str, files: int, partitions: int, manifests: int) -> None:
    from tidyberg.testing import Warehouse, forge_table

    with Warehouse(directory) as warehouse:
        forge_table(warehouse, table, files, partitions=partitions, manifests=manifests)


def measure(directory: str, name: str) -> dict[str, Any]:
    from pyiceberg.catalog.sql import SqlCatalog

    from tidyberg.model.table import TableRef
    from tidyberg.observe.cache import ManifestCache
    from tidyberg.observe.inventory import take_inventory
    from tidyberg.observe.pin import pin
    from tidyberg.observe.statistics import partition_statistics

    properties = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}
    table = SqlCatalog("lab", **properties).load_table(name)
    imports = time.process_time()
    before = peak_kilobytes()
    reference = TableRef.parse(name, "lab")
    cache = ManifestCache(ttl_seconds=600, max_bytes=2**30)
    started, started_cpu = time.perf_counter(), time.process_time()
    inventory = take_inventory(table, pin(table, reference), cache)
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    peak = peak_kilobytes()
    started = time.perf_counter()
    take_inventory(table, pin(table, reference), cache)
    cached = time.perf_counter() - started
    started = time.perf_counter()
    partition_statistics(inventory, small_file_threshold=2**25, hot_window_seconds=600, now_ms=int(time.time() * 1000))
    return {
        "files": inventory.data_files.num_rows,
        "wall": wall,
        "cpu": cpu,
        "cached": cached,
        "statistics": time.perf_counter() - started,
        "imports": imports,
        "before": before,
        "peak": peak,
    }


def peak_kilobytes() -> int:
    """Of this program alone: getrusage would begin with the peak of the process that started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
