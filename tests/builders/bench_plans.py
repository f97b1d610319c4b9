"""Plans and table copies for the tests of `tidyberg bench`."""

from pathlib import Path

from pyiceberg.table import Table

from tidyberg.benchmarking.copy_table import copy_table
from tidyberg.benchmarking.sample import BenchmarkSample
from tidyberg.benchmarking.scratch import REF, Scratch
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.plan import Plan
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse

NO_LIMIT = 2**40

FULL = PlanOptions(strategy=Strategy.FULL, force=True, min_input_files=2)


def planned(warehouse: Warehouse, tmp_path: Path) -> Plan:
    with Control(lambda _: warehouse.catalog, InlineEngine, SqliteStore(tmp_path / "planning.db", is_alive)) as control:
        return control.plan(TableRef.parse("db.events", warehouse.name), FULL)


def put_copy(scratch: Scratch, table: Table, choice: BenchmarkSample) -> Table:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    scratch.put(copy_table(table, snapshot, choice, scratch.io, scratch.location))
    return scratch.open_catalog().load_table((*REF.namespace, REF.name))
