"""Deletes that no live file needs leave without being opened, because their file or columns may be gone [I4]."""

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSchemasUpdate

from tests.builders.control import leftovers
from tests.builders.events_table import BY_REGION, append, compact, delete_files, ids, make_table, options, paths
from tidyberg.model.options import Strategy
from tidyberg.model.plan import Skip
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes, delete_equal

MERGE = options(Strategy.DELETES_ONLY)


def forget_column(table: Table, column: str) -> None:
    """Drops a column, and removes the schemas that had it, as tools do that clean metadata."""
    with table.update_schema() as update:
        update.delete_column(column)
    old = [number for number in table.refresh().schemas() if number != table.schema().schema_id]
    with table.transaction() as transaction:
        transaction._apply((RemoveSchemasUpdate(schema_ids=old),))


@pytest.mark.parametrize("format_version", [2, 3])
def test_deletes_that_no_file_needs_leave_although_they_cannot_be_read(
    warehouse: Warehouse, format_version: int
) -> None:
    table = make_table(warehouse, BY_REGION)
    first, second, *_, last = paths(warehouse, table)
    commit_deletes(table, EqualTo({"note": ["note-1"]}, first), Positions({first: [1], second: [2]}))
    gone = delete_files(warehouse, table)
    commit_deletes(table, remove=[path for path in paths(warehouse, table) if path != last])
    append(warehouse, table, [6], "eu")
    (newest,) = {*paths(warehouse, table)} - {last}
    commit_deletes(table, Positions({newest: [0]}), Positions({newest: [1, 2]}))
    if format_version == 3:
        warehouse.upgrade(table, 3)
        commit_deletes(table, Vectors({newest: [5]}))
        delete_equal(table, newest, {"id": [63, 64]})
    before = ids(warehouse, table)
    forget_column(table, "note")
    for path in gone:
        Path(local_path(path)).unlink()

    result = compact(warehouse, MERGE)

    assert result.outcome == "committed"
    assert ids(warehouse, table) == before
    assert len(delete_files(warehouse, table)) == 1, "one for the file that is left"
    assert not leftovers(warehouse, table)
    assert compact(warehouse, MERGE).outcome == "tidy"


@pytest.mark.parametrize("strategy", [Strategy.DELETES_ONLY, Strategy.FULL, Strategy.AUTO])
def test_files_with_deletes_by_an_unknown_column_are_left_with_a_reason(
    warehouse: Warehouse, strategy: Strategy
) -> None:
    """No reader can apply such a delete. The other partition is compacted nevertheless."""
    table = make_table(warehouse, BY_REGION)
    warehouse.upgrade(table, 3)
    first, *_, last = paths(warehouse, table)
    delete_equal(table, first, {"note": ["note-1"]})
    commit_deletes(table, *(EqualTo({"id": [number]}, last) for number in (41, 42, 51)))
    forget_column(table, "note")

    result = compact(warehouse, options(strategy))

    assert result.outcome == "committed"
    verdicts = {row.partition_path: row.verdict for row in result.plan.partitions}
    skip = verdicts["region=eu"]
    assert isinstance(skip, Skip)
    assert skip.code == "delete-columns"
    assert skip.reason == "4 files with equality deletes by columns that no schema of the table has"
    assert len(delete_files(warehouse, table)) <= 3
