"""A table that Java writes, with a column of every type."""

from tests.builders.java_tables import NAME
from tests.oracle.client import JavaCatalog

COLUMNS = (
    "id BIGINT NOT NULL, small INT, name STRING, ratio DOUBLE, weight FLOAT, price DECIMAL(20, 2), "
    "cents DECIMAL(7, 2), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, flag BOOLEAN, raw BINARY, "
    "place STRUCT<x: INT, label: STRING>, tags ARRAY<STRUCT<p: INT, q: STRING>>, counts MAP<STRING, BIGINT>"
)

VALUES = (
    "id, IF(id % 7 = 0, NULL, int(id % 100)), concat('name-', id % 500), IF(id % 50 = 0, double('NaN'), id / 7), "
    "float(id), decimal(id) * 100, decimal(id % 1000), timestamp_seconds(1700000000 + id * 60), "
    "CAST(timestamp_seconds(1700000000 + id * 60) AS TIMESTAMP_NTZ), date_add(DATE '2024-01-01', int(id % 1000)), "
    "id % 2 = 0, unhex(hex(id)), IF(id % 3 = 0, NULL, named_struct('x', int(id), 'label', concat('l', id % 10))), "
    "IF(id % 4 = 0, NULL, IF(id % 4 = 1, array(), array(named_struct('p', int(id), 'q', 'q'), NULL))), "
    "IF(id % 5 = 0, NULL, map('a', id, 'b', NULL))"
)

FILTERS = (
    "id = 3123",
    "id BETWEEN 990 AND 1010",
    "small = 42",
    "small IS NULL",
    "name = 'name-77'",
    "name > 'name-49'",
    "ratio > 500 AND NOT isnan(ratio)",
    "isnan(ratio)",
    "weight < 20",
    "price = 250000",
    "cents > 990",
    "at >= TIMESTAMP '2023-11-17 00:00:00Z'",
    "local < TIMESTAMP_NTZ '2023-11-15 00:00:00'",
    "day = DATE '2025-01-01'",
    "flag AND id > 3900",
    "raw > X'0F00'",
    "place.x > 3990",
    "place.label = 'l7'",
    "tags IS NULL",
    "counts IS NULL AND id < 100",
)


def create(java: JavaCatalog, **properties: str) -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    given = {"format-version": "2", **properties}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    java.sql(f"CREATE TABLE {NAME} ({COLUMNS}) USING iceberg TBLPROPERTIES ({listed})")


def insert(java: JavaCatalog, first: int, end: int) -> None:
    java.sql(f"INSERT INTO {NAME} SELECT /*+ COALESCE(1) */ {VALUES} FROM range({first}, {end})")
