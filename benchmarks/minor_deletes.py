"""Compares a minor compaction of deletes with a full rewrite, on two tables with the same rows and deletes.

Each table has format version 3, with position delete files from before its upgrade and equality delete files. Java
reads the rows and their ids before and after. Run it with `python -m benchmarks.minor_deletes`. `--help` lists the
sizes.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

from benchmarks.java import open_session
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.report import CompactionResult
from tidyberg.model.sizes import format_size
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes

NAME = "db.changes"
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "account", LongType()),
    NestedField(3, "amount", DoubleType()),
    NestedField(4, "note", StringType()),
    NestedField(5, "at", TimestampType()),
    NestedField(6, "payload", StringType()),
)
_COMMITS = 20  # of each kind of delete
_CHECKSUM = "count(*), sum(CAST(xxhash64(*, _row_id, _last_updated_sequence_number) AS DECIMAL(38, 0)))"


@dataclass(frozen=True)
class Scale:
    data_files: int
    rows_per_file: int
    position_files: int
    equality_files: int


@dataclass(frozen=True)
class Measured:
    strategy: Strategy
    bytes_written: int
    seconds: float
    delete_files: int
    java_reads_equal: bool


def rows_of(number: int, rows: int) -> pa.Table:
    generator = np.random.default_rng(number)
    ids = np.arange(number * rows, (number + 1) * rows)
    text = [f"{value:016x}" for value in generator.integers(0, 2**63, rows)]
    return pa.table(
        {
            "id": ids,
            "account": generator.integers(0, 10_000_000, rows),
            "amount": generator.random(rows),
            "note": pa.array([f"note {value}" for value in generator.integers(0, 1000, rows)]),
            "at": pa.array(generator.integers(0, 2**50, rows), pa.timestamp("us")),
            "payload": pa.array(text),
        }
    )


def make_table(warehouse: Warehouse, scale: Scale) -> Table:
    table = warehouse.create_table(NAME, SCHEMA, format_version=2)
    warehouse.append_files(table, scale.data_files, rows=lambda number: rows_of(number, scale.rows_per_file))
    paths = sorted(file.path for file in warehouse.live_files(table))
    generator = np.random.default_rng(1)
    per_commit = max(1, scale.position_files // _COMMITS)
    for first in range(0, scale.position_files, per_commit):
        files = [paths[number % len(paths)] for number in range(first, min(first + per_commit, scale.position_files))]
        rows = [sorted(generator.choice(scale.rows_per_file, 20, replace=False).tolist()) for _ in files]
        pairs = zip(files, rows, strict=True)
        commit_deletes(table, *(Positions({path: some}, file_scoped=True) for path, some in pairs))
    warehouse.upgrade(table, 3)
    everything = scale.data_files * scale.rows_per_file
    per_commit = max(1, scale.equality_files // _COMMITS)
    for first in range(0, scale.equality_files, per_commit):
        count = min(per_commit, scale.equality_files - first)
        keys = [generator.integers(0, everything, 50).tolist() for _ in range(count)]
        commit_deletes(table, *(EqualTo({"id": some}) for some in keys))
    return table


def measure(directory: Path, strategy: Strategy, scale: Scale) -> Measured:
    with Warehouse(directory) as warehouse:
        table = make_table(warehouse, scale)
        before = sum(Path(path).stat().st_size for path in warehouse.files_on_disk(table))
        started = time.perf_counter()
        result = _compact(warehouse, strategy)
        seconds = time.perf_counter() - started
        after = sum(Path(path).stat().st_size for path in warehouse.files_on_disk(table))
        left = result.stats.delete_files_after
        assert result.outcome == "committed", result.outcome
        equal = _java_reads_equal(directory, result.plan.snapshot_id)
        return Measured(strategy, after - before, seconds, -1 if left is None else left, equal)


def _compact(warehouse: Warehouse, strategy: Strategy) -> CompactionResult:
    store = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    with Control(lambda _: warehouse.catalog, InlineEngine, store) as control:
        return control.compact(TableRef("lab", ("db",), "changes"), PlanOptions(strategy=strategy))


def _java_reads_equal(directory: Path, before: int | None) -> bool:
    with tempfile.TemporaryDirectory(prefix="minor-deletes-") as scratch:
        session: Any = open_session(directory, 2, Path(scratch))
        try:
            first = session.sql(f"SELECT {_CHECKSUM} FROM lab.{NAME} VERSION AS OF {before}").collect()
            second = session.sql(f"SELECT {_CHECKSUM} FROM lab.{NAME}").collect()
        finally:
            session.stop()
    print(f"  Java reads {first[0][0]:,} rows before and {second[0][0]:,} after", flush=True)
    return bool(first == second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-files", type=int, default=20)
    parser.add_argument("--rows-per-file", type=int, default=200_000)
    parser.add_argument("--position-files", type=int, default=1000)
    parser.add_argument("--equality-files", type=int, default=200)
    scale = Scale(**vars(parser.parse_args()))
    found = []
    for strategy in (Strategy.DELETES_ONLY, Strategy.FULL):
        with tempfile.TemporaryDirectory(prefix="minor-deletes-") as directory:
            measured = measure(Path(directory), strategy, scale)
        print(
            f"{strategy.value:13} wrote {format_size(measured.bytes_written)} ({measured.bytes_written:,} bytes) in "
            f"{measured.seconds:.1f} s; {measured.delete_files} deletes are left; "
            f"Java reads {'equal' if measured.java_reads_equal else 'OTHER'} rows and row ids",
            flush=True,
        )
        found.append(measured)
    minor, full = found
    print(f"a full rewrite wrote {full.bytes_written / minor.bytes_written:.0f} times as many bytes")
    if not all(measured.java_reads_equal for measured in found):
        raise SystemExit("Java reads other rows than before.")


if __name__ == "__main__":
    main()
