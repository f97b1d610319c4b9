"""A job whose outputs are wrong commits nothing and leaves nothing behind, and Java would have noticed."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.builders.engines import Spoiling
from tests.builders.java_tables import NAME, make_table
from tests.oracle.client import JavaCatalog
from tidyberg.control.control import Control
from tidyberg.errors import VerificationFailed
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.model.task import TaskResult, WrittenFile
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse, local_path

Spoil = Callable[[TaskResult], TaskResult]
COUNT_ID = 2


def compact(warehouse: Warehouse, spoil: Spoil, verify: VerifyMode) -> CompactionResult:
    store = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    with Control(lambda _: warehouse.catalog, lambda: Spoiling(spoil), store) as control:
        options = PlanOptions(strategy=Strategy.FULL, min_input_files=2)
        return control.compact(TableRef.parse(NAME, warehouse.name), options, verify=verify)


@contextmanager
def refused(warehouse: Warehouse, said: str) -> Iterator[None]:
    """The block fails verification, and the table and its directory are as before."""
    table = warehouse.catalog.load_table(NAME)
    snapshot, rows = table.metadata.current_snapshot_id, warehouse.rows(table)
    files = {path for path in warehouse.files_on_disk(table) if Path(path).suffix == ".parquet"}
    with pytest.raises(VerificationFailed, match=said):
        yield
    assert table.refresh().metadata.current_snapshot_id == snapshot
    assert warehouse.rows(table) == rows
    assert {path for path in warehouse.files_on_disk(table) if Path(path).suffix == ".parquet"} == files


def change_outputs(change: Callable[[WrittenFile], WrittenFile]) -> Spoil:
    return lambda result: replace(result, outputs=tuple(change(output) for output in result.outputs))


def rewrite_file(output: WrittenFile, change: Callable[[pa.Table], pa.Table]) -> None:
    """The output itself with other contents, behind the back of everything that was counted."""
    path = local_path(output.path)
    contents = pq.read_table(path, partitioning=None)
    pq.write_table(change(contents).cast(contents.schema), path)


def low_upper_bound(output: WrittenFile) -> WrittenFile:
    """As if the highest count were a hundred."""
    return replace(output, upper_bounds={**output.upper_bounds, COUNT_ID: struct.pack("<i", 100)})


def swap_names(result: TaskResult) -> TaskResult:
    """The first two rows exchange their names: no count, null or bound changes."""

    def change(table: pa.Table) -> pa.Table:
        names = table["name"].to_pylist()
        first, second = 0, next(i for i, name in enumerate(names) if name != names[0])
        names[first], names[second] = names[second], names[first]
        position = table.schema.get_field_index("name")
        return table.set_column(position, table.schema.field("name"), pa.array(names, table["name"].type))

    rewrite_file(result.outputs[0], change)
    size = Path(local_path(result.outputs[0].path)).stat().st_size
    return replace(result, outputs=(replace(result.outputs[0], size=size), *result.outputs[1:]))


def test_a_wrong_bound_is_refused(warehouse: Warehouse) -> None:
    make_table(warehouse)
    with refused(warehouse, "column count: the manifest would say that 100 is the highest value"):
        compact(warehouse, change_outputs(low_upper_bound), VerifyMode.COUNTS)


def test_java_would_lose_rows_by_a_wrong_bound(warehouse: Warehouse, java: JavaCatalog) -> None:
    """The control of the oracle's filter tests: they can fail."""
    make_table(warehouse)
    before = java.rows(NAME, "count > 50000")
    compact(warehouse, change_outputs(low_upper_bound), VerifyMode.OFF)
    assert before
    assert java.rows(NAME, "count > 50000") == []


def test_a_lost_output_is_refused(warehouse: Warehouse) -> None:
    make_table(warehouse)
    with refused(warehouse, "240 rows were written, but the outputs hold 0"):
        compact(warehouse, lambda result: replace(result, outputs=()), VerifyMode.COUNTS)


def test_a_lost_row_is_refused(warehouse: Warehouse) -> None:
    make_table(warehouse)
    with refused(warehouse, "the outputs hold 239"):
        compact(
            warehouse,
            change_outputs(lambda output: replace(output, records=output.records - 1)),
            VerifyMode.COUNTS,
        )


def test_values_that_changed_rows_are_refused_by_full_verification(warehouse: Warehouse) -> None:
    make_table(warehouse)
    with refused(warehouse, "checksum"):
        compact(warehouse, swap_names, VerifyMode.FULL)


def test_a_null_that_became_empty_is_refused_by_full_verification(warehouse: Warehouse) -> None:
    make_table(warehouse)

    def empty_for_null(result: TaskResult) -> TaskResult:
        def change(table: pa.Table) -> pa.Table:
            position = table.schema.get_field_index("tags")
            filled: Any = [tags if tags is not None else [] for tags in table["tags"].to_pylist()]
            assert pc.sum(pc.is_null(table["tags"])).as_py() > 0
            return table.set_column(position, table.schema.field("tags"), pa.array(filled, table["tags"].type))

        rewrite_file(result.outputs[0], change)
        size = Path(local_path(result.outputs[0].path)).stat().st_size
        return replace(result, outputs=(replace(result.outputs[0], size=size), *result.outputs[1:]))

    with refused(warehouse, "checksum"):
        compact(warehouse, empty_for_null, VerifyMode.FULL)
