"""Java reads sorted tables that tidyberg compacted: equal rows, in order, with the claim of their sort order."""

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.sorted_tables import (
    append_claiming,
    claims,
    create_sorted_table,
    files_in_order,
    in_order,
    rows_from,
)
from tests.oracle.client import JavaCatalog
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.testing import Warehouse, local_path

NAME = "db.events"
FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


@pytest.mark.parametrize("version", [2, 3])
def test_java_sees_the_order_of_files_that_were_merged_in_it(
    warehouse: Warehouse, java: JavaCatalog, version: int
) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, [in_order(rows_from(number, 300, step=4)) for number in range(4)])
    if version > 2:
        warehouse.upgrade(table, version)
        java.sql(f"INSERT INTO {NAME} VALUES (-1, 'one more')")  # rows get ids with the first commit
        java.sql(f"DELETE FROM {NAME} WHERE id = -1")
    ids = "_row_id, id, name" if version > 2 else "id, name"
    before = sorted(java.sql(f"SELECT {ids} FROM {NAME}"), key=repr)
    with make_control(warehouse) as control:
        result = control.compact(REF, FULL, verify=VerifyMode.FULL)
    assert [group.mode for group in result.plan.groups] == ["merge"]
    assert sorted(java.sql(f"SELECT {ids} FROM {NAME}"), key=repr) == before
    assert java.sql(f"SELECT sort_order_id FROM {NAME}.files") == [(1,)]
    wanted = java.sql(f"SELECT id, name FROM {NAME} ORDER BY id DESC NULLS LAST, name ASC NULLS FIRST")
    assert java.sql(f"SELECT id, name FROM {NAME}") == wanted, "Spark reads a single file in its order"
    (path,) = table.refresh().inspect.files()["file_path"].to_pylist()
    stored = [tuple(row.values()) for row in pq.ParquetFile(local_path(path)).read(["id", "name"]).to_pylist()]
    assert stored == wanted
    query = f"SELECT id, name FROM read_parquet('{local_path(path)}', file_row_number=true) ORDER BY file_row_number"
    assert duckdb.execute(query).fetchall() == wanted


def test_files_that_java_sorted_are_merged_if_it_claims_their_order(warehouse: Warehouse, java: JavaCatalog) -> None:
    table = create_sorted_table(warehouse)
    for number in range(3):
        values = ", ".join(f"({(17 * row + number) % 50}, 'n{row % 5}')" for row in range(40))
        java.sql(f"INSERT INTO {NAME} VALUES {values}, (null, 'x')")
    claimed = set(claims(table))
    before = java.rows(NAME)
    with make_control(warehouse) as control:
        result = control.compact(REF, FULL, verify=VerifyMode.FULL)
    assert java.rows(NAME) == before
    if claimed == {1}:
        assert [group.mode for group in result.plan.groups] == ["merge"]
        assert files_in_order(table)
        assert java.sql(f"SELECT sort_order_id FROM {NAME}.files") == [(1,)]
    else:
        assert len(result.plan.warnings) == 1, "without a claim the order is not kept, and the plan says so"
        assert set(claims(table)) <= {None, 0}
