"""Finds and deletes orphans in a large directory, with tidyberg and with Java's `remove_orphan_files`, in one run.

    python -m benchmarks.orphans [OBJECTS] [--orphans 1000]

The table is forged: its metadata is real, and its data files are empty. Each side is a fresh process and deletes the
same orphans from the same directory on the local disk, which are put back in between. "Seconds" is the time of the
call alone: Java gets a Spark session that is up and has loaded the table. Memory is the peak of the whole process
family. Results go to bench-results/orphans.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.memory import PeakMemory

RESULTS = Path("bench-results") / "orphans.json"
NAME = "bench.t"
_PER_PARTITION = 100
_PER_MANIFEST = 8_000
_OLD = time.time() - 10 * 86_400
_THREE_DAYS_MS = 3 * 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("objects", nargs="?", type=int, default=200_000)
    parser.add_argument("--orphans", type=int, default=1_000)
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "DIRECTORY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        side, directory = arguments.side
        print(json.dumps(SIDES[side](Path(directory))))
        return
    with tempfile.TemporaryDirectory(prefix="bench-orphans-") as name:
        directory = Path(name)
        orphans = build(directory, arguments.objects, arguments.orphans)
        rows = []
        for side in SIDES:
            put_back(orphans)
            rows.append(one_process(side, directory, orphans))
            print(json.dumps(rows[-1]), flush=True)
    result = {"objects": arguments.objects, "orphans": arguments.orphans, "sides": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    ours, java = rows
    print(f"{java['seconds'] / ours['seconds']:.1f} times as fast as Java; {ours['found']} and {java['found']} found")


def build(directory: Path, objects: int, orphans: int) -> list[Path]:
    """Makes the table and its files. Returns the paths of the orphans, which are not there yet."""
    from tidyberg.observe.reachable import ReachedManifests, live_entries
    from tidyberg.testing import Warehouse, forge_table, local_path

    with Warehouse(directory) as warehouse:
        files = objects - orphans
        manifests = max(1, files // _PER_MANIFEST)
        forge_table(warehouse, NAME, files, partitions=files // _PER_PARTITION, manifests=manifests)
        table = warehouse.catalog.load_table(NAME)
        reached = ReachedManifests(table.io)
        reached.add(table.metadata.snapshots)
        paths = [
            Path(local_path(path))
            for piece in live_entries(table.io, list(reached.manifests.values()))
            for path in piece["path"].to_pylist()
        ]
        make(paths)
        root = Path(local_path(table.location()))
        for path in root.rglob("*.*"):
            if path.is_file():
                os.utime(path, (_OLD, _OLD))
    step = max(1, len(paths) // orphans)
    return [path.with_name(f"orphan-{number:06d}.parquet") for number, path in enumerate(paths[::step][:orphans])]


def make(paths: list[Path]) -> None:
    for directory in {path.parent for path in paths}:
        directory.mkdir(parents=True, exist_ok=True)

    def touch(path: Path) -> None:
        path.touch()
        os.utime(path, (_OLD, _OLD))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(touch, paths, chunksize=1000))


def put_back(orphans: list[Path]) -> None:
    make(orphans)


def one_process(side: str, directory: Path, orphans: list[Path]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.orphans", "--side", side, str(directory)]
    started = time.perf_counter()
    # Keep the bytecode, as an installation does: compiling it every time would distort the start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    with PeakMemory(process.pid) as memory:
        output, _ = process.communicate()
    whole = time.perf_counter() - started
    assert process.returncode == 0, f"{side} failed"
    found = json.loads(output.splitlines()[-1])
    left = [path for path in orphans if path.exists()]
    assert not left, f"{side} left {len(left)} orphans, first {left[0]}"
    return {"side": side, **found, "whole_process": round(whole, 1), "peak_mb": round(memory.peak_bytes / 1024**2)}


def run_tidyberg(directory: Path) -> dict[str, Any]:
    import pyiceberg.io.pyarrow  # noqa: F401 - at start-up, not with the first table

    import tidyberg.control.orphans  # noqa: F401
    from tidyberg.control.control import Control
    from tidyberg.execute.inline import InlineEngine
    from tidyberg.model.orphans import OrphanOptions
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore
    from tidyberg.testing import Warehouse

    store = SqliteStore(directory / "jobs.db", is_alive)
    with Warehouse(directory) as warehouse, Control(lambda _: warehouse.catalog, InlineEngine, store) as control:
        started, cpu = time.perf_counter(), time.process_time()
        result = control.remove_orphans(TableRef.parse(NAME, warehouse.name), OrphanOptions(now=True))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert result.outcome == "deleted"
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "found": result.files.files,
        "listed": result.plan.listed,
    }


def run_java(directory: Path) -> dict[str, Any]:
    from benchmarks.java import open_session

    session = open_session(directory, os.cpu_count() or 1, directory / "scratch")
    session.sql(f"SELECT count(*) FROM lab.{NAME}.snapshots").collect()
    before = int(time.time() * 1000) - _THREE_DAYS_MS
    started = time.perf_counter()
    rows = session.sql(
        f"CALL lab.system.remove_orphan_files(table => '{NAME}', older_than => timestamp_millis({before}))"
    ).collect()
    seconds = time.perf_counter() - started
    session.stop()
    return {"seconds": round(seconds, 2), "found": len(rows)}


SIDES = {"tidyberg": run_tidyberg, "java": run_java}


if __name__ == "__main__":
    main()
