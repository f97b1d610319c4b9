"""Measures `tidyberg expire` beside Iceberg's `expire_snapshots` on the same table, on a local disk and on S3.

    python -m benchmarks.expire [--snapshots 1000] [--files 100000] [--storage disk s3] [--runs 1] [--keep DIR]

The table has a snapshot an hour, and snapshots older than about four days expire. It is built once, and each side works
on a fresh copy. Both sides must keep the same snapshots and leave the same files. Each side runs in its own process and
first expires a small table, so that classes and modules are loaded. The seconds are those of the call alone. "Whole"
includes the start of the process, of the JVM where there is one, and the small table. Memory is the peak of all
processes of the side; pages that they share count once. On S3, the server's access log has the requests.
"""

import argparse
import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.servers.s3 import S3Server

from benchmarks.long_history import HOUR_MS, LongHistory, forge_history
from benchmarks.machine import machine_facts
from benchmarks.memory import PeakMemory
from benchmarks.two_sides import SIDES, add_options, answering, home_of, put_back
from tidyberg.model.expiry import ExpireOptions
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse

TABLE, SMALL_TABLE = "db.history", "db.small"
RESULTS = Path("bench-results") / "expire.json"
BUCKET = "bench"
_HOURS_KEPT = 100.5  # half an hour away from every snapshot
_SMALL = LongHistory(snapshots=200, files_per_commit=2)
_MB = 1024 * 1024


class SidesDifferError(Exception):
    """The sides kept other snapshots or left other files."""


@dataclass(frozen=True)
class Order:
    """The instructions for a side."""

    side: str
    directory: str
    cutoff_ms: int
    threads: int
    properties: dict[str, str] = field(default_factory=dict)  # of the catalog, if its tables are on S3


@dataclass(frozen=True)
class Run:
    side: str
    storage: str
    seconds: float
    whole_seconds: float
    cpu_seconds: float
    peak_bytes: int
    requests: dict[str, int]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Left:
    """The snapshots and files that a side left."""

    snapshots: frozenset[int]
    files: frozenset[str]  # without metadata.json


class Lake:
    """Tables on a disk, and how to put them back after a run. With a server, the disk is that of the server."""

    def __init__(self, directory: Path, shape: LongHistory, server: S3Server | None) -> None:
        self.directory = directory
        self.shape = shape
        self.server = server
        self.properties = {"warehouse": f"s3://{BUCKET}", **server.properties} if server else {}
        self._live = server.data / BUCKET if server else directory / "warehouse"
        self._pristine = directory.parent / f"{directory.name}-pristine"
        self._stamp = directory.parent / f"{directory.name}-{shape.snapshots}-{shape.files}.built"

    def prepare(self) -> None:
        """Builds both tables, and sets them aside. Keeps those of an earlier run."""
        if self._stamp.exists():
            return
        self.directory.mkdir(parents=True)
        base = self.properties.get("warehouse", f"file://{self._live}")
        found = {
            name: forge_history(self._live / name.replace(".", "/"), f"{base}/{name.replace('.', '/')}", shape)
            for name, shape in ((TABLE, self.shape), (SMALL_TABLE, _SMALL))
        }
        with Warehouse(self.directory, properties=self.properties) as warehouse:
            warehouse.catalog.create_namespace("db")
            for name, metadata in found.items():
                warehouse.catalog.register_table(name, metadata)
        shutil.move(self._live, self._pristine)
        shutil.copy2(self.directory / "catalog.db", self._pristine / "catalog.db")
        self._stamp.touch()

    def restore(self) -> None:
        """Makes a fresh copy of hard links. No side writes into a file that exists."""
        put_back(self._pristine, self._live, os.link)
        shutil.copy2(self._pristine / "catalog.db", self.directory / "catalog.db")

    def left(self) -> Left:
        with Warehouse(self.directory, properties=self.properties) as warehouse:
            metadata = warehouse.catalog.load_table(TABLE).metadata
        home = self._live / TABLE.replace(".", "/")
        files = (str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
        kept = frozenset(name for name in files if not name.endswith((".metadata.json", ".crc")))
        return Left(frozenset(one.snapshot_id for one in metadata.snapshots), kept)

    def requests(self) -> Counter[str]:
        return Counter(operation for operation, _ in self.server.asked(BUCKET)) if self.server else Counter()


def measure(lake: Lake, side: str, storage: str, threads: int) -> tuple[Run, Left]:
    lake.restore()
    cutoff_ms = int(time.time() * 1000 - _HOURS_KEPT * HOUR_MS)
    order = Order(side, str(lake.directory), cutoff_ms, threads, lake.properties)
    started = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.expire", "--one", json.dumps(asdict(order))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with PeakMemory(process.pid) as memory:
        _answer(process)
        asked_before, cpu_before = lake.requests(), memory.cpu_seconds()
        print(file=process.stdin, flush=True)
        answer = _answer(process)
        cpu = memory.cpu_seconds() - cpu_before
    asked = lake.requests() - asked_before
    process.stdin.close()
    process.wait()
    whole = time.perf_counter() - started
    seconds = answer.pop("seconds")
    return Run(side, storage, seconds, whole, cpu, memory.peak_bytes, dict(sorted(asked.items())), answer), lake.left()


def _answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a side ended with {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def run_side(order: Order) -> None:
    """Prints a JSON line after the warm-up, waits for a line, and prints another one after the measurement."""
    with answering() as (answers, scratch):
        expire = (_java if order.side == "java" else _tidyberg)(order, scratch)
        expire(SMALL_TABLE)
        gc.collect()
        print(json.dumps({"warm": True}), file=answers, flush=True)
        sys.stdin.readline()
        started = time.perf_counter()
        facts = expire(TABLE)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, **facts}), file=answers, flush=True)
        sys.stdin.readline()


