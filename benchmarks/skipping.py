"""Counts the files that Java's scans read of tables that tidyberg and Java have sorted and clustered.

The counts are those of Iceberg's own ScanReport. Both sides write the same rows with the same target size. A last
table has files of the right size that overlap eight deep, of which Java's sort rewrites none by default.

python -m benchmarks.skipping
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.java_scans import JavaScans, scanned_warehouse
from tidyberg import app
from tidyberg.model.options import PlanOptions, RewriteMode
from tidyberg.model.table import TableRef
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse, local_path

FILES, ROWS = 48, 25_000  # of a file
QUERIES = 60
TARGET = 320 * 1024
_PROPERTIES = {"write.metadata.metrics.default": "full"}
Rows = Callable[[np.random.Generator, int], pa.Table]


@dataclass(frozen=True)
class Case:
    """A table, the layouts of both sides, and the columns that queries filter by."""

    name: str
    rows: Rows
    own: dict[str, str]  # options of tidyberg
    java: str  # the sort order of Java's action
    columns: tuple[str, ...]
    at_most: float  # files that tidyberg's layout reads, of those that the other reads
    other: str = "java"  # or "before"


def numbers(drawn: np.random.Generator, rows: int, columns: int) -> pa.Table:
    names = "abc"[:columns]
    values = {name: drawn.integers(0, 10**9, rows) for name in names}
    return pa.table({**values, "payload": drawn.random(rows)})


def urls(drawn: np.random.Generator, rows: int) -> pa.Table:
    shop, item = drawn.integers(0, 200, rows), drawn.integers(0, 10**6, rows)
    pairs = zip(shop, item, strict=True)
    urls = [f"https://www.example.com/shops/{shop:03d}/items/{item:06d}" for shop, item in pairs]
    return pa.table({"url": urls, "at": drawn.integers(0, 10**9, rows), "payload": drawn.random(rows)})


def _two(drawn: np.random.Generator, rows: int) -> pa.Table:
    return numbers(drawn, rows, 2)


def _three(drawn: np.random.Generator, rows: int) -> pa.Table:
    return numbers(drawn, rows, 3)


CASES = (
    Case("a sort, against the unsorted table", _two, {"sort": "a"}, "a ASC NULLS FIRST", ("a",), 0.1, "before"),
    Case("Hilbert over 2 numbers", _two, {"hilbert": "a,b"}, "zorder(a,b)", ("a", "b"), 1.0),
    Case("Hilbert over 3 numbers", _three, {"hilbert": "a,b,c"}, "zorder(a,b,c)", ("a", "b", "c"), 1.0),
    Case("Hilbert over a URL and a number", urls, {"hilbert": "url,at"}, "zorder(url,at)", ("url", "at"), 1.0),
)


def predicates(case: Case, sample: pa.Table, drawn: np.random.Generator) -> list[list[tuple[str, str, Any]]]:
    """Draws lookups of values that exist, and narrow ranges: each by one column, in turn."""
    found = []
    for number in range(QUERIES):
        column = case.columns[number % len(case.columns)]
        values = sorted(sample[column].to_pylist())
        place = int(drawn.integers(0, len(values) - len(values) // 100))
        if number % 2:
            found.append([(column, "equal", values[place])])
        else:
            high = values[place + len(values) // 100]
            found.append([(column, "greaterThanOrEqual", values[place]), (column, "lessThan", high)])
    return found


def build(warehouse: Warehouse, name: str, rows: Rows, files: int = FILES) -> tuple[Table, pa.Table]:
    drawn = np.random.default_rng(7)
    pieces = [rows(drawn, ROWS) for _ in range(files)]
    table = warehouse.create_table(f"db.{name}", pieces[0].schema, properties=_PROPERTIES)
    warehouse.append_files(table, files, rows=pieces.__getitem__, files_per_commit=8)
    return table, pieces[0]


def compact(warehouse: Warehouse, name: str, **options: Any) -> None:
    settings = Settings.model_validate({"engine": "inline", "catalogs": {"lab": warehouse.properties}})
    with app.build_control(settings) as control:
        plan = PlanOptions(mode=RewriteMode.AUTO, **options)
        assert control.compact(TableRef("lab", ("db",), name), plan).outcome == "committed"


def measure_case(case: Case, number: int, warehouse: Warehouse, scans: JavaScans) -> bool:
    own, by_java = f"own{number}", f"java{number}"
    _, sample = build(warehouse, own, case.rows)
    build(warehouse, by_java, case.rows)
    asked = predicates(case, sample, np.random.default_rng(number))
    rows, before = scans.checksum(f"db.{own}"), scans.files_read(f"db.{own}", asked)
    files_before = scans.live_files(f"db.{own}")
    compact(warehouse, own, target_file_size=TARGET, **case.own)
    scans.sort(f"db.{by_java}", case.java, rewrite_all="true", target_file_size_bytes=str(TARGET))
    assert scans.checksum(f"db.{own}") == scans.checksum(f"db.{by_java}") == rows
    read = {name: scans.files_read(f"db.{name}", asked) for name in (own, by_java)}
    files = {name: scans.live_files(f"db.{name}") for name in (own, by_java)}
    shares = {"before": before / files_before, "java": read[by_java] / files[by_java]}
    share = read[own] / files[own]
    good = share <= case.at_most * shares[case.other] and files[own] >= 40
    print(
        f"{case.name}: {QUERIES} queries read {before / QUERIES:.1f} of {files_before} files before, "
        f"{read[own] / QUERIES:.2f} of {files[own]} after tidyberg ({share / QUERIES:.1%}), "
        f"{read[by_java] / QUERIES:.2f} of {files[by_java]} after Java's {case.java} "
        f"({shares['java'] / QUERIES:.1%}) {'' if good else '<-- not as it should be'}",
        flush=True,
    )
    return good


def measure_overlap(warehouse: Warehouse, scans: JavaScans) -> bool:
    """Files of the right size that overlap eight deep (iceberg #17489): Java's sort takes files by their size only."""
    runs, pieces = 8, 12

    def rows(drawn: np.random.Generator, count: int) -> pa.Table:
        return numbers(drawn, count, 2)

    def piece(number: int) -> pa.Table:
        drawn = np.random.default_rng(number)
        part = rows(drawn, ROWS)
        low = number % pieces * 1_000_000
        return part.set_column(0, "a", pa.array(drawn.integers(low, low + 1_000_000, ROWS)))

    left: dict[str, int] = {}
    for name in ("deep_own", "deep_java"):
        table = warehouse.create_table(f"db.{name}", piece(0).schema, properties=_PROPERTIES)
        warehouse.append_files(table, runs * pieces, rows=piece, files_per_commit=pieces)
    first = warehouse.live_files(warehouse.catalog.load_table("db.deep_own"))[0]
    size = Path(local_path(first.path)).stat().st_size
    asked = [[("a", "equal", int(value))] for value in np.random.default_rng(1).integers(0, 12_000_000, QUERIES)]
    before = scans.files_read("db.deep_own", asked)
    rewritten = scans.sort("db.deep_java", "a ASC NULLS FIRST", target_file_size_bytes=str(size))
    compact(warehouse, "deep_own", target_file_size=size, sort="a")
    left = {name: scans.files_read(f"db.{name}", asked) for name in ("deep_own", "deep_java")}
    print(
        f"right sizes, eight files deep: a lookup reads {before / QUERIES:.1f} files before, "
        f"{left['deep_own'] / QUERIES:.2f} after tidyberg, {left['deep_java'] / QUERIES:.2f} after Java, "
        f"which rewrote {rewritten} files",
        flush=True,
    )
    return left["deep_own"] * 4 < before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="of Spark")
    given = parser.parse_args()
    with scanned_warehouse(given.threads) as (warehouse, scans):
        good = [measure_case(case, number, warehouse, scans) for number, case in enumerate(CASES)]
        good.append(measure_overlap(warehouse, scans))
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
