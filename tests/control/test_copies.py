"""Compactions that copy keep the rows and row groups. Files that cannot be copied are encoded."""

import math
import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.types import StringType

from tests.builders.control import make_control
from tests.builders.footers import damage, other_type
from tests.builders.interrupted_jobs import go_on, kill
from tests.builders.sales_table import REF as REGIONAL
from tests.builders.sales_table import REGIONS, regional
from tidyberg.commit.receipt import CONTENT_CHECKSUM, COPIED_FILES, FOOTER_CHECKSUM, copied_files, receipt
from tidyberg.control.control import Control
from tidyberg.errors import DamagedFile
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.kernel.copy import merge
from tidyberg.model.audit import Receipt, Verdict
from tidyberg.model.options import PlanOptions, RewriteMode, Strategy, VerifyMode
from tidyberg.model.report import CompactionResult
from tidyberg.model.table import TableRef
from tidyberg.model.task import WrittenFile
from tidyberg.parquet.fields import GroupField, changed
from tidyberg.parquet.thrift import Struct
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
    assert control.compact(REF, COPY).outcome == "tidy"


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


def receipt_of(table: Table) -> dict[str, str]:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    names = (CONTENT_CHECKSUM, FOOTER_CHECKSUM, COPIED_FILES)
    return {name: value for name, value in snapshot.summary.additional_properties.items() if name in names}


def test_an_audit_finds_a_copy_intact_and_its_footers_as_they_were_written(
    warehouse: Warehouse, table: Table, control: Control
) -> None:
    control.compact(REF, COPY)
    (audited,) = control.audit(REF).snapshots
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.FOOTERS_HOLD)
    found = receipt_of(table)
    assert found.keys() == {FOOTER_CHECKSUM, COPIED_FILES}  # nobody saw the contents
    assert found[COPIED_FILES] == "0"


def _numbered_in_part(original: Callable[..., Struct]) -> Callable[..., Struct]:
    def row_group(*args: Any) -> Struct:
        group = original(*args)
        return changed(group, {GroupField.ORDINAL: None}) if group[GroupField.ORDINAL][1] % 2 else group

    return row_group