def _tidyberg(order: Order, scratch: Path) -> Callable[[str], dict[str, Any]]:
    from tidyberg.control.control import Control
    from tidyberg.execute.inline import InlineEngine
    from tidyberg.record.clock import wall_clock_ms
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore

    warehouse = Warehouse(order.directory, properties=order.properties)
    control = Control(lambda _: warehouse.catalog, InlineEngine, SqliteStore(scratch / "jobs.db", is_alive))

    def expire(name: str) -> dict[str, Any]:
        options = ExpireOptions(older_than_ms=wall_clock_ms() - order.cutoff_ms)
        result = control.expire(TableRef.parse(name, warehouse.name), options)
        assert result.outcome == "expired", result
        assert result.failure is None, result
        return {"deleted": result.files.files, "verified_references": result.verified}

    return expire


def _java(order: Order, scratch: Path) -> Callable[[str], dict[str, Any]]:
    from benchmarks.java import expire_snapshots, open_small_session

    session = open_small_session(Path(order.directory), order.threads, scratch, order.properties or None)

    def expire(name: str) -> dict[str, Any]:
        return {"deleted": sum(expire_snapshots(session, name, order.cutoff_ms).values())}

    return expire


@contextlib.contextmanager
def _lakes(directory: Path, shape: LongHistory, wanted: list[str]) -> Iterator[dict[str, Lake]]:
    with contextlib.ExitStack() as stack:
        lakes = {}
        for storage in wanted:
            server = None
            if storage == "s3":
                server = S3Server(directory / "server", keep_alive=True)
                stack.callback(server.close)
            lakes[storage] = Lake(directory / storage, shape, server)
            lakes[storage].prepare()
        yield lakes


def compare(lake: Lake, storage: str, threads: int) -> list[Run]:
    found = {side: measure(lake, side, storage, threads) for side in SIDES}
    (_, ours), (_, theirs) = found["tidyberg"], found["java"]
    if ours != theirs:
        raise SidesDifferError(
            f"snapshots {sorted(ours.snapshots ^ theirs.snapshots)[:5]}, files {sorted(ours.files ^ theirs.files)[:5]}"
        )
    return [run for run, _ in found.values()]


def table(runs: list[Run]) -> str:
    lines = [
        "| storage | side | seconds | whole | CPU | peak memory | deleted | requests |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        asked = ", ".join(f"{number:,} {name}" for name, number in run.requests.items()) or "–"
        lines.append(
            f"| {run.storage} | {run.side} | {run.seconds:.1f} s | {run.whole_seconds:.1f} s | {run.cpu_seconds:.1f} s "
            f"| {run.peak_bytes / _MB:,.0f} MB | {run.facts['deleted']:,} files | {asked} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--snapshots", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--storage", nargs="+", choices=("disk", "s3"), default=["disk", "s3"])
    parser.add_argument("--runs", type=int, default=1)
    add_options(parser)
    given = parser.parse_args()
    if given.one:
        run_side(Order(**json.loads(given.one)))
        return
    shape = LongHistory(given.snapshots, given.files // given.snapshots)
    with home_of(given.keep) as directory:
        with _lakes(directory, shape, given.storage) as lakes:
            runs: list[Run] = []
            for storage, lake in lakes.items() if not given.only_build else ():
                for _ in range(given.runs):
                    runs += compare(lake, storage, given.threads)
                    print(table(runs[-2:]), flush=True)
        facts = machine_facts(directory)
    if given.only_build:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    document = {"machine": facts, "table": asdict(shape), "runs": [asdict(run) for run in runs]}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
