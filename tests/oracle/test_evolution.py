"""Java checks the compaction of tables whose schema, spec and properties changed, and of files of older writers."""

from pathlib import Path

import pytest

from tests.builders.java_evolution import alter, create, same_rows_after_compaction
from tests.builders.java_tables import NAME
from tests.oracle.client import JavaCatalog
from tidyberg.planning.safety import SUPPORTED_FORMAT_VERSIONS
from tidyberg.testing import Warehouse


@pytest.mark.parametrize("version", [1, 2])
def test_columns_dropped_renamed_moved_promoted_and_added_again(
    warehouse: Warehouse, java: JavaCatalog, version: int
) -> None:
    create(
        java,
        "id INT, ratio FLOAT, price DECIMAL(8, 2), gone STRING, "
        "s STRUCT<x: INT, y: STRING, z: STRUCT<deep: FLOAT>>, l ARRAY<STRUCT<p: INT, q: STRING>>, "
        "m MAP<STRING, STRUCT<u: INT, v: STRING>>, k MAP<STRUCT<a: INT, b: INT>, INT>",
        version=version,
    )
    java.sql(
        f"INSERT INTO {NAME} SELECT id, id / 3, id / 7, concat('old-', id), "
        "IF(id % 3 = 0, NULL, named_struct('x', id, 'y', concat('y', id), 'z', "
        "IF(id % 2 = 0, NULL, named_struct('deep', id / 9)))), "
        "IF(id % 4 = 0, NULL, IF(id % 4 = 1, array(), array(named_struct('p', id, 'q', concat('q', id)), NULL))), "
        "IF(id % 5 = 0, NULL, IF(id % 5 = 1, map(), map('a', named_struct('u', id, 'v', 'v'), 'b', NULL))), "
        "IF(id % 5 = 2, NULL, map(named_struct('a', id, 'b', 2), 3)) FROM range(0, 20)"
    )
    alter(
        java,
        "DROP COLUMN gone",
        "ADD COLUMN gone STRING",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN ratio TYPE DOUBLE",
        "ALTER COLUMN price TYPE DECIMAL(20, 2)",
        "RENAME COLUMN ratio TO share",
        "ALTER COLUMN price FIRST",
        "DROP COLUMN s.y",
        "ADD COLUMN s.y STRING",
        "ALTER COLUMN s.x TYPE BIGINT",
        "RENAME COLUMN s.x TO w",
        "ALTER COLUMN s.z FIRST",
        "ALTER COLUMN s.z.deep TYPE DOUBLE",
        "DROP COLUMN l.element.q",
        "ADD COLUMN l.element.q INT",
        "ALTER COLUMN l.element.p TYPE BIGINT",
        "RENAME COLUMN m.value.u TO n",
        "DROP COLUMN m.value.v",
    )
    java.sql(
        f"INSERT INTO {NAME} SELECT id * 1.5, id * 5000000000, id / 3, named_struct('z', named_struct('deep', id / 3), "
        "'w', id * 5000000000, 'y', 'new'), array(named_struct('p', id * 5000000000, 'q', 7)), "
        "map('c', named_struct('n', id)), map(named_struct('a', id, 'b', 2), 3), 'again' FROM range(20, 40)"
    )
    same_rows_after_compaction(warehouse, java, outputs=1)


