"""Measures `tidyberg maintain` beside Iceberg's four procedures on the same streaming table.

    python -m benchmarks.maintain [--commits 2000] [--days 10] [--rows 500] [--engine spark] [--keep DIR] [--only-build]

A stream has committed small files for ten days, with a few position deletes. A compaction ran after each day, and
nothing else: every snapshot is there, and a crashed writer has left some files. The files of the last day are still as
they were written: its compaction is that of the side. The table is built once, with simulated times,
and each side works on a fresh copy. tidyberg runs `maintain` with a policy that also deletes orphans. Java runs
`rewrite_data_files`, `rewrite_manifests`, `expire_snapshots` and `remove_orphan_files`. Both must keep every row.

Each side runs in its own process, which first maintains a small table, so that classes and modules are loaded. The
seconds are those of the steps alone. Scan times are those of PyIceberg, which neither side uses for its own work.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.machine import machine_facts
from benchmarks.rows import events
from benchmarks.two_sides import SIDES, add_options, answering, home_of, put_back
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import delete_positions

TABLE, SMALL_TABLE = "db.stream", "db.small"
RESULTS = Path("bench-results") / "maintain.json"
DAY_MS = 86_400_000
_KEPT_DAYS, _ORPHAN_DAYS = 5, 3
_ORPHANS = 50
_COMMITS_PER_DELETE = 40
_LAST_UPDATED = re.compile(r'("last-updated-ms":\s*)\d+')
_MB = 1024 * 1024


class RowsDifferError(Exception):
    """A side lost, changed or added rows."""


@dataclass(frozen=True)
class Stream:
    commits: int
    days: int
    rows: int  # of each commit


@dataclass(frozen=True)
class Order:
    """The instructions for a side."""

    side: str
    directory: str
    now_ms: int
    threads: int
    engine: str


@dataclass(frozen=True)
class Measured:
    """The size of a table, and the time that a reader needs."""

    bytes: int
    objects: int
    metadata_bytes: int  # of everything below metadata/
    metadata_json_bytes: int  # of the current metadata.json
    snapshots: int
    data_files: int
    scan_seconds: float


def build(warehouse: Warehouse, name: str, stream: Stream, now_ms: int) -> None:
    """Commits the stream for real, compacts it once a day, and then dates everything back."""
    from tests.builders.control import make_control

    from tidyberg.model.options import PlanOptions, Strategy

    table = warehouse.create_table(name, events(0, 1).schema, format_version=2)
    daily = stream.commits // stream.days
    ref = TableRef.parse(name, warehouse.name)
    options = PlanOptions(strategy=Strategy.SMALL_FILES, hot_commits=1_000_000)
    for number in range(stream.commits):
        _append(warehouse, table, events(number, stream.rows))
        if number % _COMMITS_PER_DELETE == _COMMITS_PER_DELETE - 1:
            newest = max(table.refresh().scan().plan_files(), key=lambda task: task.file.file_path)
            delete_positions(table, newest.file.file_path, [0, 1])
        if number % daily == daily - 1 and number + 1 < stream.commits:  # the last compaction is that of the side
            with make_control(warehouse) as control:
                control.compact(ref, options)
            table.refresh()
            print(f"{name}: day {(number + 1) // daily} of {stream.days}", flush=True)
    home = Path(local_path(table.location()))
    for number in range(_ORPHANS):
        shutil.copy(next((home / "data").rglob("*.parquet")), home / "data" / f"crashed-{number:04d}.parquet")
    _date_back(table.refresh(), stream, now_ms)


def _append(warehouse: Warehouse, table: Table, rows: pa.Table) -> None:
    warehouse.append_files(table, 1, rows=lambda _: rows)


def _date_back(table: Table, stream: Stream, now_ms: int) -> None:
    """Spreads the snapshots over the simulated days, and the files with them."""
    path = Path(local_path(table.metadata_location))
    document = json.loads(path.read_text())
    snapshots = document["snapshots"]
    step = stream.days * DAY_MS / len(snapshots)
    for number, snapshot in enumerate(snapshots):
        snapshot["timestamp-ms"] = round(now_ms - (len(snapshots) - number) * step)
    document["snapshot-log"] = [
        {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]}
        for snapshot in snapshots[-1:]
    ]
    moments = _date_metadata_back(path.parent, stream, now_ms)
    document["last-updated-ms"] = max(moments.values())
    for entry in document["metadata-log"]:
        entry["timestamp-ms"] = moments[entry["metadata-file"].rpartition("/")[2]]
    path.write_text(json.dumps(document))
    files = sorted((file for file in Path(local_path(table.location())).rglob("*") if file.is_file()), key=_written)
    for number, file in enumerate(files):
        moment = (now_ms - stream.days * DAY_MS * (1 - number / len(files))) / 1000
        if file.name.startswith("crashed-"):
            moment = now_ms / 1000 - 6 * 86_400
        os.utime(file, (moment, moment))


def _date_metadata_back(directory: Path, stream: Stream, now_ms: int) -> dict[str, int]:
    """Returns the new time of each metadata file. Only its own is changed in it, and not those in its log."""
    files = sorted(directory.glob("*.metadata.json"))
    moments = {}
    for number, file in enumerate(files, start=1):
        moments[file.name] = round(now_ms - stream.days * DAY_MS * (1 - number / len(files)))
        file.write_text(_LAST_UPDATED.sub(rf"\g<1>{moments[file.name]}", file.read_text(), count=1))
    return moments


def _written(path: Path) -> float:
    return path.stat().st_mtime


class Lake:
    """The tables, and how to put them back after a run."""

    def __init__(self, directory: Path, stream: Stream) -> None:
        self.directory = directory
        self.stream = stream
        self._pristine = directory.parent / f"{directory.name}-pristine"
        self._stamp = directory.parent / f"{directory.name}.json"

    def prepare(self) -> int:
        """Builds both tables unless an earlier run has. Returns the moment at which the simulated days end."""
        if self._stamp.exists():
            return int(json.loads(self._stamp.read_text())["now_ms"])
        now_ms = int(time.time() * 1000)
        with Warehouse(self.directory) as warehouse:
            build(warehouse, TABLE, self.stream, now_ms)
            build(warehouse, SMALL_TABLE, Stream(40, 4, self.stream.rows), now_ms)
        shutil.copytree(self.directory, self._pristine)
        self._stamp.write_text(json.dumps({"now_ms": now_ms, **asdict(self.stream)}))
        return now_ms

    def restore(self) -> None:
        put_back(self._pristine, self.directory)

    def measure(self) -> tuple[Measured, pa.Table]:
        with Warehouse(self.directory) as warehouse:
            table = warehouse.catalog.load_table(TABLE)
            started = time.perf_counter()
            rows = table.scan().to_arrow()
            seconds = time.perf_counter() - started
            home = Path(local_path(table.location()))
            files = [file for file in home.rglob("*") if file.is_file() and file.suffix != ".crc"]
            found = Measured(
                bytes=sum(file.stat().st_size for file in files),
                objects=len(files),
                metadata_bytes=sum(file.stat().st_size for file in files if "metadata" in file.parts),
                metadata_json_bytes=Path(local_path(table.metadata_location)).stat().st_size,
                snapshots=len(table.metadata.snapshots),
                data_files=len(list(table.scan().plan_files())),
                scan_seconds=seconds,
            )
        return found, rows.sort_by("event_id").combine_chunks()


def run_side(order: Order) -> None:
    """Maintains the small table, then prints the seconds of each step on the large one as JSON."""
    with answering() as (answers, scratch):
        maintain = (_java if order.side == "java" else _tidyberg)(order, scratch)
        maintain(SMALL_TABLE)
        started = time.perf_counter()
        steps = maintain(TABLE)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "steps": steps}), file=answers, flush=True)


def _tidyberg(order: Order, scratch: Path) -> Callable[[str], dict[str, float]]:
    from tidyberg.app import build_control, maintainer_of
    from tidyberg.control.maintenance.request import maintenance_request
    from tidyberg.settings.maintenance import flag_layers
    from tidyberg.settings.settings import Settings

    warehouse = Warehouse(order.directory)
    settings = Settings.model_validate(
        {
            "engine": order.engine,
            "spark": {"master": f"local[{order.threads}]"},
            "catalogs": {warehouse.name: warehouse.properties},
            "store": {"path": str(scratch / "jobs.db")},
        }
    )
    control = build_control(settings)
    policy = {
        "expire.older-than": f"{_KEPT_DAYS}d",
        "orphans.action": "delete",
        "orphans.older-than": f"{_ORPHAN_DAYS}d",
        "orphans.now": "true",
    }

    def maintain(name: str) -> dict[str, float]:
        ref = TableRef.parse(name, warehouse.name)
        table = warehouse.catalog.load_table(name)
        request = maintenance_request(settings, ref, table, flag_layers(policy))
        result = maintainer_of(control).run(request)
        assert result.failure is None, result
        return {step.step: step.seconds for step in result.steps}

    return maintain


def _java(order: Order, scratch: Path) -> Callable[[str], dict[str, float]]:
    from benchmarks.java import open_small_session

    session = open_small_session(Path(order.directory), order.threads, scratch)
    now_ms = int(time.time() * 1000)  # tidyberg counts from now too
    cutoff = now_ms - _KEPT_DAYS * DAY_MS
    orphans = now_ms - _ORPHAN_DAYS * DAY_MS

    def maintain(name: str) -> dict[str, float]:
        calls = {
            "rewrite_data_files": "",
            "rewrite_manifests": "",
            "expire_snapshots": f", older_than => timestamp_millis({cutoff}), retain_last => 1",
            "remove_orphan_files": f", older_than => timestamp_millis({orphans})",
        }
        seconds = {}
        for procedure, arguments in calls.items():
            started = time.perf_counter()
            session.sql(f"CALL lab.system.{procedure}(table => '{name}'{arguments})").collect()
            seconds[procedure] = time.perf_counter() - started
        return seconds

    return maintain


def measure_side(lake: Lake, order: Order) -> dict[str, Any]:
    lake.restore()
    command = [sys.executable, "-m", "benchmarks.maintain", "--one", json.dumps(asdict(order))]
    started = time.perf_counter()
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {**json.loads(ran.stdout.splitlines()[-1]), "whole_seconds": time.perf_counter() - started}


def report(before: Measured, after: dict[str, Measured], runs: dict[str, dict[str, Any]]) -> str:
    columns = {"before": before, **after}
    rows: list[tuple[str, Callable[[Measured], str]]] = [
        ("bytes on disk", lambda one: f"{one.bytes / _MB:,.1f} MB"),
        ("objects", lambda one: f"{one.objects:,}"),
        ("metadata", lambda one: f"{one.metadata_bytes / _MB:,.1f} MB"),
        ("current metadata.json", lambda one: f"{one.metadata_json_bytes / 1024:,.0f} KB"),
        ("snapshots", lambda one: f"{one.snapshots:,}"),
        ("data files", lambda one: f"{one.data_files:,}"),
        ("full scan (PyIceberg)", lambda one: f"{one.scan_seconds:.2f} s"),
    ]
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {label} | {' | '.join(show(one) for one in columns.values())} |" for label, show in rows]
    lines.append("")
    for side, run in runs.items():
        steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in run["steps"].items())
        lines.append(f"{side}: {run['seconds']:.1f} s in sum ({steps}); whole process {run['whole_seconds']:.1f} s")
    if len(runs) == len(SIDES):
        lines.append(f"java / tidyberg: {runs['java']['seconds'] / runs['tidyberg']['seconds']:.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--engine", choices=("spark", "inline", "auto"), default="spark", help="of tidyberg")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    add_options(parser)
    given = parser.parse_args()
    if given.one:
        run_side(Order(**json.loads(given.one)))
        return
    with home_of(given.keep) as home:
        lake = Lake(home / "lake", Stream(given.commits, given.days, given.rows))
        now_ms = lake.prepare()
        if given.only_build:
            return
        lake.restore()
        before, rows = lake.measure()
        runs: dict[str, dict[str, Any]] = {}
        after: dict[str, Measured] = {}
        for side in given.sides:
            order = Order(side, str(lake.directory), now_ms, given.threads, given.engine)
            runs[side] = measure_side(lake, order)
            after[side], left = lake.measure()
            if not left.equals(rows):
                raise RowsDifferError(f"{side}: {left.num_rows:,} rows instead of {rows.num_rows:,}, or others")
        text = report(before, after, runs)
        print(text)
        RESULTS.parent.mkdir(exist_ok=True)
        facts = {"machine": machine_facts(home), "before": asdict(before), "runs": runs}
        RESULTS.write_text(json.dumps({**facts, "after": {side: asdict(one) for side, one in after.items()}}, indent=1))


if __name__ == "__main__":
    main()
