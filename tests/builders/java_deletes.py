"""A table that Java writes, with deletes of every kind."""

from tests.builders.java_tables import NAME
from tests.oracle.client import JavaCatalog


def make_table(java: JavaCatalog, partitioning: str = "", granularity: str = "file") -> None:
    """Creates a merge-on-read table of 300 rows in two regions, in three commits."""
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, region STRING, amount INT, note STRING, at TIMESTAMP, "
        f"place STRUCT<city: STRING, height: INT>) USING iceberg {partitioning} TBLPROPERTIES "
        "('format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
        f"'write.merge.mode' = 'merge-on-read', 'write.delete.granularity' = '{granularity}')"
    )
    for number in range(3):
        insert(java, number * 100, number * 100 + 100)


def insert(java: JavaCatalog, start: int, end: int) -> None:
    java.sql(
        f"INSERT INTO {NAME} SELECT id, IF(id % 2 = 0, 'eu', 'us'), IF(id % 7 = 0, NULL, id % 7), "
        "concat('note-', id % 3), timestamp_seconds(id * 3600), "
        f"IF(id % 5 = 0, NULL, named_struct('city', concat('c', id % 4), 'height', id)) FROM range({start}, {end})"
    )


def change_rows(java: JavaCatalog) -> None:
    """Runs a delete, an update and a merge. Each of them writes position deletes."""
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 3")
    java.sql(f"UPDATE {NAME} SET amount = amount + 100 WHERE id % 10 = 4")
    java.sql(
        f"MERGE INTO {NAME} AS t USING (SELECT id * 5 AS id FROM range(0, 100)) AS s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, region, note) VALUES (s.id, 'eu', 'new')"
    )


def delete_count(java: JavaCatalog) -> int:
    count: int = java.sql(f"SELECT count(*) FROM {NAME}.delete_files")[0][0]
    return count


def java_deletes(java: JavaCatalog, partitioning: str) -> None:
    """Writes equality deletes over several sets of columns, for one partition or for all."""
    region = ("eu",) if partitioning else None
    java.equality_delete(NAME, {"id": [0, 8, 14, 1000]}, region)
    java.equality_delete(NAME, {"amount": [None, 2], "note": ["note-1", "note-2"]}, region)
    insert(java, 0, 20)  # newer than these deletes, so it stays
    java.equality_delete(NAME, {"note": ["note-0"], "amount": [5], "region": ["eu"]}, region)
