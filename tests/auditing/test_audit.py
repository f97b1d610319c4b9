"""An audit finds what a replace of any tool did to the rows, and classifies it correctly."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType, StringType

from tests.auditing.conftest import SpoilingRows, harms, overwrite
from tests.builders.audits import audit, audit_latest
from tests.builders.engines import Meddling
from tests.builders.events_table import (
    BY_REGION,
    SPECS,
    append,
    compact,
    data_files,
    delete_files,
    make_table,
    options,
    paths,
)
from tidyberg.auditing import auditor
from tidyberg.commit import conflicts
from tidyberg.commit.receipt import CONTENT_CHECKSUM, content_checksum
from tidyberg.commit.snapshot import Stager
from tidyberg.errors import BadInput, UnknownReference
from tidyberg.model.audit import Harm, Receipt, Verdict
from tidyberg.model.options import Strategy, VerifyMode
from tidyberg.testing import Warehouse, local_path
from tidyberg.testing.commits import commit_manifests, manifests_of
from tidyberg.testing.deletes import EqualTo, Positions, commit_deletes, delete_equal, delete_positions

OFF = VerifyMode.OFF


def head(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.parametrize("spec", list(SPECS.values()), ids=list(SPECS))
def test_our_compaction_of_a_table_with_every_kind_of_delete_is_intact(warehouse: Warehouse, spec: object) -> None:
    table = make_table(warehouse, spec)  # type: ignore[arg-type]
    first, second, *_ = paths(warehouse, table)
    delete_positions(table, first, [1, 3])
    commit_deletes(table, Positions({first: [5], second: [0, 9]}))
    delete_equal(table, second, {"id": [12, 13]})
    append(warehouse, table, [1], "eu")
    compact(warehouse)
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.receipt, audited.harms) == (Verdict.INTACT, Receipt.HOLDS, ())
    assert audited.rows_before == audited.rows_after == 63
    assert audited.files_before == 7
    assert audited.made_by.startswith("tidyberg ")


def test_every_replace_in_the_history_is_audited_newest_first(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    first = compact(warehouse).snapshot_id
    append(warehouse, table, [7, 8], "eu")
    second = compact(warehouse).snapshot_id
    report = audit(warehouse)
    assert [audited.snapshot_id for audited in report.snapshots] == [second, first]
    assert not report.is_damaged
    assert [audited.snapshot_id for audited in audit(warehouse, first).snapshots] == [first]


def test_a_dropped_row_is_reported_as_lost_with_its_former_place(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    before = paths(warehouse, table)
    compact(warehouse, engine=SpoilingRows(lambda rows: rows.filter(pa.compute.not_equal(rows["id"], 23))), verify=OFF)
    audited = audit_latest(warehouse)
    assert audited.verdict is Verdict.DAMAGED
    assert dict(audited.harms) == {Harm.LOST: 1}
    assert [(example.path, example.position) for example in audited.examples] == [(before[2], 3)]
    assert audited.receipt is Receipt.BROKEN


def test_a_changed_value_is_a_changed_row(warehouse: Warehouse) -> None:
    make_table(warehouse)

    def spoil(rows: pa.Table) -> pa.Table:
        amounts = rows["amount"].to_pylist()
        amounts[7] = 99
        return rows.set_column(2, rows.schema.field(2), pa.array(amounts, pa.int32()))

    compact(warehouse, engine=SpoilingRows(spoil), verify=OFF)
    audited = audit_latest(warehouse)
    assert dict(audited.harms) == {Harm.CHANGED: 1}
    assert len(audited.examples) == 2  # the row as it was, and as it is


def test_damage_beyond_the_limit_is_reported_as_a_minimum(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(warehouse)

    def spoil(rows: pa.Table) -> pa.Table:
        return rows.set_column(2, rows.schema.field(2), pa.array([99] * rows.num_rows, pa.int32()))

    compact(warehouse, engine=SpoilingRows(spoil), verify=OFF)
    assert harms(warehouse) == {Harm.CHANGED: 60}
    monkeypatch.setattr(auditor, "_MOST_ROWS", 20)
    audited = audit_latest(warehouse)
    assert not audited.is_exact
    assert 0 < sum(rows for _, rows in audited.harms) <= 20


def test_a_null_that_became_empty_is_a_changed_row(warehouse: Warehouse) -> None:
    make_table(warehouse)

    def spoil(rows: pa.Table) -> pa.Table:
        places = [{"city": None} if place is None else place for place in rows["place"].to_pylist()]
        return rows.set_column(4, rows.schema.field(4), pa.array(places, rows.schema.field(4).type))

    compact(warehouse, engine=SpoilingRows(spoil), verify=OFF)
    assert harms(warehouse) == {Harm.CHANGED: 12}


@pytest.mark.parametrize("by", ["position", "partition", "equality", "everywhere"])
def test_rows_come_back_when_a_delete_file_is_dropped_that_a_file_left_in_place_needs(
    warehouse: Warehouse, by: str
) -> None:
    table = make_table(warehouse)
    first, second, *_ = paths(warehouse, table)
    deletes: dict[str, Positions | EqualTo] = {
        "position": Positions({first: [2, 4]}, file_scoped=True),
        "partition": Positions({first: [2], second: [4]}),
        "equality": EqualTo({"id": [2, 14]}, like=first),
        "everywhere": EqualTo({"id": [2, 14]}),
    }
    commit_deletes(table, deletes[by])
    commit_deletes(table, remove=delete_files(warehouse, table), operation=Operation.REPLACE)
    audited = audit_latest(warehouse)
    assert dict(audited.harms) == {Harm.CAME_BACK: 2}
    assert {example.path for example in audited.examples} <= {first, second}
    assert audited.receipt is Receipt.NONE


def test_rows_deleted_while_a_compaction_ran_come_back_if_it_does_not_look(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    monkeypatch.setattr(conflicts, "_newly_deleted", lambda *_: None)
    monkeypatch.setattr(conflicts, "_of_another_history", lambda *_: None)
    compact(warehouse, engine=Meddling(lambda: delete_positions(table, first, [6])))
    audited = audit_latest(warehouse)
    assert dict(audited.harms) == {Harm.CAME_BACK: 1}
    # Whatever came of the rows, the files are those that the job wrote.
    assert audited.receipt is Receipt.HOLDS


def test_a_delete_that_is_dropped_as_dangling_too_early_brings_rows_back(warehouse: Warehouse) -> None:
    """apache/iceberg#10312: the delete and an append came during a compaction, which then saw only new files."""
    table = make_table(warehouse)

    def meddle() -> None:
        commit_deletes(table, EqualTo({"id": [3]}))
        append(warehouse, table, [9], "eu")

    compact(warehouse, engine=Meddling(meddle))
    assert audit_latest(warehouse).verdict is Verdict.INTACT
    commit_deletes(table, remove=delete_files(warehouse, table), operation=Operation.REPLACE)
    assert harms(warehouse) == {Harm.CAME_BACK: 1}


