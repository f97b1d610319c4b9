"""Measures what `expire` and `orphans` read of a huge table: in this process, and in tasks of a local Spark.

    python -m benchmarks.engine_reads [--files 1000000] [--snapshots 1000] [--listed 300000] [--keep DIR]

The table is forged: its metadata is real, and its data files do not exist. "expire" is a dry run that finds all files
that only old snapshots need. "listing" lists a directory of empty files, 100 in each directory. Each side is a fresh
process. "Driver" is the peak memory of that process alone; "all" includes the JVM and its workers. Spark's seconds
include its start. Results go to bench-results/engine_reads.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.long_history import HOUR_MS, LongHistory, forge_history
from benchmarks.memory import PeakMemory

RESULTS = Path("bench-results") / "engine_reads.json"
NAME = "db.history"
_HOURS_KEPT = 100.5  # half an hour away from every snapshot
_PER_DIRECTORY = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    parser.add_argument("--listed", type=int, default=300_000)
    parser.add_argument("--keep", type=Path, help="where to build the table once; a temporary directory by default")
    parser.add_argument("--one", nargs=3, metavar=("WORK", "SIDE", "DIRECTORY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        work, side, name = given.one
        print(json.dumps(WORK[work](Path(name), on_spark=side == "spark")))
        return
    with tempfile.TemporaryDirectory(prefix="bench-reads-") as scratch:
        directory = (given.keep or Path(scratch)).absolute()
        build(directory, LongHistory(given.snapshots, given.files // given.snapshots, with_data=False), given.listed)
        rows = []
        for work in WORK:
            for side in ("driver", "spark"):
                rows.append(measure(work, side, directory))
                print(json.dumps(rows[-1]), flush=True)
    for work in WORK:
        found = {row["found"] for row in rows if row["work"] == work}
        assert len(found) == 1, f"the sides found different files: {found}"
    RESULTS.parent.mkdir(exist_ok=True)
    result = {"files": given.files, "snapshots": given.snapshots, "listed": given.listed, "rows": rows}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def build(directory: Path, shape: LongHistory, listed: int) -> None:
    from tidyberg.testing import Warehouse

    if (directory / "built").exists():
        return
    home = directory / "warehouse" / NAME.replace(".", "/")
    home.mkdir(parents=True)
    metadata = forge_history(home, f"file://{home}", shape)
    with Warehouse(directory) as warehouse:
        warehouse.catalog.create_namespace("db")
        warehouse.catalog.register_table(NAME, metadata)
    for number in range(-(-listed // _PER_DIRECTORY)):
        below = directory / "listed" / f"p={number % 50}" / f"q={number}"
        below.mkdir(parents=True)
        for file in range(_PER_DIRECTORY):
            os.close(os.open(below / f"{file:05d}-0-00000000-0000-0000-0000-000000000000.parquet", os.O_CREAT))
    (directory / "built").touch()


def measure(work: str, side: str, directory: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.engine_reads", "--one", work, side, str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    assert process.returncode == 0, f"{work} on {side} failed"
    return {"work": work, "side": side, **json.loads(output.splitlines()[-1]), "all_mb": memory.peak_bytes >> 20}


def run_expire(directory: Path, *, on_spark: bool) -> dict[str, Any]:
    from tidyberg.control.control import Control
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.model.expiry import ExpireOptions
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore
    from tidyberg.testing import Warehouse

    limit = 0 if on_spark else None
    store = SqliteStore(directory / "jobs.db", is_alive)
    with (
        Warehouse(directory) as warehouse,
        Control(
            lambda _: warehouse.catalog,
            lambda: SparkEngine("local[2]"),
            store,
            engine_reads_above=limit,
            engine_lists_above=limit,
        ) as control,
    ):
        started, cpu = time.perf_counter(), time.process_time()
        options = ExpireOptions(older_than_ms=int(_HOURS_KEPT * HOUR_MS))
        result = control.expire(TableRef.parse(NAME, warehouse.name), options, dry_run=True)
        return _figures(started, cpu, result.files.files)


def run_listing(directory: Path, *, on_spark: bool) -> dict[str, Any]:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    from tidyberg.control.engine_reads import engine_reads
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.storage.listing import files_below

    engine = SparkEngine("local[2]")
    remote = engine_reads(lambda: engine, 0, 0).files if on_spark else None
    started, cpu = time.perf_counter(), time.process_time()
    pieces = files_below(PyArrowFileIO(), str(directory / "listed"), remote=remote)
    figures = _figures(started, cpu, sum(piece.num_rows for piece in pieces))
    engine.close()
    return figures


def _figures(started: float, cpu: float, found: int) -> dict[str, Any]:
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "driver_mb": peak >> 10, "found": found}


WORK = {"expire": run_expire, "listing": run_listing}


if __name__ == "__main__":
    main()
