"""Java checks the compaction of v3 tables that Java wrote: rows, their ids and their last updates [I8]."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, Transform
from pyiceberg.types import LongType, NestedField, TimestampNanoType, TimestamptzNanoType

from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse

MERGE_ON_READ = (
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read'"
)


def make_table(java: JavaCatalog, partitioning: str = "", format_version: int = 3) -> None:
    """Writes 300 rows of two regions in three commits. Later deletes, updates and merges write vectors."""
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, region STRING, note STRING) USING iceberg {partitioning} "
        f"TBLPROPERTIES ('format-version' = '{format_version}', {MERGE_ON_READ})"
    )
    for number in range(3):
        insert(java, number * 100, number * 100 + 100)


def insert(java: JavaCatalog, start: int, end: int) -> None:
    java.sql(f"INSERT INTO {NAME} SELECT id, IF(id % 2 = 0, 'eu', 'us'), concat('n', id) FROM range({start}, {end})")


def change_rows(java: JavaCatalog, digit: int) -> None:
    """Runs a delete, an update and a merge. They write vectors, and files that store the ids of changed rows."""
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = {digit}")
    java.sql(f"UPDATE {NAME} SET note = concat('updated', {digit}) WHERE id % 10 = {digit + 1}")
    java.sql(
        f"MERGE INTO {NAME} AS t USING (SELECT 5 * id AS id FROM range(50, 70)) AS s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, region, note) VALUES (s.id, 'eu', 'new')"
    )


def lineage(java: JavaCatalog) -> list[tuple[Any, ...]]:
    """Returns every row with its id and the sequence number of its last update."""
    return java.sql(f"SELECT *, _row_id, _last_updated_sequence_number FROM {NAME} ORDER BY id, _row_id")


def vector_count(java: JavaCatalog) -> int:
    count: int = java.sql(f"SELECT count(*) FROM {NAME}.delete_files WHERE file_format = 'PUFFIN'")[0][0]
    return count


def test_rows_keep_their_lineage_through_compactions_of_both(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java, "PARTITIONED BY (region)")
    change_rows(java, 3)
    before = lineage(java)
    assert vector_count(java) > 1
    assert len({row[-2] for row in before}) == len(before)
    assert len({row[-1] for row in before}) >= 5, "rows were changed by several commits"

    compact(warehouse)

    assert lineage(java) == before
    assert vector_count(java) == 0

    insert(java, 400, 450)
    change_rows(java, 6)
    before = lineage(java)
    assert vector_count(java) > 0
    compact(warehouse)
    assert lineage(java) == before, "the second time the inputs are outputs of ours"

    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 8")
    before = lineage(java)
    java.sql(f"CALL {java.name}.system.rewrite_data_files(table => '{NAME}', options => map('rewrite-all', 'true'))")
    assert lineage(java) == before, "Java goes on from our files"
    insert(java, 500, 550)
    before = lineage(java)
    compact(warehouse)
    assert lineage(java) == before, "and we from Java's"


def test_an_upgraded_tables_rows_get_ids_once_and_keep_the_time_of_their_last_update(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    """Files from before the upgrade have no row ids yet. Position delete files and vectors may occur together."""
    make_table(java, format_version=2)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
    before = lineage(java)
    assert {row[-2] for row in before} == {None}

    compact(warehouse)

    after = lineage(java)
    assert [row[:-2] for row in after] == [row[:-2] for row in before]
    assert len({row[-2] for row in after}) == len(after)
    assert None not in {row[-2] for row in after}
    assert {row[0] // 100: row[-1] for row in after} == {0: 1, 1: 2, 2: 3}, "the commits that added the rows"
    change_rows(java, 6)
    before = lineage(java)
    compact(warehouse)
    assert lineage(java) == before


def test_vectors_beside_older_position_deletes_of_an_upgraded_table(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java, format_version=2)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 5 AND id < 150")
    before = lineage(java)
    formats = java.sql(f"SELECT DISTINCT file_format FROM {NAME}.delete_files ORDER BY 1")
    assert formats == [("PARQUET",), ("PUFFIN",)]

    compact(warehouse)

    assert lineage(java) == before
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files") == [(0,)]


def test_rows_that_move_to_another_partition_spec_keep_their_lineage(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    change_rows(java, 3)
    java.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD region")
    insert(java, 300, 400)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 6")
    before = lineage(java)
    compact(warehouse, rewrite_to_current_spec=True)
    assert lineage(java) == before
    assert java.sql(f"SELECT DISTINCT spec_id FROM {NAME}.files") == [(1,)]


def test_columns_of_an_unknown_type_stay_null(warehouse: Warehouse, java: JavaCatalog) -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, nothing VOID, place STRUCT<city: STRING, nothing: VOID>) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '3', {MERGE_ON_READ})"
    )
    for number in range(3):
        java.sql(
            f"INSERT INTO {NAME} SELECT id, NULL, named_struct('city', concat('c', id), 'nothing', NULL) "
            f"FROM range({10 * number}, {10 * number + 10})"
        )
    java.sql(f"DELETE FROM {NAME} WHERE id = 4")
    before = lineage(java)
    compact(warehouse)
    assert lineage(java) == before


NANOSECONDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestampNanoType(), required=False),
    NestedField(3, "utc", TimestamptzNanoType(), required=False),
)


@pytest.mark.parametrize("transform", [None, DayTransform()], ids=str)
def test_nanoseconds_are_read_by_java_to_the_last_digit(
    warehouse: Warehouse, java: JavaCatalog, transform: Transform[Any, Any] | None
) -> None:
    spec = PartitionSpec(*([PartitionField(2, 1000, transform, "part")] if transform else []))
    table = warehouse.create_table(NAME, NANOSECONDS, spec, format_version=3)

    def rows(number: int) -> pa.Table:
        """Returns rows of one file. All files have the same two partitions, and no value is a whole microsecond."""
        schema = schema_to_pyarrow(NANOSECONDS, include_field_ids=False)
        times = pa.array([1_760_000_000_123_456_789, None, -1, 1_760_000_000_123_456_789], pa.int64())
        ids = pa.array([4 * number + row for row in range(4)])
        return pa.table([ids, *(times.cast(field.type) for field in list(schema)[1:])], schema=schema)

    warehouse.append_files(table, 3, files_per_commit=1, rows=rows)
    before = java.generic_rows(NAME)
    assert any("123456789" in row for row in before)
    ids = warehouse.rows(table, lineage=True)

    compact(warehouse)

    assert java.generic_rows(NAME) == before
    assert warehouse.rows(table, lineage=True) == ids
