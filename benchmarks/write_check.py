"""Measures WRITE with and without the opportunistic check.

    python -m benchmarks.write_check [--writes 300]

Two tables in one directory take the same records, in turns. One checks after every write, which is the worst case; the
seeds check every fifth one. The other one never checks. Prints both latencies, and the time of the check alone.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load import quantiles
from tidyberg.app import build_control, table_operations
from tidyberg.operations.operations import TableOperations
from tidyberg.operations.small_files import check_after_write
from tidyberg.settings.operations import IcebergCompaction
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SCHEMA = {"fields": {"name": {"type": "string", "required": True}, "age": {"type": "integer"}}}
WARM_UP = 10


def operations(directory: Path, lake: Warehouse, **compaction: Any) -> TableOperations:
    values = {
        "engine": "inline",
        "catalog": lake.properties,
        "store": {"path": str(directory / "jobs.db")},
        "iceberg": {"compaction": compaction},
    }
    settings = Settings.model_validate(values)
    return table_operations(settings, build_control(settings))


def write(operations: TableOperations, table: str, number: int) -> float:
    body = {"tenant_id": "bench", "namespace": "default", "table": table, "operation": "WRITE",
            "records": [{"name": f"User-{number}", "age": number}]}  # fmt: skip
    began = time.perf_counter()
    answer = operations.handle(body, None)
    assert answer.status == 200, answer.body
    return time.perf_counter() - began


def measure(directory: Path, writes: int) -> dict[str, Any]:
    with Warehouse(directory / "lake", name="default") as lake:
        variants = {
            "with_check": operations(directory, lake, opportunistic_check_interval=1),
            "without_check": operations(directory, lake, enabled=False),
        }
        times: dict[str, list[float]] = {name: [] for name in variants}
        for name, each in variants.items():
            each.handle({"operation": "CREATE_TABLE", "tenant_id": "bench", "table": name, "schema": SCHEMA}, None)
        for number in range(writes + WARM_UP):
            # The order changes with every write, so that neither variant always follows the other.
            for name in sorted(variants, reverse=bool(number % 2)):
                seconds = write(variants[name], name, number)
                if number >= WARM_UP:
                    times[name].append(seconds)
        table = lake.catalog.load_table(("tenant_bench__default", "with_check"))
        settings = IcebergCompaction(opportunistic_check_interval=1)
        checks = []
        for _ in range(100):
            began = time.perf_counter()
            assert check_after_write(table.metadata, settings).small_files == writes + WARM_UP
            checks.append(time.perf_counter() - began)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for each in variants.values():
            each.control.close()
    return {
        "writes": writes,
        "milliseconds": {name: quantiles(values) for name, values in times.items()},
        "check_alone_ms": round(statistics.median(checks) * 1000, 4),
        "check_share_of_a_write_percent": round(100 * statistics.median(checks) / medians["without_check"], 2),
        "added_to_the_median_percent": round(100 * (medians["with_check"] / medians["without_check"] - 1), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(Path(directory), arguments.writes), indent=2))


if __name__ == "__main__":
    main()
