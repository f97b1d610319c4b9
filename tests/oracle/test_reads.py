"""Java reads every row that tidyberg commits, and finds that the metadata is true."""

import os

import pytest

from tests.builders.java_tables import NAME, PREDICATES, SHAPES, Shape, arrow_rows, compact, make_table
from tests.oracle.client import JavaCatalog
from tidyberg.testing import SAMPLE_SCHEMA, Warehouse, local_path

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


@pytest.mark.parametrize("format_version", [1, 2])
@every_shape
def test_java_reads_the_same_rows_before_and_after(
    warehouse: Warehouse, java: JavaCatalog, shape: Shape, format_version: int
) -> None:
    table = make_table(warehouse, shape, format_version)
    before = java.rows(NAME)
    assert before == arrow_rows(table)
    old_snapshot = table.metadata.current_snapshot_id
    result = compact(warehouse)
    assert result.stats.files_after < result.stats.files_before
    assert java.rows(NAME) == before == arrow_rows(table)
    assert java.rows(NAME, snapshot_id=old_snapshot) == before


def test_java_reads_types_that_spark_lacks(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(warehouse, schema=SAMPLE_SCHEMA)
    before = java.generic_rows(NAME)
    assert len(before) == 240
    compact(warehouse)
    assert java.generic_rows(NAME) == before


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[4], SHAPES[5]], ids=lambda shape: shape.name)
def test_java_finds_the_same_rows_by_every_type_of_column(
    warehouse: Warehouse, java: JavaCatalog, shape: Shape
) -> None:
    """Wrong bounds, partitions or null counts would make Java skip files with matching rows."""
    make_table(warehouse, shape)
    before = {predicate: java.rows(NAME, predicate) for predicate in PREDICATES}
    assert all(before.values()), [predicate for predicate, rows in before.items() if not rows]
    compact(warehouse)
    assert {predicate: java.rows(NAME, predicate) for predicate in PREDICATES} == before


@every_shape
def test_the_metadata_tables_are_correct(warehouse: Warehouse, java: JavaCatalog, shape: Shape) -> None:
    table = make_table(warehouse, shape)
    before = java.sql(f"SELECT sum(record_count), count(DISTINCT partition) FROM {NAME}.files") if shape.fields else []
    result = compact(warehouse)
    files = java.sql(f"SELECT file_path, record_count, file_size_in_bytes, content FROM {NAME}.files")
    assert len(files) == result.stats.files_after
    assert sum(file[1] for file in files) == 240
    assert [file[2] for file in files] == [os.path.getsize(local_path(file[0])) for file in files]
    assert {file[3] for file in files} == {0}
    if shape.fields:
        after = java.sql(f"SELECT sum(record_count), count(DISTINCT partition) FROM {NAME}.files")
        assert after == before

    manifests = java.sql(
        f"SELECT added_data_files_count, existing_data_files_count, deleted_data_files_count, length, path "
        f"FROM {NAME}.manifests"
    )
    assert sum(manifest[0] + manifest[1] for manifest in manifests) == len(files)
    assert all(manifest[3] == os.path.getsize(local_path(manifest[4])) for manifest in manifests)

    (operation, snapshot_id, parent_id, summary) = java.sql(
        f"SELECT operation, snapshot_id, parent_id, summary FROM {NAME}.snapshots ORDER BY committed_at DESC LIMIT 1"
    )[0]
    assert operation == "replace"
    assert snapshot_id == result.snapshot_id == table.refresh().metadata.current_snapshot_id
    assert parent_id == result.plan.snapshot_id
    assert summary["added-records"] == summary["deleted-records"]
    assert summary["total-records"] == "240"
    assert summary["total-data-files"] == str(len(files))
    assert int(summary["total-files-size"]) == sum(file[2] for file in files)


