"""Measures `rewrite-manifests` against Java's `rewrite_manifests` on the same table: `python -m benchmarks.manifests`.

The table has no data, because neither tool opens a data file. Both start from the same metadata file, and the entries
that both leave are compared.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from benchmarks.machine import machine_facts
from tidyberg.avro.records import AvroFile
from tidyberg.observe.manifest_list import read_listed_manifests
from tidyberg.storage.table_files import read_bytes
from tidyberg.testing import Warehouse
from tidyberg.testing.commits import LabCatalog
from tidyberg.testing.forge import forge_table

NAME = "db.events"
_FIELDS = frozenset({0, 1, 3, 4, 100, 103, 104, 142})


def main() -> int:
    options = _options()
    if options.only is not None:
        print(json.dumps(_ours(Path(options.only)) if options.side == "ours" else _java(Path(options.only))))
        return 0
    with tempfile.TemporaryDirectory(prefix="manifests-", dir=options.directory) as made:
        home = Path(made)
        with Warehouse(home) as warehouse:
            table = forge_table(
                warehouse,
                NAME,
                options.entries,
                partitions=options.partitions,
                manifests=options.manifests,
                format_version=options.format_version,
            )
            start = table.metadata_location
            before = _entries(table)
        report: dict[str, Any] = {"machine": machine_facts(home), "entries": options.entries}
        for side in ("ours", "java"):
            report[side] = _measure(side, home)
            with Warehouse(home) as warehouse:
                table = warehouse.catalog.load_table(NAME)
                found = _entries(table)
                report[side] |= {"manifests": len(_listed(table)), "bytes": sum(one.length for one in _listed(table))}
                report[side]["same entries"] = found == before
                assert isinstance(warehouse.catalog, LabCatalog)
                warehouse.catalog.point_to(table, start)
    report["times faster"] = round(report["java"]["seconds"] / report["ours"]["seconds"], 1)
    print(json.dumps(report, indent=2))
    return 0 if report["ours"]["same entries"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.manifests", description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--manifests", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=365)
    parser.add_argument("--format-version", type=int, default=2)
    parser.add_argument("--directory", default=None, help="where the table is made")
    parser.add_argument("--only", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--side", default="ours", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(side: str, home: Path) -> dict[str, Any]:
    """Runs one side in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.manifests", "--only", str(home), "--side", side],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        env=os.environ,
    )
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _ours(home: Path) -> dict[str, Any]:
    from tidyberg.control.control import Control
    from tidyberg.execute.inline import InlineEngine
    from tidyberg.model.manifest_rewrite import ManifestOptions
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore

    with Warehouse(home) as warehouse:
        store = SqliteStore(home / "jobs.db", is_alive)
        with Control(lambda _: warehouse.catalog, InlineEngine, store) as control:
            begun, busy = time.perf_counter(), time.process_time()
            result = control.rewrite_manifests(TableRef.parse(NAME, warehouse.name), ManifestOptions())
            seconds, cpu = time.perf_counter() - begun, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": round(seconds, 2),
        "cpu seconds": round(cpu, 2),
        "peak MB": peak // 1024,
        "outcome": result.outcome,
        "estimate of bytes": result.plan.bytes_after,
        "manifests per scan": [round(result.plan.scan_before, 1), round(result.plan.scan_after, 1)],
    }


def _java(home: Path) -> dict[str, Any]:
    """The session is started, and the table is read once, before the clock starts."""
    from benchmarks.java import open_session

    with tempfile.TemporaryDirectory(prefix="manifests-") as scratch:
        session = open_session(home, os.cpu_count() or 2, Path(scratch))
        session.sql(f"SELECT count(*) FROM lab.{NAME}.manifests").collect()
        begun = time.perf_counter()
        session.sql(f"CALL lab.system.rewrite_manifests(table => '{NAME}')").collect()
        seconds = time.perf_counter() - begun
        session.stop()
    return {"seconds": round(seconds, 2)}


def _listed(table: Table) -> list[Any]:
    head = table.current_snapshot()
    return read_listed_manifests(table.io, head.manifest_list) if head is not None else []


def _entries(table: Table) -> list[tuple[Any, ...]]:
    """Identities and numbers of all live entries, with inherited values."""
    found = []
    for manifest in _listed(table):
        next_row_id = manifest.first_row_id
        for entry in AvroFile.parse(read_bytes(table.io, manifest.path)).records(_FIELDS):
            if entry[0] == 2:
                continue
            first_row_id = entry.get(142)
            if next_row_id is not None and first_row_id is None:
                first_row_id, next_row_id = next_row_id, next_row_id + entry[103]
            numbers = [manifest.sequence_number if entry.get(one) is None else entry[one] for one in (3, 4)]
            snapshot_id = manifest.added_snapshot_id if entry.get(1) is None else entry[1]
            found.append((entry[100], snapshot_id, *numbers, entry[103], entry[104], first_row_id))
    return sorted(found, key=repr)


if __name__ == "__main__":
    sys.exit(main())
