"""Compactions that copy: the same rows in the same row groups, what cannot be copied is encoded."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.types import StringType

from tests.commit.test_publish import regional
from tests.control.test_chunks import REGIONS
from tests.control.test_resume import go_on, kill
from tidyberg.commit.receipt import CONTENT_CHECKSUM
from tidyberg.control.control import Control
from tidyberg.model.audit import Receipt, Verdict
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import Positions, commit_deletes
from tidyberg.testing.warehouse import local_path

REF = TableRef("lab", ("db",), "events")
COPY = PlanOptions(strategy=Strategy.FULL, min_input_files=2, mode=RewriteMode.COPY)


@pytest.fixture
def table(warehouse: Warehouse) -> Table:
    return warehouse.append_files(warehouse.create_table(), 6, 200)


def row_groups(warehouse: Warehouse, table: Table) -> list[tuple[int, int]]:
    footers = [pq.read_metadata(local_path(file.path)) for file in warehouse.live_files(table)]
    groups = [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]
    return sorted((group.num_rows, group.total_byte_size) for group in groups)


@pytest.mark.parametrize("verify", [VerifyMode.COUNTS, VerifyMode.FULL])
def test_a_copied_table_has_the_same_rows_in_the_same_row_groups(
    warehouse: Warehouse, table: Table, control: Control, verify: VerifyMode
) -> None:
    rows, groups = warehouse.rows(table), row_groups(warehouse, table)
    result = control.compact(REF, COPY, verify=verify)
    assert (result.stats.files_before, result.stats.files_after) == (6, 1)
    assert (result.job.copied.groups, result.job.copied.files) == (1, 6)
    assert result.job.copied.bytes == result.stats.bytes_before
    assert warehouse.rows(table) == rows
    assert row_groups(warehouse, table) == groups
    assert control.compact(REF, COPY).outcome == "nothing"


def test_a_plan_copies_by_itself_what_has_row_groups_large_enough(
    warehouse: Warehouse, table: Table, control: Control
) -> None:
    asked = replace(COPY, mode=RewriteMode.AUTO)
    assert {group.mode for group in control.plan(REF, asked).groups} == {"encode"}
    assert control.compact(REF, replace(asked, copy_min_row_group_bytes=1000)).job.copied.groups == 1


def encoded_instead(result: CompactionResult) -> str:
    assert result.job.copied.groups == 0
    ((reason, groups),) = result.job.copied.encoded_instead.items()
    assert groups == 1
    return reason


def test_files_of_another_schema_are_encoded_and_the_job_says_why(
    warehouse: Warehouse, table: Table, control: Control
) -> None:
    with table.update_schema() as update:
        update.add_column("later", StringType())
    rows = warehouse.rows(table)
    result = control.compact(REF, COPY)
    assert [group.mode for group in result.plan.groups] == ["copy"]
    reason = encoded_instead(result)
    assert "schema" in reason
    assert "file://" not in reason
    assert warehouse.rows(table) == rows


def test_the_worker_judges_row_groups_by_their_footers(warehouse: Warehouse, table: Table, control: Control) -> None:
    sizes = [Path(local_path(file.path)).stat().st_size for file in warehouse.live_files(table)]
    average = sum(sizes) // len(sizes)  # of files: row groups are smaller
    asked = replace(COPY, mode=RewriteMode.AUTO, copy_min_row_group_bytes=average)
    assert {group.mode for group in control.plan(REF, asked).groups} == {"copy"}
    assert "row groups have" in encoded_instead(control.compact(REF, asked))


def test_rows_are_deleted_by_encoding_although_a_copy_was_asked_for(
    warehouse: Warehouse, table: Table, control: Control
) -> None:
    first = warehouse.live_files(table)[0].path
    commit_deletes(table, Positions({first: [0, 5]}))
    rows = warehouse.rows(table)
    result = control.compact(REF, COPY)
    assert {(group.mode, group.mode_reason) for group in result.plan.groups} == {("encode", "deletes apply")}
    assert warehouse.rows(table) == rows
    assert result.job.copied.groups == 0


def test_an_audit_finds_a_copy_intact_and_no_receipt_for_bytes_that_nobody_saw(
    warehouse: Warehouse, table: Table, control: Control
) -> None:
    control.compact(REF, COPY)
    (audited,) = control.audit(REF).snapshots
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.NONE)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert CONTENT_CHECKSUM not in snapshot.summary.additional_properties


def test_copies_of_a_dead_job_are_made_again(warehouse: Warehouse) -> None:
    table = regional(warehouse, regions=REGIONS)
    rows = warehouse.rows(table)
    kill(warehouse, options=COPY)
    assert len(go_on(warehouse, COPY)) == len(REGIONS)
    assert warehouse.rows(table) == rows
    assert warehouse.files_on_disk(table) == warehouse.referenced_files(table)


def test_copied_files_say_what_they_hold(warehouse: Warehouse, table: Table, control: Control) -> None:
    before = pa.concat_tables([pq.read_table(local_path(file.path)) for file in warehouse.live_files(table)])
    control.compact(REF, COPY)
    (scan,) = table.refresh().scan(row_filter="id = 3000050").plan_files()
    assert scan.file.record_count == before.num_rows
    assert table.scan(row_filter="id = 3000050").to_arrow().num_rows == 1
    assert list(table.scan(row_filter="id > 9000000000").plan_files()) == []