def test_bounds_and_counts_decode_to_what_the_rows_hold(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(warehouse)
    compact(warehouse)
    columns = ["id", "count", "price", "day", "created", "seen"]
    metrics = ", ".join(
        f"min(readable_metrics.{c}.lower_bound), max(readable_metrics.{c}.upper_bound), "
        f"sum(readable_metrics.{c}.null_value_count), sum(readable_metrics.{c}.value_count)"
        for c in columns
    )
    truth = ", ".join(f"min({c}), max({c}), count(*) - count({c}), count(*)" for c in columns)
    assert java.sql(f"SELECT {metrics} FROM {NAME}.files") == java.sql(f"SELECT {truth} FROM {NAME}")
    (nans,) = java.sql(
        f"SELECT sum(readable_metrics.ratio.nan_value_count), sum(readable_metrics.amount.nan_value_count) "
        f"FROM {NAME}.files"
    )
    assert nans == java.sql(f"SELECT count_if(isnan(ratio)), count_if(isnan(amount)) FROM {NAME}")[0]


@pytest.mark.parametrize("format_version", [1, 2])
def test_java_reads_an_evolved_schema_the_same(warehouse: Warehouse, java: JavaCatalog, format_version: int) -> None:
    table = make_table(warehouse, format_version=format_version, files=3)
    for change in (
        "ADD COLUMN late STRING",
        "ALTER COLUMN count TYPE BIGINT",
        "ALTER COLUMN ratio TYPE DOUBLE",
        "ALTER COLUMN price TYPE DECIMAL(18, 2)",
        "RENAME COLUMN name TO label",
        "ADD COLUMN place.street STRING",
        "DROP COLUMN payload",
        "ALTER COLUMN day AFTER id",
    ):
        java.sql(f"ALTER TABLE {NAME} {change}")
    java.sql(f"INSERT INTO {NAME} SELECT * FROM {NAME} WHERE id % 3 = 0")
    java.sql(f"UPDATE {NAME} SET late = 'late', place.street = label WHERE id = 2000005")
    before = java.rows(NAME)
    assert java.sql(f"SELECT count(*) FROM {NAME}.files")[0][0] > 3
    compact(warehouse)
    assert java.rows(NAME) == before
    assert len({task.file.file_path for task in table.refresh().scan().plan_files()}) == 1


@pytest.mark.parametrize("format_version", [1, 2])
def test_java_reads_an_evolved_partition_spec_the_same(
    warehouse: Warehouse, java: JavaCatalog, format_version: int
) -> None:
    table = make_table(warehouse, format_version=format_version)
    java.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD bucket(2, id)")
    warehouse.append_files(table.refresh(), 4, 30, files_per_commit=1, seed=100)
    java.sql(f"ALTER TABLE {NAME} REPLACE PARTITION FIELD bucket(2, id) WITH days(created)")
    warehouse.append_files(table.refresh(), 4, 30, files_per_commit=1, seed=200)
    before = java.rows(NAME)
    specs = "SELECT spec_id, sum(record_count) FROM {}.files GROUP BY spec_id ORDER BY spec_id"
    records = java.sql(specs.format(NAME))
    assert len(records) == 3
    compact(warehouse)
    assert java.rows(NAME) == before
    assert java.sql(specs.format(NAME)) == records
    for predicate in ("created < TIMESTAMP_NTZ '2026-01-05 00:00:00'", "id = 100000003", "id > 200000000"):
        assert java.rows(NAME, predicate), predicate


def test_java_reads_a_table_that_java_wrote(warehouse: Warehouse, java: JavaCatalog) -> None:
    java.sql("CREATE NAMESPACE db")
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT NOT NULL, amount DECIMAL(20, 4), parts ARRAY<STRUCT<a: INT, b: STRING>>, "
        "at TIMESTAMP, facts MAP<STRING, ARRAY<DOUBLE>>, region STRING) USING iceberg PARTITIONED BY (region)"
    )
    for number in range(5):
        java.sql(
            f"INSERT INTO {NAME} SELECT id + {number * 100}, id / 7, "
            "IF(id % 5 = 0, NULL, transform(sequence(1, cast(id % 3 as int)), x -> named_struct('a', x, 'b', NULL))), "
            "timestamp_seconds(id * 86400), map('k', array(id / 3, NULL)), IF(id % 4 = 0, NULL, concat('r', id % 2)) "
            "FROM range(0, 50)"
        )
    before = java.rows(NAME)
    result = compact(warehouse)
    assert java.rows(NAME) == before
    assert result.stats.files_after == 3
