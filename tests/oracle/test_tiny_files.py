"""Many tiny files that Java wrote are read at once, and Java finds the same rows afterwards."""

from typing import Any

import pytest

from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.execute.kernel.read import small_files as tiny
from tidyberg.testing import Warehouse

COLUMNS = (
    "id BIGINT NOT NULL, small INT, name STRING, ratio DOUBLE, price DECIMAL(20, 2), cents DECIMAL(7, 2), "
    "at TIMESTAMP, day DATE, flag BOOLEAN, raw BINARY, place STRUCT<x: INT, label: STRING>"
)
VALUES = (
    "id, IF(id % 7 = 0, NULL, int(id % 10)), concat('name-', id % 5), IF(id % 50 = 0, double('NaN'), id / 7), "
    "decimal(id) * 100, decimal(id % 1000), timestamp_seconds(1700000000 + id * 60), "
    "date_add(DATE '2024-01-01', int(id % 1000)), id % 2 = 0, unhex(hex(id)), "
    "IF(id % 3 = 0, NULL, named_struct('x', int(id), 'label', concat('l', id % 10)))"
)


@pytest.mark.parametrize(("codec", "format_version"), [("zstd", 2), ("snappy", 3)])
def test_tiny_files_of_java_are_joined(
    warehouse: Warehouse, java: JavaCatalog, monkeypatch: pytest.MonkeyPatch, codec: str, format_version: int
) -> None:
    joined: list[int] = []
    read = tiny.SmallFileReader.read

    def watched(files: tiny.SmallFileReader, bunch: Any, shape: Any) -> Any:
        found = read(files, bunch, shape)
        joined.append(0 if found is None else len(bunch))
        return found

    monkeypatch.setattr(tiny.SmallFileReader, "read", watched)
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(
        f"CREATE TABLE {NAME} ({COLUMNS}) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{format_version}', 'write.parquet.compression-codec' = '{codec}')"
    )
    for first in range(0, 300, 100):
        java.sql(f"INSERT INTO {NAME} SELECT /*+ COALESCE(1) */ {VALUES} FROM range({first}, {first + 100})")
    before = java.rows(NAME)
    lineage = lineage_of(java) if format_version > 2 else []
    compact(warehouse)
    assert joined == [3]
    assert java.rows(NAME) == before
    if format_version > 2:
        assert len(lineage) == 300
        assert lineage_of(java) == lineage


def lineage_of(java: JavaCatalog) -> list[tuple[Any, ...]]:
    return java.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {NAME} ORDER BY id")
