"""Audits Java's own replace snapshots, and tidyberg's snapshots of tables that Java wrote."""

from tests.builders.events_table import REF
from tests.builders.java_deletes import change_rows, insert, java_deletes, make_table
from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.audit import AuditReport, Receipt, SnapshotAudit, Verdict
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse

BY_REGION = "PARTITIONED BY (region)"


def audit(warehouse: Warehouse) -> AuditReport:
    store = SqliteStore(warehouse.directory / "jobs.db", is_alive)
    with Control(lambda _: warehouse.catalog, InlineEngine, store) as control:
        return control.audit(REF)


def audit_latest(warehouse: Warehouse) -> SnapshotAudit:
    return audit(warehouse).snapshots[0]


def test_rewrites_of_java_and_of_ours_are_intact(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java, BY_REGION, "partition")
    change_rows(java)
    java_deletes(java, BY_REGION)
    java.call("rewrite_position_delete_files", table=NAME, options={"rewrite-all": "true"})
    java.call("rewrite_manifests", table=NAME)
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 6")
    compact(warehouse)
    ours, data, manifests, deletes = audit(warehouse).snapshots
    assert {audited.verdict for audited in (ours, data, manifests, deletes)} == {Verdict.INTACT}
    assert (ours.receipt, data.receipt) == (Receipt.HOLDS, Receipt.NONE)
    assert data.rows_before == data.rows_after > ours.rows_after
    assert manifests.files_before == 0
    assert deletes.files_before == deletes.files_after > 0, "files left in place whose delete files changed"


def test_a_rewrite_of_java_keeps_the_lineage_of_rows_with_deletion_vectors(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    make_table(java, BY_REGION)
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
    insert(java, 300, 320)  # from now on every row has an id
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.sql(f"UPDATE {NAME} SET amount = amount + 100 WHERE id % 10 = 4")
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    audited = audit_latest(warehouse)
    assert audited.verdict is Verdict.INTACT, audited
    assert audited.lineage_compared
    assert audited.rows_after == 288


def test_a_partial_rewrite_that_drops_deletes_it_holds_to_be_dangling_is_intact(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    make_table(java, BY_REGION)
    java_deletes(java, BY_REGION)
    options = {"rewrite-all": "true", "remove-dangling-deletes": "true"}
    java.call("rewrite_data_files", table=NAME, where='region = "eu"', options=options)
    report = audit(warehouse)
    assert not report.is_damaged, report
    assert {audited.verdict for audited in report.snapshots} == {Verdict.INTACT}


def test_statistics_are_carried_and_survive_the_expiry_of_the_parent(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    java.call("compute_table_stats", table=NAME)
    table = warehouse.catalog.load_table(NAME)
    (computed,) = table.metadata.statistics
    compact(warehouse)
    carried = table.refresh().metadata.statistics[-1]
    head = table.current_snapshot()
    assert head is not None
    assert (carried.snapshot_id, carried.statistics_path) == (head.snapshot_id, computed.statistics_path)

    java.call("expire_snapshots", table=NAME, older_than="2100-01-01 00:00:00", retain_last=1)
    (left,) = table.refresh().metadata.statistics
    assert left == carried
    with table.io.new_input(left.statistics_path).open() as stream:
        puffin = stream.read()
    assert len(puffin) == left.file_size_in_bytes
    assert puffin[:4] == puffin[-4:] == b"PFA1"
