"""Java continues from a snapshot of tidyberg: it appends, deletes, merges and maintains, and still reads all rows."""

import os
import time
from pathlib import Path

import pytest

from tests.builders.java_tables import NAME, SHAPES, Shape, compact, make_table
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse, local_path

LONG_AGO = time.time() - 10 * 86_400

pytestmark = pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[5]], ids=lambda shape: shape.name)


@pytest.fixture
def compacted(warehouse: Warehouse, java: JavaCatalog, shape: Shape) -> list[str]:
    """Creates a table, compacts it with tidyberg, and returns its rows."""
    make_table(warehouse, shape)
    before = java.rows(NAME)
    compact(warehouse)
    return before


def ids(java: JavaCatalog) -> list[int]:
    return sorted(row[0] for row in java.sql(f"SELECT id FROM {NAME}"))


def test_append(java: JavaCatalog, compacted: list[str]) -> None:
    java.sql(f"INSERT INTO {NAME} SELECT * FROM {NAME}")
    assert java.rows(NAME) == sorted(compacted * 2)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_delete_update_and_merge(java: JavaCatalog, compacted: list[str], mode: str) -> None:
    for operation in ("delete", "update", "merge"):
        java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.{operation}.mode' = '{mode}')")
    expected = ids(java)

    java.sql(f"DELETE FROM {NAME} WHERE id % 1000000 < 10")
    expected = [number for number in expected if number % 1_000_000 >= 10]
    assert ids(java) == expected

    java.sql(f"UPDATE {NAME} SET count = -7 WHERE id % 2 = 0")
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE count = -7")[0][0] == sum(n % 2 == 0 for n in expected)

    java.sql(
        f"MERGE INTO {NAME} AS t USING (SELECT id + 1 AS id FROM {NAME} WHERE id % 5 = 0) AS s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, count) VALUES (s.id, 5)"
    )
    merged = {number + 1 for number in expected if number % 5 == 0}
    assert ids(java) == sorted(set(expected) ^ merged)
    if mode == "merge-on-read":
        assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files")[0][0] > 0


def test_equality_delete(java: JavaCatalog, compacted: list[str], shape: Shape) -> None:
    """The sequence number of the delete is higher than that of our outputs, so it applies to them [I3]."""
    (row, *_) = java.sql(f"SELECT id, active FROM {NAME} WHERE active IS NOT NULL ORDER BY id")
    partition = None
    if shape.fields:
        partition = java.sql(f"SELECT partition FROM {NAME}.files f JOIN (SELECT input_file_name() AS name FROM {NAME} "
                             f"WHERE id = {row[0]}) ON name = f.file_path")[0][0]  # fmt: skip
    java.equality_delete(NAME, {"id": [row[0]], "active": [row[1]]}, partition)
    assert len(java.rows(NAME)) == 239
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE id = {row[0]}")[0][0] == 0


def test_rewrites(java: JavaCatalog, compacted: list[str]) -> None:
    java.call("rewrite_manifests", table=NAME)
    assert java.rows(NAME) == compacted
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    assert java.rows(NAME) == compacted


def test_expiry_removes_the_replaced_files_and_only_them(
    warehouse: Warehouse, java: JavaCatalog, compacted: list[str]
) -> None:
    table = warehouse.catalog.load_table(NAME)
    replaced = {
        local_path(task.file.file_path)
        for task in table.scan(snapshot_id=table.metadata.snapshots[-2].snapshot_id).plan_files()
    }
    assert all(Path(path).exists() for path in replaced)
    live = {local_path(task.file.file_path) for task in table.scan().plan_files()}
    java.call("expire_snapshots", table=NAME, older_than="2100-01-01 00:00:00", retain_last=1)
    assert java.rows(NAME) == compacted
    assert not any(Path(path).exists() for path in replaced - live)
    assert all(Path(path).exists() for path in live)
    assert java.sql(f"SELECT operation FROM {NAME}.snapshots") == [("replace",)]


def test_orphan_removal_finds_nothing_of_ours(warehouse: Warehouse, java: JavaCatalog, compacted: list[str]) -> None:
    table = warehouse.catalog.load_table(NAME)
    planted = Path(local_path(table.location())) / "data" / "planted.parquet"
    planted.write_bytes(b"an orphan")
    for path in warehouse.files_on_disk(table):
        os.utime(path, (LONG_AGO, LONG_AGO))
    removed = {local_path(row[0]) for row in java.call("remove_orphan_files", table=NAME)}
    assert removed == {str(planted)}
    assert java.rows(NAME) == compacted


def test_tidyberg_goes_on_after_java(warehouse: Warehouse, java: JavaCatalog, compacted: list[str]) -> None:
    for _ in range(6):
        java.sql(f"INSERT INTO {NAME} SELECT * FROM {NAME} WHERE id % 40 < 3 AND id < 1000000")
    before = java.rows(NAME)
    compact(warehouse)
    assert java.rows(NAME) == before
