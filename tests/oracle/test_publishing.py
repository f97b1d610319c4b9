"""Java publishes branches and staged snapshots after a compaction. Shows which of them a compaction breaks."""

import pytest

from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog, OracleError
from tidyberg.testing import Warehouse


@pytest.fixture
def staging(java: JavaCatalog) -> JavaCatalog:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(f"CREATE TABLE {NAME} (id BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled' = 'true')")
    for number in range(3):
        java.sql(f"INSERT INTO {NAME} SELECT id FROM range({number * 10}, {number * 10 + 10})")
    return java


def staged_snapshot(java: JavaCatalog, statement: str) -> int:
    java.sql("SET spark.wap.id=nightly")
    java.sql(statement)
    java.sql("RESET spark.wap.id")
    found: int = java.sql(f"SELECT snapshot_id FROM {NAME}.snapshots WHERE summary['wap.id'] = 'nightly'")[0][0]
    return found


def test_a_branch_cannot_be_published_once_main_was_compacted(warehouse: Warehouse, staging: JavaCatalog) -> None:
    staging.sql(f"ALTER TABLE {NAME} CREATE BRANCH audit")
    staging.sql(f"INSERT INTO {NAME}.branch_audit VALUES (100)")
    compact(warehouse, expect="refused")
    compact(warehouse, ignore_wap_branches=True)
    with pytest.raises(OracleError, match="fast-forward"):
        staging.call("fast_forward", table=NAME, branch="main", to="audit")


def test_a_branch_left_alone_can_be_published(warehouse: Warehouse, staging: JavaCatalog) -> None:
    staging.sql(f"ALTER TABLE {NAME} CREATE BRANCH audit")
    staging.sql(f"INSERT INTO {NAME}.branch_audit VALUES (100)")
    compact(warehouse, expect="refused")
    staging.call("fast_forward", table=NAME, branch="main", to="audit")
    assert len(staging.rows(NAME)) == 31
    compact(warehouse)
    assert len(staging.rows(NAME)) == 31


def test_a_staged_append_can_be_picked_after_a_compaction(warehouse: Warehouse, staging: JavaCatalog) -> None:
    staged = staged_snapshot(staging, f"INSERT INTO {NAME} VALUES (100)")
    compact(warehouse)
    staging.call("cherrypick_snapshot", table=NAME, snapshot_id=staged)
    assert len(staging.rows(NAME)) == 31


def test_a_staged_delete_could_not_be_picked_after_a_compaction(warehouse: Warehouse, staging: JavaCatalog) -> None:
    staged = staged_snapshot(staging, f"DELETE FROM {NAME} WHERE id = 5")
    compact(warehouse, expect="refused")
    compact(warehouse, ignore_wap_branches=True)
    with pytest.raises(OracleError, match="fast-forward"):
        staging.call("cherrypick_snapshot", table=NAME, snapshot_id=staged)
