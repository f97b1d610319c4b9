"""A streaming table under `maintain`, as Java sees it: the same rows, fewer bytes, and then nothing to do."""

from pathlib import Path

import pytest
from pyiceberg.table import Table

from tests.builders.aged_tables import NAME, add_statistics_files, age, set_ref
from tests.builders.control import make_control
from tests.builders.events_table import BY_REGION, REF, SCHEMA, append, compact, data_files, options
from tests.oracle.client import JavaCatalog
from tidyberg.control.maintenance.maintainer import Maintainer
from tidyberg.model.maintenance import MaintenanceRequest
from tidyberg.model.maintenance_policy import MaintenancePolicy
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import EqualTo, Positions, Vectors, commit_deletes


def streaming_table(warehouse: Warehouse, version: int) -> Table:
    """Small appends, deletes of each kind, a compaction in between, statistics, and a tag on an old snapshot."""
    table = warehouse.create_table(NAME, SCHEMA, BY_REGION, format_version=version)
    append(warehouse, table, [0, 1, 2], "eu")
    append(warehouse, table, [3, 4], "us")
    if version > 1:
        delete(warehouse, table, version, 1)
    compact(warehouse)
    append(warehouse, table.refresh(), [5, 6, 7], "eu")
    append(warehouse, table, [8, 9], "us")
    if version > 1:
        delete(warehouse, table, version, 2)
    numbers = [one.snapshot_id for one in table.refresh().metadata.snapshots]
    set_ref(table, "month-end", numbers[2])
    add_statistics_files(table, numbers[:2])
    return age(table, [30.0 - number for number in range(len(numbers))])


def delete(warehouse: Warehouse, table: Table, version: int, position: int) -> None:
    newest = data_files(warehouse, table.refresh())[-1].path
    by_position = Vectors({newest: [position]}) if version > 2 else Positions({newest: [position]})
    commit_deletes(table, by_position, EqualTo({"note": ["note-1"]}, newest))


def size_on_disk(warehouse: Warehouse, table: Table) -> int:
    return sum(Path(path).stat().st_size for path in warehouse.files_on_disk(table))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_the_same_rows_from_fewer_bytes(warehouse: Warehouse, java: JavaCatalog, version: int) -> None:
    table = streaming_table(warehouse, version)
    tagged = table.metadata.refs["month-end"].snapshot_id
    rows, tagged_rows = java.rows(NAME), java.rows(NAME, snapshot_id=tagged)
    before = size_on_disk(warehouse, table)
    request = MaintenanceRequest(REF, MaintenancePolicy(), options())
    with make_control(warehouse) as control:
        result = Maintainer(control, control.now_ms).run(request)
        assert (result.outcome, result.failure) == ("done", None)
        assert java.rows(NAME) == rows
        assert java.rows(NAME, snapshot_id=tagged) == tagged_rows
        assert size_on_disk(warehouse, table) < before
        assert {one.snapshot_id for one in table.refresh().metadata.snapshots} >= {tagged}
        again = Maintainer(control, control.now_ms).run(request)
    assert {step.status for step in again.steps} <= {"nothing", "skipped"}
    assert again.outcome == "nothing"
    assert java.rows(NAME) == rows
