"""Java checks rare files and partitions: legacy lists, pages of version 2, INT96 keys, doubles as partitions."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

from tests.builders.engines import Meddling
from tests.builders.java_evolution import alter, create, same_rows_after_compaction
from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse


def test_legacy_lists_and_second_version_pages_with_equality_deletes_by_their_columns(
    warehouse: Warehouse, java: JavaCatalog, tmp_path: Path
) -> None:
    create(
        java,
        "id INT, name STRING, at TIMESTAMP, price DECIMAL(9, 2), ratio FLOAT, gone STRING, l ARRAY<INT>, "
        "s ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>",
    )
    java.set_conf("spark.sql.parquet.writeLegacyFormat", "true")
    java.set_conf("spark.sql.parquet.outputTimestampType", "INT96")
    java.set_conf("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    directory = tmp_path / "legacy"
    java.sql(
        f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet OPTIONS ('parquet.writer.version' 'v2') "
        "SELECT /*+ REPARTITION(3) */ CAST(id AS INT) AS id, concat('name-', id) AS name, "
        "timestamp_micros(id * 100000001 - 300000003) AS at, CAST(id / 8 AS DECIMAL(9, 2)) AS price, "
        "CAST(id / 4 AS FLOAT) AS ratio, concat('gone-', id) AS gone, "
        "IF(id % 4 = 0, NULL, IF(id % 4 = 1, array(), array(CAST(id AS INT), NULL))) AS l, "
        "IF(id % 3 = 0, NULL, array(named_struct('x', CAST(id AS INT)), NULL)) AS s, "
        "IF(id % 5 = 0, NULL, map('a', CAST(id AS INT))) AS m FROM range(0, 40)"
    )
    java.set_conf("spark.sql.parquet.writeLegacyFormat", "false")
    java.call("add_files", table=NAME, source_table=f"`parquet`.`{directory}`")
    java.equality_delete(NAME, {"id": [7], "gone": ["gone-7"]})
    alter(
        java,
        "DROP COLUMN gone",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN price TYPE DECIMAL(20, 2)",
        "ALTER COLUMN ratio TYPE DOUBLE",
        "ADD COLUMN s.element.y INT",
    )
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    java.equality_delete(NAME, {"id": [11, 2**40]})
    java.equality_delete(NAME, {"price": [Decimal("2.00")]})
    java.equality_delete(NAME, {"at": [epoch + dt.timedelta(microseconds=20 * 100000001 - 300000003)]})
    java.equality_delete(NAME, {"at": [epoch - dt.timedelta(microseconds=300000003)]})
    assert java.sql(f"SELECT count(*) FROM {NAME}") == [(35,)]
    same_rows_after_compaction(warehouse, java, outputs=1, time_travel=False, generic=False)


def test_partitions_of_doubles_that_differ_in_the_last_bit_stay_apart(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, "id INT, share DOUBLE", "PARTITIONED BY (share)")
    for _ in range(2):
        java.sql(f"INSERT INTO {NAME} VALUES (1, 0.1D), (2, 0.10000000000000002D), (3, 1e300D), (4, 0.0D), (5, -0.0D)")
    before = {str(partition) for partition in java.sql(f"SELECT partition FROM {NAME}.files")}
    assert len(before) == 5
    same_rows_after_compaction(warehouse, java, outputs=5)
    assert {str(partition) for partition in java.sql(f"SELECT partition FROM {NAME}.files")} == before


def test_an_equality_delete_of_java_for_the_partition_of_a_moved_output_takes_none_of_its_rows(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    create(java, "id INT, share DOUBLE")
    for _ in range(3):
        java.sql(f"INSERT INTO {NAME} VALUES (1, 0.1D), (2, 1e300D)")
    alter(java, "ADD PARTITION FIELD share")
    java.sql(f"INSERT INTO {NAME} VALUES (1, 0.1D)")

    def meddle() -> None:
        java.equality_delete(NAME, {"id": [1]}, [0.1])

    compact(warehouse, engine=Meddling(meddle), rewrite_to_current_spec=True)
    assert java.sql(f"SELECT id, count(*) FROM {NAME} GROUP BY id ORDER BY id") == [(1, 3), (2, 3)]
    assert java.sql(f"SELECT DISTINCT spec_id FROM {NAME}.data_files") == [(1,)]


def test_a_table_that_went_through_all_versions_with_deletes_of_each(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, "id INT, region STRING, at TIMESTAMP", "PARTITIONED BY (region)", version=1)

    def insert(first: int) -> None:
        java.sql(
            f"INSERT INTO {NAME} SELECT CAST(id AS INT), IF(id % 2 = 0, 'eu', NULL), timestamp_micros(id - 5) "
            f"FROM range({first}, {first + 20})"
        )

    for first in (0, 20, 40):
        insert(first)
    alter(java, "SET TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')")
    java.sql(f"DELETE FROM {NAME} WHERE id % 7 = 1")
    java.equality_delete(NAME, {"id": [2, 4, 62]}, ["eu"])
    insert(60)
    java.sql(f"ALTER TABLE {NAME} CREATE BRANCH old")
    alter(java, "SET TBLPROPERTIES ('format-version' = '3')", "DROP PARTITION FIELD region")
    java.sql(f"DELETE FROM {NAME} WHERE id % 7 = 2")
    insert(80)
    java.equality_delete(NAME, {"id": [6, 62, 84]})
    java.sql(f"DELETE FROM {NAME} WHERE id % 11 = 3")
    lineage = f"SELECT _row_id, _last_updated_sequence_number, * FROM {NAME} ORDER BY 1"
    before, branch = java.sql(lineage), java.rows(f"{NAME}.branch_old")
    assert len({row[0] for row in before}) == len(before)

    compact(warehouse)
    assert java.sql(lineage) == before
    insert(100)
    java.sql(f"DELETE FROM {NAME} WHERE id = 100 OR id = 31")
    before = java.sql(lineage)
    compact(warehouse, rewrite_to_current_spec=True)
    assert java.sql(lineage) == before
    assert java.rows(f"{NAME}.branch_old") == branch
    assert java.sql(f"SELECT DISTINCT spec_id FROM {NAME}.files") == [(1,)]
    java.sql(f"INSERT INTO {NAME}.branch_old VALUES (7, 'eu', NULL)")
    assert len(java.rows(f"{NAME}.branch_old")) == len(branch) + 1
    ids = [row[0] for row in java.sql(f"SELECT _row_id FROM {NAME}.branch_old")]
    assert None not in ids
    assert len(set(ids)) == len(ids)
