"""Cuts only the files that straddle the bounds of known ranges, and compares that with sorting the whole table.

Rows arrive nearly in order of time, and some of them late. Queries ask for the ranges between known points in time.
Three equal tables are rewritten: by tidyberg at these boundaries, by tidyberg's full sort, and by Java's full sort. The
files that the ranges read are counted by Iceberg's own ScanReport. tidyberg runs in this process, Java in a Spark
session that is warm.

python -m benchmarks.boundaries
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.java_scans import JavaScans, Predicate, ScanTotals, scanned_warehouse
from benchmarks.skipping import compact
from tidyberg.model.sizes import MB, format_size
from tidyberg.testing import Warehouse

FILES, ROWS = 96, 60_000  # of a file, which holds half a day
FIRST = datetime(2026, 9, 1)  # noqa: DTZ001  # a wall clock
SPAN = timedelta(hours=12)
LATE_SHARE, LATE_BY = 0.1, timedelta(hours=36)
DAYS_BETWEEN = 4
TABLES = ("cut", "own_sort", "java_sort")


@dataclass(frozen=True)
class Rewritten:
    """One way of rewriting the table, and what queries read afterwards."""

    name: str
    seconds: float
    cpu_seconds: float
    bytes: int
    files: int
    reads: ScanTotals


def rows(number: int) -> pa.Table:
    """The rows of half a day in the order of their arrival. Some of them are from the days before."""
    drawn = np.random.default_rng(number)
    begin = np.datetime64(FIRST) + np.timedelta64(SPAN) * number
    times = begin + np.sort(drawn.integers(0, SPAN // timedelta(microseconds=1), ROWS)).astype("m8[us]")
    late = drawn.random(ROWS) < LATE_SHARE
    times[late] -= drawn.integers(0, LATE_BY // timedelta(microseconds=1), int(late.sum())).astype("m8[us]")
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "user": drawn.integers(0, 100_000, ROWS),
            "amount": drawn.random(ROWS),
            "note": pa.array(drawn.integers(0, 10**6, ROWS)).cast(pa.string()),
        }
    )


def boundaries() -> list[datetime]:
    days = FILES * SPAN // timedelta(days=1)
    return [FIRST + timedelta(days=day) for day in range(DAYS_BETWEEN, days, DAYS_BETWEEN)]


def ranges() -> list[Predicate]:
    """The queries: all rows between two neighbouring boundaries."""
    ends = [one.isoformat() for one in boundaries()]
    return [[("ts", "greaterThanOrEqual", low), ("ts", "lessThan", high)] for low, high in pairwise(ends)]


def build(warehouse: Warehouse, name: str, files: int = FILES) -> None:
    table = warehouse.create_table(f"db.{name}", rows(0).schema)
    warehouse.append_files(table, files, rows=rows, files_per_commit=24)


def measured(
    name: str, table: str, rewrite: Callable[[], object], cpu: Callable[[], float], lab: tuple[Warehouse, JavaScans]
) -> Rewritten:
    warehouse, scans = lab
    loaded = warehouse.catalog.load_table(f"db.{table}")
    before = {file.path for file in warehouse.live_files(loaded)}
    sizes = {task.file.file_path: task.file.file_size_in_bytes for task in loaded.scan().plan_files()}
    started, cpu_started = time.perf_counter(), cpu()
    rewrite()
    seconds, cpu_seconds = time.perf_counter() - started, cpu() - cpu_started
    left = {file.path for file in warehouse.live_files(loaded.refresh())}
    rewritten = sum(sizes[path] for path in before - left)
    return Rewritten(name, seconds, cpu_seconds, rewritten, len(left), scans.reads(f"db.{table}", ranges()))


def cpu_of(session: Any) -> Callable[[], float]:
    """Returns a clock of the CPU seconds of Java's process."""
    stat = Path(f"/proc/{session._jvm.java.lang.ProcessHandle.current().pid()}/stat")
    ticks = os.sysconf("SC_CLK_TCK")
    return lambda: sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13])) / ticks


def report(before: ScanTotals, files: int, found: list[Rewritten]) -> None:
    queries = len(ranges())
    print("| | seconds | CPU seconds | rewritten | files | files read per range | read per range |")
    print("|---|---|---|---|---|---|---|")
    print(f"| before | | | | {files} | {before.files / queries:.1f} | {format_size(before.bytes // queries)} |")
    for one in found:
        print(
            f"| {one.name} | {one.seconds:.1f} | {one.cpu_seconds:.1f} | {format_size(one.bytes)} | {one.files} | "
            f"{one.reads.files / queries:.1f} | {format_size(one.reads.bytes // queries)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="of Spark")
    given = parser.parse_args()
    asked = ", ".join(one.date().isoformat() for one in boundaries())
    with scanned_warehouse(given.threads) as lab:
        warehouse, scans = lab
        for name in TABLES:
            build(warehouse, name)
        size = sum(task.file.file_size_in_bytes for task in warehouse.catalog.load_table("db.cut").scan().plan_files())
        target = size // FILES
        for name in ("warm_own", "warm_java"):
            build(warehouse, name, 4)
        compact(warehouse, "warm_own", target_file_size=MB, sort="ts")
        scans.sort("db.warm_java", "ts ASC NULLS FIRST", rewrite_all="true", target_file_size_bytes=str(MB))
        checksum, before = scans.checksum("db.cut"), scans.reads("db.cut", ranges())
        own: dict[str, Any] = {"target_file_size": target, "sort": "ts"}
        found = [
            measured(
                f"tidyberg, cut at {len(boundaries())} boundaries",
                "cut",
                lambda: compact(warehouse, "cut", **own, boundaries=asked),
                time.process_time,
                lab,
            ),
            measured(
                "tidyberg, full sort",
                "own_sort",
                lambda: compact(warehouse, "own_sort", **own, force=True),
                time.process_time,
                lab,
            ),
            measured(
                "Java, full sort",
                "java_sort",
                lambda: scans.sort(
                    "db.java_sort", "ts ASC NULLS FIRST", rewrite_all="true", target_file_size_bytes=str(target)
                ),
                cpu_of(scans.session),
                lab,
            ),
        ]
        assert {scans.checksum(f"db.{name}") for name in TABLES} == {checksum}
    print(f"{FILES} files, {format_size(size)}, boundaries {asked}")
    report(before, FILES, found)
    cut, own_sort, java_sort = found
    good = cut.bytes * 2 < own_sort.bytes and cut.reads.files <= 1.1 * java_sort.reads.files
    sys.exit(not good)


if __name__ == "__main__":
    main()
