"""Sorts a table with tidyberg and with Iceberg's Java action: by a key, along the z-order curve and the Hilbert curve.

python -m benchmarks.sort
python -m benchmarks.sort --only sort --rows skewed
python -m benchmarks.sort --only sort --rows runs
python -m benchmarks.sort --only sort --rows added
python -m benchmarks.sort --only sort --rows claimed
python -m benchmarks.sort --only sort --gb 4 --worker-gb 1 --sides tidyberg
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace

from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform

from benchmarks.measure import BenchmarkError, Run, measure
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.two_sides import add_options, home_of
from benchmarks.warehouse import CODEC, Bench, RowSum, append_files
from tidyberg import app
from tidyberg.model.options import PlanOptions
from tidyberg.model.sizes import GB, MB
from tidyberg.model.table import TableRef
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SIDES = ("tidyberg-sort", "java-sort")
_COLUMN = "user_id"
_OF_SORTED_FILES = 5.0  # times faster than Java, which sorts everything
_NEW = 0.05  # of the files
_TABLE_BYTES = 470 * 1024 * 1024  # of the scenario "encode"
_WARM_UP_FILES = 100  # as many as the table has: workers and the JVM then have the memory that a sort takes


@dataclass(frozen=True)
class Layout:
    """A way to order the rows of the table."""

    name: str
    mode: str  # the kind and the columns
    times_faster: float  # than Java: the target


LAYOUTS = (
    Layout("sort", f"sort {_COLUMN}", 2.5),
    Layout("zorder", f"zorder {_COLUMN},event_time", 2.0),
    Layout("hilbert", f"hilbert {_COLUMN},event_time", 2.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--only", choices=[layout.name for layout in LAYOUTS], help="measure only this one")
    parser.add_argument("--sides", nargs="+", default=["tidyberg", "java"], help="tidyberg, java or both")
    parser.add_argument("--gb", type=float, help="the size of the table; 0.46 by default")
    parser.add_argument("--worker-gb", type=float, help="the most memory of a Python worker, its address space")
    parser.add_argument("--spark-shuffle", action="store_true", help="move rows by Spark's shuffle, as on a cluster")
    parser.add_argument(
        "--rows",
        choices=("skewed", "runs", "claimed", "added"),
        help="half of all rows have one key; every file is sorted by the key; every file also claims the order of the "
        "table, and tidyberg's compaction keeps it; 5 %% of the files came after a sort",
    )
    given = parser.parse_args()
    scenario = _scenario(given.gb, given.rows)
    failed = False
    with home_of(given.keep) as home:
        bench = _BENCHES.get(given.rows, Bench)(home / scenario.name, scenario)
        expected = bench.prepare()
        if given.only_build:
            return
        for layout in LAYOUTS:
            if given.only in (None, layout.name):
                settings = [f"memory={given.worker_gb}"] if given.worker_gb else []
                settings += ["session=yes"] if given.spark_shuffle else []
                settings += ["incremental=yes"] if given.rows == "added" else []
                settings += ["compact=yes"] if given.rows == "claimed" else []
                bench.scenario = replace(scenario, mode=" ".join([layout.mode, *settings]))
                runs = {}
                for side in given.sides:
                    try:
                        runs[side] = measure(f"{side}-sort", bench, given.threads, expected)
                    except BenchmarkError as error:
                        print(f"{layout.name} by {side} failed: {error}", file=sys.stderr)
                        failed = True
                is_sorted = given.rows in _BENCHES or given.rows == "runs"
                _report(replace(layout, times_faster=_OF_SORTED_FILES) if is_sorted else layout, runs)
    sys.exit(failed)


def _scenario(gb: float | None, rows: str | None) -> Scenario:
    scenario = replace(SCENARIOS["encode"], warm_up_files=_WARM_UP_FILES)
    if gb is not None:
        scenario = replace(scenario, name=f"sort-{gb:g}gb", files=round(scenario.files * gb * GB / _TABLE_BYTES))
    kind = {"added": scenario.rows, "claimed": "runs"}.get(rows or "", rows or scenario.rows)
    return replace(scenario, name=f"{scenario.name}-{rows or 'random'}", rows=kind)


class SortedBench(Bench):
    """A table that was sorted before the last files came. Only tidyberg may leave the others as they are."""

    keeps_files = True

    def build(self, warehouse: Warehouse, name: str, scenario: Scenario) -> RowSum:
        new = max(1, round(scenario.files * _NEW))
        expected = super().build(warehouse, name, scenario.with_files(scenario.files - new))
        settings = Settings.model_validate({"engine": "inline", "catalogs": {warehouse.name: warehouse.properties}})
        order = PlanOptions(sort=_COLUMN, force=True, target_file_size=scenario.target_mb * MB)
        with app.build_control(settings) as control:
            control.compact(TableRef.parse(name, warehouse.name), order)
        table = warehouse.catalog.load_table(name)
        numbers = range(scenario.files - new, scenario.files)
        return sum((rows for rows, _ in append_files(table, scenario, numbers)), expected)


class ClaimingBench(Bench):
    """A table with a sort order, of which every file claims to be in it."""

    def build(self, warehouse: Warehouse, name: str, scenario: Scenario) -> RowSum:
        table = warehouse.create_table(name, scenario.rows_of(0).schema, properties=CODEC)
        with table.update_sort_order() as update:
            update.asc(_COLUMN, IdentityTransform(), NullOrder.NULLS_FIRST)
        return sum((rows for rows, _ in append_files(table, scenario, range(scenario.files))), RowSum())


_BENCHES: dict[str | None, type[Bench]] = {"added": SortedBench, "claimed": ClaimingBench}


def _report(layout: Layout, runs: dict[str, Run]) -> None:
    for side, run in runs.items():
        print(
            f"{layout.name:8} {side:9} {run.seconds:7.2f} s {run.cpu_seconds:7.1f} CPU s, {run.outputs} files of "
            f"{run.bytes_written / run.outputs / 2**20:.0f} MB, tree {run.peak_bytes / GB:.2f} GB, "
            f"worker {run.worker_bytes / GB:.2f} GB {json.dumps(run.facts)}",
            flush=True,
        )
    if len(runs) == 2:
        ratio = runs["java"].seconds / runs["tidyberg"].seconds
        cpu = runs["java"].cpu_seconds / runs["tidyberg"].cpu_seconds
        print(
            f"{layout.name:8} {ratio:.2f} times as fast as Java (the target is {layout.times_faster}), "
            f"with 1/{cpu:.2f} of the CPU time",
            flush=True,
        )


if __name__ == "__main__":
    main()
