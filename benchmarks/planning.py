"""Measures the time and memory of a plan, from a thousand files to a million.

    python -m benchmarks.planning [files ...] [--publish] [--shape NAME] [--spark MASTER]

It makes the plan as `tidyberg plan` does: loads and pins the table, reads manifests, judges every partition, hashes the
document. Each line is a fresh process, so that one peak cannot hide another. The tables are forged: they have 20
columns with metrics, and their data files do not exist. CPU seconds are shown too, for busy machines. "Whole process"
includes the start of the interpreter and the imports. With `--spark`, Spark tasks read the manifests. Results go to
bench-results/planning.json; `--publish` copies them into docs/.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.plot import line_plot

DEFAULT = (1_000, 10_000, 100_000, 1_000_000)
RESULTS = Path("bench-results") / "planning.json"
DOCS = Path(__file__).parent.parent / "docs" / "performance"
_PER_MANIFEST = 8_000  # about the number of entries in Java's manifests of 8 MB
_MOST_ONE_ENTRY = 10_000


@dataclass(frozen=True)
class Shape:
    name: str
    partitions: int
    manifests: int
    deletes: int = 0
    small_every: int = 1


def shapes(files: int, named: str) -> list[Shape]:
    manifests = max(1, files // _PER_MANIFEST)
    found = [
        Shape("unpartitioned", 0, manifests),
        Shape("10 files a partition", files // 10, manifests),
        Shape("1,000 files a partition", max(1, files // 1_000), manifests),
        Shape("with a position delete file for every fifth", max(1, files // 1_000), manifests, files // 5),
        Shape("one in a hundred too small", max(1, files // 1_000), manifests, small_every=101),
    ]
    if files <= _MOST_ONE_ENTRY:
        found.append(Shape("a manifest for every file", max(1, files // 1_000), files))
    return [shape for shape in found if named in shape.name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=int, default=DEFAULT)
    parser.add_argument("--publish", action="store_true", help="renew docs/performance/planning.svg")
    parser.add_argument("--shape", help="only shapes whose name has this")
    parser.add_argument("--spark", metavar="MASTER", help="where tasks read the manifests, such as local[2]")
    parser.add_argument("--one", nargs=2, metavar=("DIRECTORY", "TABLE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        directory, name = arguments.one
        print(json.dumps(measure(directory, name, arguments.spark)))
        return
    rows: list[dict[str, Any]] = []
    for files in arguments.files:
        for shape in shapes(files, arguments.shape or ""):
            rows.append(one_process(files, shape, arguments.spark))
            print(json.dumps(rows[-1]), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    if arguments.publish:
        DOCS.mkdir(exist_ok=True)
        (DOCS / "planning.svg").write_text(plot(rows))


def one_process(files: int, shape: Shape, spark: str | None) -> dict[str, Any]:
    from tidyberg.testing import Warehouse, forge_table

    with tempfile.TemporaryDirectory() as directory:
        with Warehouse(directory) as warehouse:
            forge_table(
                warehouse,
                "bench.t",
                files,
                partitions=shape.partitions,
                manifests=shape.manifests,
                position_deletes=shape.deletes,
                small_every=shape.small_every,
            )
        command = [sys.executable, "-m", "benchmarks.planning", "--one", directory, "bench.t"]
        command += ["--spark", spark] if spark else []
        # Keep the bytecode, as an installation does: compiling it every time would distort the start.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        started = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, env=environment)
        whole = time.perf_counter() - started
    found = json.loads(done.stdout)
    assert found.pop("files") == files, found
    return {"files": files, **asdict(shape), **found, "whole_process": round(whole, 3)}


def measure(directory: str, name: str, spark: str | None) -> dict[str, Any]:
    import pyiceberg.io.pyarrow  # noqa: F401 - at start-up, not with the first table
    import sqlalchemy.dialects.sqlite  # noqa: F401
    from pyiceberg.catalog.sql import SqlCatalog

    from tidyberg.control.remote_manifests import counting_rule, reading_on
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.model.options import PlanOptions
    from tidyberg.model.table import TableRef
    from tidyberg.observe.inventory import take_inventory
    from tidyberg.observe.pin import pin
    from tidyberg.observe.reading import RemoteReader
    from tidyberg.observe.statistics import partition_statistics
    from tidyberg.planning.decide import make_plan

    properties = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}
    catalog = SqlCatalog("lab", **properties)
    options = PlanOptions()
    engine = SparkEngine(spark) if spark else None
    if engine is not None:
        engine.start()
    memory_before = peak_megabytes()
    started, started_cpu = time.perf_counter(), time.process_time()
    table = catalog.load_table(name)
    pinned = pin(table, TableRef.parse(name, "lab"))
    now_ms = int(time.time() * 1000) + 3_600_000
    counted_files = counting_rule(pinned, options, now_ms)
    remote = RemoteReader(0, reading_on(lambda: engine, table.io), counted_files) if engine is not None else None
    inventory = take_inventory(table, pinned, remote=remote)
    seen, seen_cpu = time.perf_counter() - started, time.process_time() - started_cpu
    seen_peak = peak_megabytes()
    statistics = partition_statistics(
        inventory,
        small_file_threshold=options.small_file_threshold,
        hot_window_seconds=options.hot_window_seconds,
        now_ms=now_ms,
    )
    plan = make_plan(inventory, statistics, options, now_ms=now_ms)
    seconds, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    if engine is not None:
        engine.close()
    assert plan.groups, "a forged table has files to merge"
    return {
        "files": sum(partition.files for partition in statistics),
        "listed": inventory.data_files.num_rows,
        "groups": len(plan.groups),
        "hash": plan.hash[:12],
        "observe": round(seen, 3),
        "observe_cpu": round(seen_cpu, 3),
        "seconds": round(seconds, 3),
        "cpu": round(cpu, 3),
        "before_mb": memory_before,
        "observe_peak_mb": seen_peak,
        "peak_mb": peak_megabytes(),
    }


def peak_megabytes() -> int:
    """Returns the peak memory of this program. getrusage would include the peak of its parent process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| files | shape | manifests | plan | of it reading | CPU | whole process | peak RSS |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['files']:,} | {row['name']} | {row['manifests']:,} | {row['seconds']:.2f} s "
        f"| {row['observe']:.2f} s | {row['cpu']:.2f} s | {row['whole_process']:.1f} s | {row['peak_mb']:,} MB |"
        for row in rows
    ]
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]]) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(row["name"], []).append((row["files"], row["cpu"]))
    return line_plot("Processor time of a plan, by the number of files", "files", "seconds", series)


if __name__ == "__main__":
    main()
