"""Compacts a table whose equality deletes do not fit into the memory of a worker, with tidyberg and with Java.

Keys are texts of 26 characters, in random order. Half of the rows of the older data files are deleted; most keys match
no row. A worker of tidyberg may ask for 1 GB of address space; what asks for more fails. Its memory is measured, too.
Java gets 1 GB of heap for each core. DuckDB computes the surviving rows with a join of its own, before and after. Run
it with `python -m benchmarks.equality_join`. `--help` lists the sizes.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from benchmarks.java import open_session, rewrite_data_files
from benchmarks.memory import PeakMemory
from tidyberg.model.sizes import GB, MB, format_size
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, commit_deletes

NAME = "db.changes"
SCHEMA = Schema(
    NestedField(1, "number", LongType()), NestedField(2, "key", StringType()), NestedField(3, "payload", StringType())
)
KEY_BYTES = 26 + 4  # the text and its offset, as Arrow holds it
THREADS = 2
WORKER_BYTES = GB
_PER_FILE = 2_500_000
_LETTERS = np.frombuffer(b"0123456789abcdefghjkmnpqrstvwxyz", np.uint8)
_STEP = 0x9E3779B1  # prime: a multiplication with it, modulo the number of keys, shuffles them


@dataclass(frozen=True)
class Scale:
    keys: int
    rows: int
    heavy: float  # the share of rows that have one and the same key

    @property
    def key_bytes(self) -> int:
        return self.keys * KEY_BYTES


@dataclass(frozen=True)
class Rows:
    """The rows of a table: their number, and sums that depend on every value."""

    count: int
    numbers: int
    hashes: int


@dataclass(frozen=True)
class Outcome:
    tool: str
    finished: bool
    seconds: float
    worker_peak: int  # of the largest process that is no JVM
    tree_peak: int
    error: str = ""
    correct: bool | None = None


def texts(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Returns the key of each number. Neighbours have nothing in common."""
    letters = np.empty((len(numbers), 26), np.uint8)
    for half in (0, 1):
        mixed = numbers.astype(np.uint64) + np.uint64(half * 0x632BE59BD9B4E019)
        for _ in range(2):
            mixed ^= mixed >> np.uint64(32)
            mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
        for place in range(13):
            letters[:, 13 * half + place] = _LETTERS[(mixed >> np.uint64(5 * place)) & np.uint64(31)]
    offsets = pa.py_buffer((np.arange(len(numbers) + 1) * 26).astype(np.int32))
    return pa.Array.from_buffers(pa.string(), len(numbers), [None, offsets, pa.py_buffer(letters)])


def rows_of(begin: int, end: int, scale: Scale) -> pa.Table:
    numbers = np.arange(begin, end)
    keys = np.where(np.random.default_rng(begin).random(end - begin) < scale.heavy, 0, numbers)
    payload = pa.array(np.random.default_rng(begin).integers(0, 1000, end - begin)).cast(pa.string())
    return pa.table({"number": numbers, "key": texts(keys), "payload": payload})


def deleted_numbers(begin: int, end: int, scale: Scale) -> npt.NDArray[np.int64]:
    """Returns numbers of deleted keys: every other row, then numbers that no row has."""
    places = (np.arange(begin, end, dtype=np.uint64) * np.uint64(_STEP) % np.uint64(scale.keys)).astype(np.int64)
    hits = scale.rows // 2
    return np.where(places < hits, 2 * places, scale.rows + places)


def make_table(warehouse: Warehouse, scale: Scale) -> Table:
    """Appends half of the rows, deletes half of the keys, and does both once more."""
    table = warehouse.create_table(NAME, SCHEMA, format_version=2)
    for half in (0, 1):
        row_cuts, key_cuts = (_cuts(many, half) for many in (scale.rows, scale.keys))
        for begin, end in row_cuts:
            rows = rows_of(begin, end, scale)
            warehouse.append_files(table, 1, rows=partial(_same, rows))
        for begin, end in key_cuts:
            commit_deletes(table, EqualTo({"key": texts(deleted_numbers(begin, end, scale))}))
    return table


def _same(rows: pa.Table, _: int) -> pa.Table:
    return rows


def _cuts(many: int, half: int) -> list[tuple[int, int]]:
    begin, end = many * half // 2, many * (half + 1) // 2
    return [(first, min(end, first + _PER_FILE)) for first in range(begin, end, _PER_FILE)]


def survivors(warehouse: Warehouse, table: Table, scratch: Path) -> Rows:
    """Computes the rows with a join of DuckDB, file by file of data because it has to fit into memory too."""
    table.refresh()
    files = warehouse.live_files(table)
    data = [file for file in files if file.content is DataFileContent.DATA]
    deletes = [file for file in files if file.content is not DataFileContent.DATA]
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '6GB'; SET threads = {THREADS}; SET temp_directory = '{scratch}'")
    connection.execute("SET preserve_insertion_order = false")

    def union(some: list[Any], columns: str) -> str:
        return " UNION ALL ".join(
            f"SELECT {columns}, {file.sequence_number} AS seq FROM read_parquet('{file.path.removeprefix('file://')}')"
            for file in some
        )

    rows = union(data, "number, key, payload")
    where = (
        f"WHERE NOT EXISTS (SELECT 1 FROM ({union(deletes, 'key')}) d WHERE d.key = r.key AND d.seq > r.seq)"
        if deletes
        else ""
    )
    found = connection.execute(
        "SELECT count(*), coalesce(sum(number), 0), coalesce(sum(hash(number, key, payload)), 0) "
        f"FROM ({rows}) r {where}"
    ).fetchone()
    assert found is not None
    return Rows(*map(int, found))