def test_partition_specs_changed_and_their_source_columns_promoted_and_renamed(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    create(java, "id INT, region STRING, at TIMESTAMP, price DECIMAL(8, 2)", "PARTITIONED BY (region, id)")

    def insert() -> None:
        for _ in range(2):
            java.sql(
                f"INSERT INTO {NAME} SELECT CAST(id % 2 AS INT), "
                "CASE id % 3 WHEN 0 THEN 'null' WHEN 1 THEN NULL ELSE 'a/b=c d' END, "
                "timestamp_seconds(id * 90000), id / 7 FROM range(0, 12)"
            )

    insert()
    alter(java, "ALTER COLUMN id TYPE BIGINT", "RENAME COLUMN id TO number", "ADD PARTITION FIELD days(at)")
    insert()
    alter(java, "DROP PARTITION FIELD region", "ADD PARTITION FIELD truncate(region, 2)", "ADD PARTITION FIELD price")
    insert()
    alter(java, "ALTER COLUMN price TYPE DECIMAL(20, 2)")
    insert()
    partitions = java.sql(f"SELECT DISTINCT partition, spec_id FROM {NAME}.files")
    same_rows_after_compaction(warehouse, java, outputs=len(partitions))
    assert sorted(map(str, java.sql(f"SELECT DISTINCT partition, spec_id FROM {NAME}.files"))) == sorted(
        map(str, partitions)
    )
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE region IS NULL AND number = 1") == [(16,)]
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE region = 'null' AND price < 1") == [(24,)]


def plain_files(java: JavaCatalog, directory: Path, timestamps: str) -> None:
    """Writes plain Parquet files with Spark, without field ids, as in Hive tables."""
    java.set_conf("spark.sql.parquet.outputTimestampType", timestamps)
    java.set_conf("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    java.set_conf("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    java.sql(
        f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet SELECT /*+ REPARTITION(3) */ CAST(id AS INT) AS id, "
        "concat('name-', id) AS name, IF(id = 3, TIMESTAMP'9999-06-01 23:59:59.999999', "
        "IF(id = 4, TIMESTAMP'1500-06-01 00:00:00', timestamp_micros(id * 100000001))) AS at, "
        "CAST(id / 7 AS DECIMAL(9, 2)) AS small, CAST(id / 7 AS DECIMAL(18, 2)) AS middle, "
        "CAST(id / 7 AS DECIMAL(30, 2)) AS large, "
        "IF(id % 3 = 0, NULL, named_struct('x', id, 'y', array(named_struct('z', id), NULL))) AS s, "
        "IF(id % 4 = 0, NULL, array(id, id + 1)) AS l, IF(id % 5 = 0, NULL, map('a', named_struct('v', id))) AS m "
        "FROM range(0, 20)"
    )


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_files_without_field_ids_are_read_by_the_name_mapping(
    warehouse: Warehouse, java: JavaCatalog, tmp_path: Path, timestamps: str
) -> None:
    create(
        java,
        "id INT, name STRING, at TIMESTAMP, small DECIMAL(9, 2), middle DECIMAL(18, 2), large DECIMAL(30, 2), "
        "s STRUCT<x: BIGINT, y: ARRAY<STRUCT<z: BIGINT>>>, l ARRAY<BIGINT>, m MAP<STRING, STRUCT<v: BIGINT>>",
    )
    plain_files(java, tmp_path / "plain", timestamps)
    java.call("add_files", table=NAME, source_table=f"`parquet`.`{tmp_path / 'plain'}`")
    alter(
        java,
        "RENAME COLUMN name TO label",
        "ADD COLUMN name STRING",  # Java maps the name to the new field, which now gets the old files' column
        "ALTER COLUMN id TYPE BIGINT",
        "RENAME COLUMN s.x TO w",
        "RENAME COLUMN s.y.element.z TO deep",
        "ADD COLUMN s.x BIGINT",
        "ALTER COLUMN small TYPE DECIMAL(12, 2)",
        "DROP COLUMN middle",
    )
    assert java.sql(f"SELECT count(label), count(DISTINCT name), count(s.w), count(DISTINCT s.x) FROM {NAME}") == [
        (0, 20, 0, 13)
    ]
    # Java's generic reader ignores the name mapping, although the specification requires its use. Spark uses it.
    same_rows_after_compaction(warehouse, java, outputs=1, generic=False)


def test_files_without_field_ids_and_mapping_are_read_by_position(
    warehouse: Warehouse, java: JavaCatalog, tmp_path: Path
) -> None:
    create(java, "first INT, second STRING, third TIMESTAMP")
    directory = tmp_path / "plain"
    java.sql(
        f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet SELECT /*+ REPARTITION(3) */ "
        "CAST(id AS INT) AS first, concat('name-', id) AS second, timestamp_micros(id) AS third FROM range(0, 20)"
    )
    java.call("add_files", table=NAME, source_table=f"`parquet`.`{directory}`")
    alter(
        java,
        "UNSET TBLPROPERTIES ('schema.name-mapping.default')",
        "RENAME COLUMN second TO other",
        "DROP COLUMN third",
    )
    alter(java, "ADD COLUMN second STRING")
    assert java.sql(f"SELECT count(DISTINCT other), count(second) FROM {NAME}") == [(20, 0)]
    same_rows_after_compaction(warehouse, java, outputs=1)


def test_partition_columns_that_are_only_in_directory_names(
    warehouse: Warehouse, java: JavaCatalog, tmp_path: Path
) -> None:
    create(java, "id BIGINT, day DATE, region STRING, n INT", "PARTITIONED BY (day, region, n)")
    directory = tmp_path / "hive"
    java.sql("DROP TABLE IF EXISTS spark_catalog.default.hive_source")
    java.sql(
        "CREATE TABLE spark_catalog.default.hive_source (id BIGINT, day DATE, region STRING, n INT) USING parquet "
        f"PARTITIONED BY (day, region, n) LOCATION '{directory}'"
    )
    for _ in range(2):
        java.sql(
            "INSERT INTO spark_catalog.default.hive_source SELECT id, date_add(DATE'2026-01-01', CAST(id % 2 AS INT)), "
            "CASE id % 3 WHEN 0 THEN 'null' WHEN 1 THEN NULL ELSE 'a b' END, IF(id % 2 = 0, NULL, 7) FROM range(0, 12)"
        )
    java.call("add_files", table=NAME, source_table="spark_catalog.default.hive_source")
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE region = 'null'") == [(8,)]
    alter(java, "ALTER COLUMN n TYPE BIGINT", "RENAME COLUMN region TO area")
    partitions = java.sql(f"SELECT DISTINCT partition FROM {NAME}.files")
    # Java cannot read older snapshots after the source column of an identity partition has been promoted.
    same_rows_after_compaction(warehouse, java, outputs=len(partitions), time_travel=False)
    java.sql("DROP TABLE spark_catalog.default.hive_source")


@pytest.mark.skipif(3 not in SUPPORTED_FORMAT_VERSIONS, reason="defaults are of format version 3")
def test_defaults_of_columns_that_files_lack(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, "id BIGINT, s STRUCT<x: INT>, l ARRAY<STRUCT<p: INT>>", version=3)
    for start in (0, 10):
        java.sql(
            f"INSERT INTO {NAME} SELECT id, IF(id % 3 = 0, NULL, named_struct('x', id)), "
            f"IF(id % 4 = 0, NULL, array(named_struct('p', id), NULL)) FROM range({start}, {start + 10})"
        )
    java.add_column(NAME, None, "number", "int", 5)
    java.add_column(NAME, None, "word", "string", "null")
    java.add_column(NAME, None, "flag", "boolean", False)
    java.add_column(NAME, "s", "y", "string", "inside")
    java.add_column(NAME, "l.element", "q", "long", 2**40)
    java.sql(f"INSERT INTO {NAME} VALUES (100, NULL, NULL, NULL, NULL, NULL), (101, NULL, NULL, 6, 'w', TRUE)")
    alter(java, "ALTER COLUMN number TYPE BIGINT")
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE number = 5 AND word = 'null' AND NOT flag") == [(20,)]
    same_rows_after_compaction(warehouse, java, outputs=1)
