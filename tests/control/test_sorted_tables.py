"""A compaction of a sorted table keeps it sorted where the files claim its order, and says when it cannot."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

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
from tidyberg.control.control import Control
from tidyberg.errors import VerificationFailed
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import delete_rows
from tidyberg.testing.warehouse import local_path

FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


@pytest.fixture
def control(warehouse: Warehouse) -> Iterator[Control]:
    with make_control(warehouse) as made:
        yield made


def rows(table: Table) -> list[str]:
    return sorted(str(row) for row in table.refresh().scan().to_arrow().to_pylist())


def runs(count: int = 4) -> list[pa.Table]:
    return [in_order(rows_from(number, 200, step=count)) for number in range(count)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.SMALL_FILES, Strategy.AUTO])
def test_files_that_claim_the_order_are_merged_in_it(
    warehouse: Warehouse, control: Control, version: int, strategy: Strategy
) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    if version > 2:
        table = warehouse.upgrade(table, version)
    before = rows(table)
    result = control.compact(REF, replace(FULL, strategy=strategy), verify=VerifyMode.FULL)
    assert result.outcome == "committed"
    assert [(group.mode, group.mode_reason) for group in result.plan.groups] == [
        ("merge", "files are in the table's order")
    ]
    assert result.plan.warnings == ()
    assert claims(table) == [1]
    assert files_in_order(table)
    assert rows(table) == before


def test_a_false_claim_does_not_survive(warehouse: Warehouse, control: Control) -> None:
    """These rows fit into memory, so they are sorted, whatever the files claim."""
    table = create_sorted_table(warehouse)
    append_claiming(table, [rows_from(number, 100) for number in range(3)])
    before = rows(table)
    assert not files_in_order(table)
    control.compact(REF, FULL, verify=VerifyMode.FULL)
    assert claims(table) == [1]
    assert files_in_order(table)
    assert rows(table) == before


def test_deleted_rows_leave_while_sorted_files_are_merged(warehouse: Warehouse, control: Control) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    delete_rows(table, {path: [0, 5] for path in table.refresh().inspect.files()["file_path"].to_pylist()})
    before = rows(table)
    result = control.compact(REF, FULL, verify=VerifyMode.FULL)
    assert [group.mode for group in result.plan.groups] == ["merge"]
    assert claims(table) == [1]
    assert files_in_order(table)
    assert rows(table) == before


def test_a_group_in_which_some_files_claim_no_order_gets_no_claim_and_a_warning(
    warehouse: Warehouse, control: Control
) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    append_claiming(table, [rows_from(1, 50)], claim=None, name="other")
    result = control.compact(REF, FULL)
    (warning,) = result.plan.warnings
    assert "the table has a sort order (1), and rows of 5 files are not sorted" in warning
    assert "4 files written in that order are among them" in warning
    assert claims(table) in ([None], [0])


def test_files_that_claim_an_older_order_are_not_merged_in_it(warehouse: Warehouse, control: Control) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    with table.update_sort_order() as update:
        update.asc("name", IdentityTransform())
    result = control.compact(REF, FULL)
    assert [group.mode for group in result.plan.groups] == ["encode"]
    assert len(result.plan.warnings) == 1
    assert claims(table) in ([None], [0])


def test_a_copy_that_was_asked_for_is_made_and_loses_the_order_with_a_warning(
    warehouse: Warehouse, control: Control
) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    result = control.compact(REF, replace(FULL, mode=RewriteMode.COPY))
    assert [group.mode for group in result.plan.groups] == ["copy"]
    assert len(result.plan.warnings) == 1
    assert claims(table) in ([None], [0])


def test_a_second_compaction_does_nothing(warehouse: Warehouse, control: Control) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    options = replace(FULL, strategy=Strategy.SMALL_FILES)
    assert control.compact(REF, options).outcome == "committed"
    assert control.compact(REF, options).outcome != "committed"
    assert claims(table) == [1]


def test_full_verification_finds_an_output_that_is_not_in_the_order_it_claims(
    warehouse: Warehouse, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    before = table.refresh().metadata.current_snapshot_id
    original = pq.ParquetWriter.write_table

    def turned(self: pq.ParquetWriter, rows: pa.Table, **options: object) -> None:
        original(self, rows.take(pa.array(range(rows.num_rows - 1, -1, -1))), **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", turned)
    with pytest.raises(VerificationFailed, match="is less than the row before it, but the manifest would claim"):
        control.compact(REF, FULL, verify=VerifyMode.FULL)
    assert table.refresh().metadata.current_snapshot_id == before


def test_later_deletes_and_reads_see_a_merged_table_as_before(warehouse: Warehouse, control: Control) -> None:
    table = create_sorted_table(warehouse)
    append_claiming(table, runs())
    control.compact(REF, FULL)
    (path,) = table.refresh().inspect.files()["file_path"].to_pylist()
    ids = pq.ParquetFile(local_path(path)).read()["id"].to_pylist()
    known = [number for number in ids if number is not None]
    assert known == sorted(known, reverse=True)
    assert ids[: len(known)] == known, "nulls come last"
    assert len(table.scan(row_filter=f"id = {known[0]}").to_arrow()) == known.count(known[0])
