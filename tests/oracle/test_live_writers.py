"""Java commits between any two stages of a compaction. The rows are the same as without the compaction.

Each writer commits at one moment of the job. With TEST_MOMENTS=all, it is tried at every moment.
"""

import itertools
import os
from collections.abc import Callable

import pytest

from tests.builders.control import make_control
from tests.machine.steps import AtMoment, Moment
from tests.oracle.client import JavaCatalog
from tidyberg.errors import Conflict, StalePlan
from tidyberg.model.options import PlanOptions, Strategy, VerifyMode
from tidyberg.model.table import TableRef
from tidyberg.testing import Warehouse

OURS, ALONE = "db.ours", "db.alone"
OPTIONS = PlanOptions(strategy=Strategy.FULL, min_input_files=2, hot_commits=10_000)
Write = Callable[[JavaCatalog, str], object]


def insert(java: JavaCatalog, table: str, start: int = 1000) -> None:
    java.sql(
        f"INSERT INTO {table} (id, region, amount, note) SELECT id, IF(id % 2 = 0, 'eu', 'us'), CAST(id % 7 AS INT), "
        f"concat('note-', id % 3) FROM range({start}, {start + 20})"
    )


def overwrite(java: JavaCatalog, table: str) -> None:
    java.set_conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    java.sql(f"INSERT OVERWRITE {table} SELECT 5, 'eu', 1, 'overwritten'")


def merge(java: JavaCatalog, table: str) -> None:
    java.sql(
        f"MERGE INTO {table} AS t USING (SELECT id * 5 AS id FROM range(0, 6)) AS s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, region, amount, note) VALUES (s.id, 'eu', 0, 'new')"
    )


def merge_by_copying(java: JavaCatalog, table: str) -> None:
    java.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
    merge(java, table)


def delete_keys(java: JavaCatalog, table: str) -> None:
    java.equality_delete(table, {"id": [4, 6]}, ("eu",))
    java.sql(f"INSERT INTO {table} VALUES (4, 'eu', 4, 'back again')")


def change_columns(java: JavaCatalog, table: str) -> None:
    java.sql(f"ALTER TABLE {table} ADD COLUMN late STRING")
    java.sql(f"ALTER TABLE {table} ALTER COLUMN amount TYPE BIGINT")
    java.sql(f"ALTER TABLE {table} RENAME COLUMN note TO remark")


def change_spec(java: JavaCatalog, table: str) -> None:
    java.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    insert(java, table)


def expire(java: JavaCatalog, table: str) -> None:
    insert(java, table)
    java.call("expire_snapshots", table=table, older_than="2100-01-01 00:00:00", retain_last=1)


def rewrite(java: JavaCatalog, table: str) -> None:
    java.call("rewrite_data_files", table=table, options={"rewrite-all": "true"})


def rewrite_manifests(java: JavaCatalog, table: str) -> None:
    java.call("rewrite_manifests", table=table)


def rewrite_deletes(java: JavaCatalog, table: str) -> None:
    java.call("rewrite_position_delete_files", table=table, options={"rewrite-all": "true"})


def roll_back(java: JavaCatalog, table: str) -> None:
    history = java.sql(f"SELECT snapshot_id FROM {table}.history ORDER BY made_current_at")
    java.call("rollback_to_snapshot", table=table, snapshot_id=history[-2][0])


def upgrade(java: JavaCatalog, table: str) -> None:
    java.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    merge(java, table)


WRITES: dict[str, tuple[int, Write]] = {
    "append": (2, insert),
    "overwrite": (2, overwrite),
    "merge-by-copying": (2, merge_by_copying),
    "merge-with-position-deletes": (2, merge),
    "merge-with-deletion-vectors": (3, merge),
    "equality-deletes": (2, delete_keys),
    "equality-deletes-of-version-3": (3, delete_keys),
    "schema": (2, change_columns),
    "spec": (2, change_spec),
    "expiration": (2, expire),
    "rewrite-of-data-files": (2, rewrite),
    "rewrite-of-manifests": (2, rewrite_manifests),
    "rewrite-of-position-deletes": (2, rewrite_deletes),
    "rollback": (2, roll_back),
    "upgrade": (2, upgrade),
}
# These remove no file or row that a running compaction needs, so the compaction must succeed.
HARMLESS = (
    "append",
    "equality-deletes",
    "equality-deletes-of-version-3",
    "schema",
    "spec",
    "expiration",
    "rewrite-of-manifests",
    "rewrite-of-position-deletes",
)
ROTATING = list(zip(WRITES, itertools.cycle(Moment)))
MOMENTS = list(itertools.product(WRITES, Moment)) if os.environ.get("TEST_MOMENTS") == "all" else ROTATING


@pytest.mark.parametrize(("name", "moment"), MOMENTS, ids=[f"{name}-when-{moment.value}" for name, moment in MOMENTS])
def test_java_commits_in_between(warehouse: Warehouse, java: JavaCatalog, name: str, moment: Moment) -> None:
    version, write = WRITES[name]
    for table in (OURS, ALONE):
        make_table(java, table, version)
    write(java, ALONE)
    expected = java.rows(ALONE)

    store = AtMoment(warehouse.directory / "jobs.db", moment, lambda: write(java, OURS))
    ref = TableRef.parse(OURS, warehouse.name)
    with make_control(warehouse, store=store) as control:
        try:
            control.compact(ref, OPTIONS, verify=VerifyMode.FULL)
        except (Conflict, StalePlan):
            assert name not in HARMLESS
        assert store.acted
        assert java.rows(OURS) == expected
        assert not leftovers(warehouse)
        control.compact(ref, OPTIONS, verify=VerifyMode.FULL)

    assert java.rows(OURS) == expected
    assert not leftovers(warehouse)


def make_table(java: JavaCatalog, table: str, version: int) -> None:
    """Writes sixty rows to two partitions in three commits, and deletes some by position and some by key."""
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    modes = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "merge", "update"))
    java.sql(
        f"CREATE TABLE {table} (id BIGINT, region STRING, amount INT, note STRING) USING iceberg "
        f"PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    insert(java, table, 0)
    insert(java, table, 20)
    java.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    java.equality_delete(table, {"id": [8, 12]}, ("eu",))
    insert(java, table, 40)


def leftovers(warehouse: Warehouse) -> set[str]:
    """Returns our data files that no snapshot refers to. Java's own expiration may have removed others."""
    table = warehouse.catalog.load_table(OURS)
    found = warehouse.files_on_disk(table) - warehouse.referenced_files(table)
    return {path for path in found if "/data/" in path and "tidyberg-" in path and not path.endswith(".crc")}
