"""The tables of a scenario. They are built once and kept. Every side gets a fresh copy at the same path."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DATA_FILE_TYPE, DataFile
from pyiceberg.table import Table

from benchmarks.delete_files import commit_position_deletes
from benchmarks.scenarios import Scenario
from tidyberg.model.inventory import Inventory
from tidyberg.model.table import TableRef
from tidyberg.observe.cache import ManifestCache
from tidyberg.observe.inventory import take_inventory
from tidyberg.observe.pin import pin
from tidyberg.planning.deletes import DeleteIndex
from tidyberg.testing import Warehouse, local_path

_SORT_ORDER_ID = [part.name for part in DATA_FILE_TYPE[2].fields].index("sort_order_id")
TABLE = "db.events"
SMALL_TABLE = "db.small"
# Explicit, because the defaults differ: PyIceberg writes zstd and Java gzip.
CODEC = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": "3"}


@dataclass(frozen=True, slots=True)
class RowSum:
    """The number of rows and the sum of their hashes. DuckDB computes them, because neither side reads with it."""

    rows: int = 0
    hashes: int = 0

    def __add__(self, other: "RowSum") -> "RowSum":
        return RowSum(self.rows + other.rows, self.hashes + other.hashes)


class Bench:
    """A directory with an original warehouse, and a copy at a fixed path that a side may change."""

    keeps_files = False  # whether a side may leave files as they are

    def __init__(self, directory: Path, scenario: Scenario) -> None:
        self.directory = directory.absolute()
        self.scenario = scenario
        self.live = self.directory / "warehouse"
        self.catalog = self.live  # the directory of the catalog that a side works on
        self.properties: dict[str, str] = {}  # further properties of that catalog
        self._pristine = self.directory / "pristine"
        self._stamp = self.directory / "stamp.json"
        self._rows = self.directory / "rows"  # for Java to write

    def prepare(self) -> RowSum:
        """Builds the tables unless they exist. Returns the checksum of the rows that a rewrite must keep."""
        wanted = {"at": str(self.directory), **asdict(self.scenario)}
        if self._stamp.exists():
            found = json.loads(self._stamp.read_text())
            if found["scenario"] == wanted:
                return RowSum(found["rows"], int(found["hashes"]))
        shutil.rmtree(self.directory, ignore_errors=True)
        with Warehouse(self.live) as warehouse:
            expected = self.build(warehouse, TABLE, self.scenario)
            self.build(warehouse, SMALL_TABLE, self.scenario.small())
        if self.scenario.by_java:
            self._by_java("appends", {name: str(self._rows / name) for name in (TABLE, SMALL_TABLE)})
            shutil.rmtree(self._rows)
        if self.scenario.deletes is not None and self.scenario.deletes.equality_files:
            self._delete_by_equality({TABLE: self.scenario, SMALL_TABLE: self.scenario.small()})
        shutil.move(self.live, self._pristine)
        stamp = {"scenario": wanted, "rows": expected.rows, "hashes": str(expected.hashes)}
        self._stamp.write_text(json.dumps(stamp))
        return expected

    def build(self, warehouse: Warehouse, name: str, scenario: Scenario) -> RowSum:
        """Makes a table. Returns the checksum of the rows that a rewrite must keep."""
        return _make(warehouse, name, scenario, self._rows)

    def restore(self) -> None:
        """Makes a fresh copy. Data files never change, so they are hard links, and all sides share the page cache."""
        shutil.rmtree(self.live, ignore_errors=True)
        shutil.copytree(self._pristine, self.live, copy_function=_link_data)
        os.sync()  # no run should pay for the pending writes of another

    def inventory(self) -> Inventory:
        return inventory_of(self.catalog, TABLE, self.properties)

    def data_files(self) -> list[Path]:
        return data_files(self.inventory())

    def begin(self) -> None:
        """Called when the side has warmed up, before it rewrites the table."""

    def facts(self) -> dict[str, Any]:
        """Returns facts about the run that the side itself cannot know."""
        return {}

    def _delete_by_equality(self, tables: dict[str, Scenario]) -> None:
        wanted = {
            name: [asdict(found.deletes), found.files * found.rows_per_file]
            for name, found in tables.items()
            if found.deletes
        }
        self._by_java("equality", wanted)

    def _by_java(self, program: str, wanted: dict[str, Any]) -> None:
        """Runs a program in its own process. A JVM lives as long as its process, and would distort the measurement."""
        command = [sys.executable, "-m", f"benchmarks.{program}", str(self.live), json.dumps(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Java could not write what the scenario needs:\n{done.stderr[-3000:]}")

    def rows_left(self) -> RowSum:
        """Returns the checksum of the rewritten table. It may have delete files left, but none may apply."""
        inventory = self.inventory()
        files = inventory.data_files.sort_by([("partition", "ascending"), ("sequence_number", "ascending")])
        assert not DeleteIndex(files, inventory.delete_files).touched().any(), "deletes still apply to some file"
        return sum_of_files(self.data_files())


def inventory_of(directory: Path, name: str, properties: Mapping[str, str] | None = None) -> Inventory:
    with Warehouse(directory, properties=properties) as warehouse:
        table = warehouse.catalog.load_table(name)
        return take_inventory(table, pin(table, TableRef.parse(name, warehouse.name), "main"), ManifestCache())


def data_files(inventory: Inventory) -> list[Path]:
    return [Path(local_path(path)) for path in inventory.data_files["path"].to_pylist()]


def sum_of_files(paths: Iterable[Path]) -> RowSum:
    with _connection().cursor() as cursor:
        return _sum(cursor.read_parquet([str(path) for path in paths], hive_partitioning=False))


def sum_of_rows(rows: pa.Table) -> RowSum:
    with _connection().cursor() as cursor:
        return _sum(cursor.from_arrow(rows))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()  # a cursor costs a sixth of a new connection


def _sum(relation: duckdb.DuckDBPyRelation) -> RowSum:
    columns = ", ".join(f'"{name}"' for name in relation.columns)
    ((rows, hashes),) = relation.aggregate(f"count(*), sum(hash({columns})::HUGEINT)").fetchall()
    return RowSum(int(rows), int(hashes or 0))


def _make(warehouse: Warehouse, name: str, scenario: Scenario, rows_for_java: Path) -> RowSum:
    """Creates the table. Returns the checksum of its rows. If Java writes the files, it saves the rows for Java."""
    properties = {**CODEC, "write.parquet.row-group-limit": str(scenario.row_group_rows)}
    table = warehouse.create_table(name, scenario.rows_of(0).schema, properties=properties)
    if scenario.partitions:
        with table.update_spec() as update:
            update.add_identity("shard")
    if scenario.by_java:
        (rows_for_java / name).mkdir(parents=True)
        return sum((_leave(rows_for_java / name, scenario, n) for n in range(scenario.files)), RowSum())
    made = append_files(table, scenario, range(scenario.files))
    if scenario.deletes is not None and scenario.deletes.per_file:
        commit_position_deletes(table, [file.file_path for _, file in made], scenario.rows_per_file, scenario.deletes)
    return sum((rows for rows, _ in made), RowSum())


def append_files(table: Table, scenario: Scenario, numbers: Sequence[int]) -> list[tuple[RowSum, DataFile]]:
    """Appends the scenario's files of these numbers in one commit."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda number: _write(table, scenario, number), numbers))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for _, data_file in made:
            append.append_data_file(data_file)
    return made


def _leave(directory: Path, scenario: Scenario, number: int) -> RowSum:
    rows = scenario.rows_of(number)
    pq.write_table(rows, directory / f"{number:05d}.parquet")
    return sum_of_rows(rows)


def _write(table: Table, scenario: Scenario, number: int) -> tuple[RowSum, DataFile]:
    """Writes one file. Returns the checksum of its rows that will not be deleted."""
    count, deletes = scenario.rows_per_file, scenario.deletes
    rows = scenario.rows_of(number)
    (data_file,) = _dataframe_to_data_files(table.metadata, rows, table.io)
    if order := table.metadata.default_sort_order_id:
        data_file[_SORT_ORDER_ID] = order  # the rows of such tables are in their order
    if deletes is not None:
        kept = np.ones(count, np.bool_)
        kept[deletes.deleted(number, count, scenario.files)] = False
        rows = rows.filter(pa.array(kept))
    return sum_of_rows(rows), data_file


def _link_data(source: str, target: str) -> None:
    if source.endswith(".parquet"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