def test_a_file_that_is_listed_twice_doubles_its_rows(warehouse: Warehouse) -> None:
    table = make_table(warehouse).refresh()
    listed = manifests_of(table)
    commit_manifests(table, [*listed, listed[0]], table.metadata.new_snapshot_id(), Operation.REPLACE, {})
    assert harms(warehouse) == {Harm.DOUBLED: 10}


def test_outputs_with_too_old_a_sequence_number_lose_rows_to_an_equality_delete(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(warehouse, BY_REGION)
    eu = paths(warehouse, table)[0]
    delete_equal(table, eu, {"id": [5]})
    append(warehouse, table, [0], "eu")  # id 5 again, and it is there to stay
    stage = Stager.stage

    def stage_too_old(self: Stager, *arguments: object) -> object:
        self.sequence_number = 1
        monkeypatch.setattr("tidyberg.commit.snapshot.dangling_deletes", lambda parent, *_: parent.delete_files[:0])
        return stage(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Stager, "stage", stage_too_old)
    compact(warehouse)
    assert harms(warehouse) == {Harm.HIDDEN: 1}


def test_outputs_with_too_new_a_sequence_number_escape_a_delete(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(warehouse)
    stage = Stager.stage

    def stage_too_new(self: Stager, *arguments: object) -> object:
        self.sequence_number += 1
        return stage(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Stager, "stage", stage_too_new)
    compact(warehouse, engine=Meddling(lambda: commit_deletes(table, EqualTo({"id": [5, 15]}))))
    assert harms(warehouse) == {Harm.CAME_BACK: 2}


def test_rows_that_never_were_in_the_table_appear(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(warehouse)
    first = paths(warehouse, table)[0]
    delete_positions(table, first, list(range(10)))

    def spoil(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows, rows.slice(0, 2).set_column(0, rows.schema.field(0), pa.array([-1, -2]))])

    compact(warehouse, engine=SpoilingRows(spoil), verify=OFF)
    assert harms(warehouse) == {Harm.APPEARED: 2}


def test_a_replace_that_changes_no_file_for_a_reader_is_intact_unread(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    commit_deletes(table, operation=Operation.REPLACE)
    for path in paths(warehouse, table):
        Path(local_path(path)).unlink()
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.files_before) == (Verdict.INTACT, 0)


def test_rows_may_move_to_other_partitions(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    delete_positions(table, paths(warehouse, table)[0], [3])
    with table.update_spec() as change:
        change.add_identity("region")
    compact(warehouse, replace(options(), rewrite_to_current_spec=True))
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.HOLDS)
    assert {file.spec_id for file in data_files(warehouse, table)} == {1}


def test_schema_changes_before_and_after_make_no_difference(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    delete_equal(table, paths(warehouse, table)[0], {"amount": [2]})
    with table.update_schema() as change:
        change.add_column("more", StringType())
        change.delete_column("amount")
        change.rename_column("note", "remark")
    compact(warehouse)
    with table.refresh().update_schema() as change:
        change.delete_column("remark")
        change.add_column("note", LongType())
    assert audit_latest(warehouse).verdict is Verdict.INTACT


def test_an_expired_parent_leaves_the_receipt(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    parent = head(table)
    compact(warehouse)
    _expire(table, parent)
    audited = audit_latest(warehouse)
    assert audited.verdict is Verdict.NOT_AUDITED
    assert audited.reason in ("its parent is expired", f"its parent {parent} is expired")
    assert audited.receipt is Receipt.HOLDS


def _expire(table: Table, snapshot_id: int) -> None:
    table.refresh().maintenance.expire_snapshots().by_id(snapshot_id).commit()


def test_files_that_are_gone_are_named(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    gone = paths(warehouse, table)[1]
    compact(warehouse)
    Path(local_path(gone)).unlink()
    audited = audit_latest(warehouse)
    assert audited.verdict is Verdict.NOT_AUDITED
    assert gone in audited.reason


def test_a_receipt_breaks_when_other_bytes_hold_the_same_rows(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    compact(warehouse)
    (output,) = paths(warehouse, table)
    overwrite(output, pq.read_table(local_path(output), partitioning=None))
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.receipt) == (Verdict.INTACT, Receipt.BROKEN)
    assert audit(warehouse).is_damaged


def test_every_commit_carries_a_receipt_whatever_the_verification(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    compact(warehouse, verify=VerifyMode.OFF)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[CONTENT_CHECKSUM].startswith("sha256:")


def test_a_replace_of_rows_that_are_all_deleted_is_intact(warehouse: Warehouse) -> None:
    table = make_table(warehouse, BY_REGION)
    for path in paths(warehouse, table):
        delete_positions(table, path, list(range(10)))
    compact(warehouse, options(Strategy.FULL))
    assert data_files(warehouse, table) == []
    audited = audit_latest(warehouse)
    assert (audited.verdict, audited.receipt, audited.rows_before) == (Verdict.INTACT, Receipt.HOLDS, 0)


def test_only_replace_snapshots_that_exist_can_be_named(warehouse: Warehouse) -> None:
    table = make_table(warehouse)
    with pytest.raises(BadInput, match="append"):
        audit(warehouse, head(table))
    with pytest.raises(UnknownReference, match="no snapshot 12345"):
        audit(warehouse, 12345)


def test_a_table_that_moved_keeps_its_receipts() -> None:
    files = [("s3://a/x/one.parquet", 10, "ab"), ("s3://a/x/two.parquet", 11, "cd")]
    moved = [(path.replace("s3://a", "s3://b"), size, digest) for path, size, digest in reversed(files)]
    assert content_checksum(files) == content_checksum(moved)
    assert content_checksum(files) != content_checksum(files[:1])
    assert content_checksum(files) != content_checksum([files[0], (files[1][0], 11, "ce")])