def tidyberg_side(directory: Path, scratch: Path, cap: str) -> None:
    from tidyberg.control.control import Control
    from tidyberg.execute.inline import InlineEngine
    from tidyberg.execute.spark.engine import SparkEngine
    from tidyberg.model.options import PlanOptions, Strategy
    from tidyberg.model.table import TableRef
    from tidyberg.record.process import is_alive
    from tidyberg.record.sqlite import SqliteStore

    conf = {"spark.executor.pyspark.memory": "1g"} if cap == "address-space" else {}
    with Warehouse(directory) as warehouse:
        engine: Callable[[], Any] = (
            (lambda: InlineEngine(max_parallelism=1))
            if cap == "inline"
            else (lambda: SparkEngine(f"local[{THREADS}]", conf=conf))
        )
        with Control(lambda _: warehouse.catalog, engine, SqliteStore(scratch / "jobs.db", is_alive)) as control:
            result = control.compact(TableRef.parse(NAME, warehouse.name), PlanOptions(strategy=Strategy.FULL))
        assert result.outcome == "committed", result.outcome
        assert not result.stats.delete_files_after, result.stats


def java_side(directory: Path, scratch: Path, cap: str) -> None:  # noqa: ARG001 - both sides have the same parameters
    session = open_session(directory, THREADS, scratch, memory=f"{THREADS}g")
    rewrite_data_files(session, NAME, 512 * MB)


SIDES = {"tidyberg": tidyberg_side, "java": java_side}


def measure(tool: str, directory: Path, cap: str, limit_seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="equality-join-", dir=directory.parent) as scratch:
        words = [sys.executable, "-m", "benchmarks.equality_join", "--side", tool, "--home", str(directory)]
        words += ["--cap", cap, "--scratch", scratch]
        started = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with PeakMemory(process.pid) as memory:
            try:
                output, _ = process.communicate(timeout=limit_seconds)
            except subprocess.TimeoutExpired:
                for child in memory.family():
                    child.kill()
                output, _ = process.communicate()
                output += f"\nstopped after {limit_seconds:.0f} s"
        seconds = time.perf_counter() - started
    lines = [line for line in output.splitlines() if "OutOfMemory" in line or "Error" in line or "stopped" in line]
    error = "" if process.returncode == 0 else (lines or output.splitlines() or [""])[0][:300]
    return Outcome(tool, process.returncode == 0, seconds, memory.worker_bytes, memory.peak_bytes, error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys-gb", type=float, default=3.0, help="the size of the deleted keys in memory")
    parser.add_argument("--rows", type=int, help="the rows of the table; by default half as many as keys")
    parser.add_argument("--heavy", type=float, default=0.0, help="the share of rows under one key")
    parser.add_argument("--cap", choices=("address-space", "none", "inline"), default="address-space")
    parser.add_argument("--tools", nargs="*", default=["tidyberg", "java"])
    parser.add_argument("--limit-seconds", type=float, default=3600.0)
    parser.add_argument("--home", type=Path, help="a directory for the table, which is kept")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="where to write the outcomes")
    order = parser.parse_args()
    if order.side:
        SIDES[order.side](order.home, order.scratch, order.cap)
        return
    keys = int(order.keys_gb * GB / KEY_BYTES)
    scale = Scale(keys, order.rows or keys // 2, order.heavy)
    with tempfile.TemporaryDirectory(prefix="equality-join-") as made:
        home = order.home or Path(made)
        outcomes = list(_measure_all(home, scale, order))
    if order.json:
        order.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    if any(outcome.correct is False for outcome in outcomes):
        raise SystemExit("The rows are not those that they should be.")
    if any(outcome.worker_peak > WORKER_BYTES for outcome in outcomes):
        raise SystemExit(f"A worker took more than {format_size(WORKER_BYTES)} of memory.")


def _measure_all(home: Path, scale: Scale, order: argparse.Namespace) -> list[Outcome]:
    pristine, live = home / "pristine", home / "live"
    expected_file = home / "expected.json"
    if not expected_file.exists():
        shutil.rmtree(live, ignore_errors=True)
        live.mkdir(parents=True)
        with Warehouse(live) as warehouse:
            table = make_table(warehouse, scale)
            expected = survivors(warehouse, table, home / "duckdb")
        # Paths in the metadata are absolute, so the table always lies in the same place.
        shutil.copytree(live, pristine)
        expected_file.write_text(json.dumps(asdict(expected)))
    expected = Rows(**json.loads(expected_file.read_text()))
    stored = sum(path.stat().st_size for path in pristine.rglob("*-deletes.parquet"))
    print(
        f"{scale.keys:,} deleted keys ({format_size(scale.key_bytes)} in memory, {format_size(stored)} in files), "
        f"{scale.rows:,} rows, of which {expected.count:,} survive",
        flush=True,
    )
    outcomes = []
    for tool in order.tools:
        shutil.rmtree(live)
        shutil.copytree(pristine, live)
        outcome = measure(tool, live, order.cap, order.limit_seconds)
        if outcome.finished:
            with Warehouse(live) as warehouse:
                found = survivors(warehouse, warehouse.catalog.load_table(NAME), home / "duckdb")
            outcome = Outcome(**{**asdict(outcome), "correct": found == expected})
        verdict = "rows are equal" if outcome.correct else "ROWS DIFFER" if outcome.finished else outcome.error
        print(
            f"{tool:9} {outcome.seconds:7.1f} s  largest worker {format_size(outcome.worker_peak)}, all processes "
            f"{format_size(outcome.tree_peak)}: {verdict}",
            flush=True,
        )
        outcomes.append(outcome)
    return outcomes


if __name__ == "__main__":
    main()
