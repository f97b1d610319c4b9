"""A table of Java with every kind of delete, whose schema, spec and format version have changed."""

from tests.builders.java_tables import NAME
from tests.oracle.client import JavaCatalog

LINEAGE = "_row_id, _last_updated_sequence_number"


def make_table(java: JavaCatalog) -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(
        f"CREATE TABLE {NAME} (id BIGINT, region STRING, amount INT, note STRING, gone STRING, "
        "place STRUCT<city: STRING>) USING iceberg PARTITIONED BY (region) TBLPROPERTIES ('format-version' = '2', "
        "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')"
    )
    for start in (0, 100):
        java.sql(
            f"INSERT INTO {NAME} SELECT id, IF(id % 2 = 0, 'eu', 'us'), CAST(IF(id % 7 = 0, NULL, id % 7) AS INT), "
            "concat('note-', id % 3), concat('gone-', id % 11), IF(id % 5 = 0, NULL, named_struct('city', 'c')) "
            f"FROM range({start}, {start + 100})"
        )
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 IN (2, 3)")  # position deletes
    java.equality_delete(NAME, {"gone": ["gone-4"]}, ("eu",))
    java.equality_delete(NAME, {"amount": [None, 2], "note": ["note-1", "note-2"]}, ("us",))
    java.sql(f"ALTER TABLE {NAME} DROP COLUMN gone")
    java.sql(f"ALTER TABLE {NAME} ALTER COLUMN amount TYPE BIGINT")
    java.sql(f"ALTER TABLE {NAME} RENAME COLUMN note TO remark")
    java.sql(f"ALTER TABLE {NAME} ADD COLUMNS (late STRING, place.height INT)")
    java.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
    java.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD bucket(2, id)")
    insert(java, 200, 300)
    insert(java, 300, 400)
    # Vectors for files of both specs. The old position deletes of a file are merged into its vector. So the first
    # statement leaves out one region, whose position deletes stay.
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 5 AND region = 'us' AND id < 100")
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 4 AND id >= 200")
    java.sql(f"UPDATE {NAME} SET remark = 'updated' WHERE id % 50 = 7")
    java.equality_delete(NAME, {"amount": [3]}, ("eu", 0))


def insert(java: JavaCatalog, start: int, end: int) -> None:
    java.sql(
        f"INSERT INTO {NAME} (id, region, amount, remark, late, place) SELECT id, IF(id % 2 = 0, 'eu', 'us'), "
        "CAST(id % 7 AS BIGINT), concat('note-', id % 3), concat('late-', id % 5), "
        f"named_struct('city', 'd', 'height', CAST(id AS INT)) FROM range({start}, {end})"
    )


def lineage_of(java: JavaCatalog) -> list[tuple[int, int | None, int | None]]:
    return [(row[0], row[1], row[2]) for row in java.sql(f"SELECT id, {LINEAGE} FROM {NAME} ORDER BY id")]
