"""Java checks commits to v3 tables: rows, their ids and their last updates stay the same [I8]."""

import time

import pytest
from pyiceberg.table import Table

from tests.builders.java_tables import NAME, SHAPES, Shape, compact, make_table
from tests.oracle.canonical import canonical_rows
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse
from tidyberg.testing.deletes import delete_rows

MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)
LINEAGE = "_row_id, _last_updated_sequence_number"

every_partitioning = pytest.mark.parametrize(
    "partitioning", ["", "PARTITIONED BY (bucket(2, id))"], ids=["none", "bucket"]
)


def create(java: JavaCatalog, version: int, partitioning: str = "") -> None:
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, name STRING, amount INT) USING iceberg {partitioning} "
        f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ})"
    )


def insert(java: JavaCatalog, first: int, rows: int = 20) -> None:
    java.sql(f"INSERT INTO {NAME} SELECT id, concat('n', id), cast(id % 7 AS INT) FROM range({first}, {first + rows})")


def write(java: JavaCatalog, first: int = 0) -> None:
    """Runs appends, deletes, an update and a merge, all of them merge-on-read."""
    for start in range(first, first + 80, 20):
        insert(java, start)
    java.sql(f"DELETE FROM {NAME} WHERE id IN ({first}, {first + 25}, {first + 26})")
    java.sql(f"UPDATE {NAME} SET amount = -1 WHERE id BETWEEN {first + 30} AND {first + 45}")
    java.sql(
        f"MERGE INTO {NAME} AS t USING (SELECT id FROM range({first + 10}, {first + 90}, 10)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = -2 WHEN NOT MATCHED THEN INSERT (id, name, amount) VALUES (s.id, 'm', 0)"
    )


def upgrade(java: JavaCatalog, version: int) -> None:
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version'='{version}')")


def lineage(java: JavaCatalog) -> list[str]:
    return canonical_rows(java.sql(f"SELECT *, {LINEAGE} FROM {NAME}"))


def row_ids(java: JavaCatalog) -> list[int]:
    return [row[0] for row in java.sql(f"SELECT _row_id FROM {NAME} ORDER BY id")]


def assert_unique(java: JavaCatalog) -> None:
    found = row_ids(java)
    assert None not in found
    assert len(set(found)) == len(found)


@every_partitioning
def test_a_table_that_was_always_v3(warehouse: Warehouse, java: JavaCatalog, partitioning: str) -> None:
    create(java, 3, partitioning)
    write(java)
    before = lineage(java)
    assert_unique(java)
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files WHERE file_format = 'PUFFIN'")[0][0] > 0

    compact(warehouse)

    assert lineage(java) == before
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files")[0][0] == 0
    assert java.sql(f"SELECT count(*) FROM {NAME}.files")[0][0] == (2 if partitioning else 1)
    write(java, 100)
    before = lineage(java)
    assert_unique(java)
    compact(warehouse)
    assert lineage(java) == before


def test_a_part_of_a_table(warehouse: Warehouse, java: JavaCatalog) -> None:
    """Manifests contain files of both partitions. The files that stay keep their ids and their vectors."""
    create(java, 3, "PARTITIONED BY (amount)")
    write(java)
    before = lineage(java)
    for where in ("amount = 1", "amount > 2"):
        compact(warehouse, where=where)
        assert lineage(java) == before
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files")[0][0] > 0


@pytest.mark.parametrize("written_since", [True, False], ids=["written-since", "not-written-since"])
def test_a_table_upgraded_twice(warehouse: Warehouse, java: JavaCatalog, written_since: bool) -> None:
    create(java, 1, "PARTITIONED BY (amount)")
    insert(java, 0)
    insert(java, 20)
    upgrade(java, 2)
    java.sql(f"DELETE FROM {NAME} WHERE id IN (3, 21)")
    insert(java, 40)
    upgrade(java, 3)
    if written_since:
        insert(java, 60)
        java.sql(f"DELETE FROM {NAME} WHERE id IN (4, 61)")
        assert_unique(java)
    rows, before = java.rows(NAME), lineage(java)

    compact(warehouse, where="amount < 4")

    assert java.rows(NAME) == rows
    assert_unique(java)
    if written_since:
        assert lineage(java) == before
    before = lineage(java)
    insert(java, 80)
    java.sql(f"DELETE FROM {NAME} WHERE id >= 80 OR id = 5")
    assert lineage(java) == [row for row in before if not row.startswith("[5,")]
    compact(warehouse)
    assert lineage(java) == [row for row in before if not row.startswith("[5,")]


def test_java_goes_on(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, 3, "PARTITIONED BY (bucket(2, id))")
    write(java)
    compact(warehouse)
    before = dict(java.sql(f"SELECT id, _row_id FROM {NAME}"))

    insert(java, 200)
    java.sql(f"DELETE FROM {NAME} WHERE id IN (6, 7, 201)")
    java.sql(f"UPDATE {NAME} SET amount = 5 WHERE id IN (8, 9)")
    gone = {6, 7}
    for procedure in ("rewrite_manifests", "rewrite_data_files", "rewrite_position_delete_files"):
        java.call(procedure, table=NAME)
        after = dict(java.sql(f"SELECT id, _row_id FROM {NAME}"))
        assert {key: value for key, value in after.items() if key < 200} == {
            key: value for key, value in before.items() if key not in gone
        }
        assert_unique(java)
    kept = lineage(java)
    compact(warehouse)
    assert lineage(java) == kept
    java.call(
        "expire_snapshots", table=NAME, older_than=time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()), retain_last=1
    )
    assert lineage(java) == kept


def test_equality_deletes_and_vectors_together(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, 3)
    write(java)
    java.equality_delete(NAME, {"amount": [3]})
    insert(java, 100)
    before = lineage(java)
    assert 0 < len(before) < 103
    compact(warehouse)
    assert lineage(java) == before
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files")[0][0] == 0


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[5]], ids=lambda shape: shape.name)
def test_java_reads_what_the_table_builder_makes(warehouse: Warehouse, java: JavaCatalog, shape: Shape) -> None:
    """Java and the tests' own reader find the same ids, so other tests can rely on either of them."""
    table = make_table(warehouse, shape, format_version=3)
    paths = [file.path for file in warehouse.live_files(table)]
    delete_rows(table, {paths[0]: [0], paths[-1]: [0]})
    delete_rows(table, {paths[0]: [0], paths[1]: [0]})
    assert ids_by_java(java) == ids_by_our_reader(warehouse, table)
    before = lineage(java)
    assert len(before) == 237
    compact(warehouse)
    assert lineage(java) == before
    assert ids_by_java(java) == ids_by_our_reader(warehouse, table)


def ids_by_java(java: JavaCatalog) -> list[tuple[int, ...]]:
    return sorted(java.sql(f"SELECT id, {LINEAGE} FROM {NAME}"))


def ids_by_our_reader(warehouse: Warehouse, table: Table) -> list[tuple[int, ...]]:
    texts = (row[1:-1].split(", ") for row in warehouse.rows(table, lineage=True))
    return sorted((int(text[0]), int(text[-2]), int(text[-1])) for text in texts)