@pytest.mark.unwatched  # by the checker, which would find it
def test_an_audit_finds_copies_that_some_readers_refuse_and_names_the_command_that_rewrites_them(
    warehouse: Warehouse, table: Table, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an earlier version wrote them, where only some inputs numbered their row groups."""
    rows = warehouse.rows(table)
    with monkeypatch.context() as earlier:
        earlier.setattr(merge, "_row_group", _numbered_in_part(merge._row_group))
        control.compact(REF, COPY)
    (file,) = warehouse.live_files(table)
    report = control.audit(REF)
    assert (report.snapshots[0].verdict, report.snapshots[0].receipt) == (Verdict.INTACT, Receipt.FOOTERS_HOLD)
    assert report.snapshots[0].partly_numbered == (file.path,)
    assert not report.is_damaged
    size = Path(local_path(file.path)).stat().st_size // 2
    command = f"tidyberg compact {REF} --strategy full --mode encode --force --target-file-size {size}B"
    assert report.repair == command
    with pytest.raises(Exception, match="Inconsistent ordinal"):
        datafusion.SessionContext().read_parquet(local_path(file.path)).count()
    result = control.compact(
        REF, PlanOptions(strategy=Strategy.FULL, mode=RewriteMode.ENCODE, force=True, target_file_size=size)
    )
    assert result.outcome == "committed"
    assert file.path not in {each.path for each in warehouse.live_files(table)}
    for each in warehouse.live_files(table):
        assert datafusion.SessionContext().read_parquet(local_path(each.path)).count() > 0
    assert warehouse.rows(table) == rows
    report = control.audit(REF)
    assert ([one.partly_numbered for one in report.snapshots], report.repair) == ([(), ()], "")


@pytest.mark.unwatched
def test_an_audit_finds_such_copies_though_their_snapshot_is_expired(
    warehouse: Warehouse, table: Table, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(merge, "_row_group", _numbered_in_part(merge._row_group))
        control.compact(REF, COPY)
    (file,) = warehouse.live_files(table)
    compaction = table.refresh().current_snapshot()
    assert compaction is not None
    table.append(table.scan(limit=5).to_arrow())
    table.refresh()
    table.maintenance.expire_snapshots().by_id(compaction.snapshot_id).commit()
    report = control.audit(REF)
    assert (report.snapshots, report.partly_numbered) == ((), (file.path,))
    assert "--mode encode --force" in report.repair
    assert not report.is_damaged


@pytest.mark.parametrize("change", ["footer", "longer", "shorter"])
def test_a_receipt_breaks_with_the_footer_or_the_size_of_a_copy(
    warehouse: Warehouse, table: Table, control: Control, change: str
) -> None:
    control.compact(REF, COPY)
    (file,) = warehouse.live_files(table)
    path = Path(local_path(file.path))
    content = path.read_bytes()
    if change == "footer":
        at = content.rindex(b"parquet-cpp")
        path.write_bytes(content[:at] + b"P" + content[at + 1 :])
    else:
        path.write_bytes(content + content[-200:] if change == "longer" else content[:-1])
    (audited,) = control.audit(REF).snapshots
    assert audited.receipt is Receipt.BROKEN


def test_a_commit_of_copied_and_encoded_files_says_which_are_which(warehouse: Warehouse, control: Control) -> None:
    table = regional(warehouse, regions=REGIONS)
    first = warehouse.live_files(table)[0]
    commit_deletes(table, Positions({first.path: [0]}))  # of one partition, which is encoded
    result = control.compact(REGIONAL, COPY)
    assert result.job.copied.groups == len(REGIONS) - 1
    (audited,) = control.audit(REGIONAL).snapshots
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.FOOTERS_HOLD)
    copied = copied_files([file.path for file in warehouse.live_files(table)], receipt_of(table)[COPIED_FILES])
    assert len(copied) == len(REGIONS) - 1
    (encoded,) = [file.path for file in warehouse.live_files(table) if file.path not in copied]
    content = bytearray(Path(local_path(encoded)).read_bytes())
    content[50] ^= 1  # of an encoded file every byte is known
    Path(local_path(encoded)).write_bytes(content)
    (audited,) = control.audit(REGIONAL).snapshots
    assert audited.receipt is Receipt.BROKEN


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_a_receipt_lists_copies_by_their_position(kinds: list[bool]) -> None:
    blank = WrittenFile("", 1, 1, {}, {}, {}, {}, {}, {}, ())
    copied, encoded = replace(blank, footer_digest="ab"), replace(blank, digest="ab")
    files = [
        replace(copied if is_copied else encoded, path=f"s3://b/x{number % 3}/f{number:03d}.parquet")
        for number, is_copied in enumerate(kinds)
    ]
    found = receipt(files[::-1])
    assert (CONTENT_CHECKSUM in found) == (not any(kinds))
    moved = [file.path.replace("s3://b/", "s3://elsewhere/") for file in files]
    expected = {path for path, is_copied in zip(moved, kinds, strict=True) if is_copied}
    assert (copied_files(moved, found[COPIED_FILES]) if COPIED_FILES in found else set()) == expected
    assert receipt([*files, replace(blank, path="s3://b/z")]) == {}


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


def test_nan_counts_of_manifests_are_kept_for_copies(warehouse: Warehouse, control: Control) -> None:
    table = warehouse.create_table(schema=pa.schema([("id", pa.int64()), ("ratio", pa.float64())]))
    for first in range(0, 4000, 1000):
        ids = range(first, first + 1000)
        ratios = [math.nan if number % 100 == 0 else number / 7 for number in ids]
        table.append(pa.table({"id": ids, "ratio": ratios}))
    control.compact(REF, COPY)
    (scan,) = table.refresh().scan().plan_files()
    assert 2 not in scan.file.nan_value_counts  # PyIceberg does not count NaN
    assert 2 not in scan.file.lower_bounds
    control.compact(
        REF, replace(COPY, mode=RewriteMode.ENCODE, force=True, target_file_size=scan.file.file_size_in_bytes // 3)
    )
    assert len(warehouse.live_files(table)) > 1
    assert control.compact(REF, replace(COPY, force=True)).job.copied.groups == 1
    (scan,) = table.refresh().scan().plan_files()
    assert scan.file.nan_value_counts == {2: 40}
    assert 2 not in scan.file.lower_bounds  # to Spark NaN is above them
    assert len(list(table.scan(row_filter="ratio > 572").plan_files())) == 1
    assert table.scan(row_filter="ratio is nan").to_arrow().num_rows == 40


def compact_inline(directory: str) -> None:
    """In a process of its own."""
    with Warehouse(directory) as warehouse, make_control(warehouse, InlineEngine()) as control:
        control.compact(REF, replace(COPY, mode=RewriteMode.ENCODE))


def test_a_file_that_crashed_a_process_is_named_by_the_next_job(warehouse: Warehouse, table: Table) -> None:
    """Arrow does not survive some damage, and takes the process along that encodes."""
    path = local_path(warehouse.live_files(table)[2].path)
    names = [column.path for column in pq.read_metadata(path).schema]
    damage(Path(path), other_type, names.index("name"))
    process = multiprocessing.get_context("forkserver").Process(target=compact_inline, args=(str(warehouse.directory),))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGABRT
    with (
        make_control(warehouse, InlineEngine()) as control,
        pytest.raises(DamagedFile, match="has a damaged footer: column name") as raised,
    ):
        control.compact(REF, replace(COPY, mode=RewriteMode.ENCODE))
    assert path in raised.value.message
