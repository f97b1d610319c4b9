"""Tables that Java writes and whose schema Java changes."""

from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse


def same_rows_after_compaction(
    warehouse: Warehouse, java: JavaCatalog, outputs: int, *, time_travel: bool = True, generic: bool = True
) -> None:
    before = java.rows(NAME)
    by_generic_reader = java.generic_rows(NAME) if generic else []
    head = warehouse.catalog.load_table(NAME).metadata.current_snapshot_id
    travelled = (
        java.rows(NAME, snapshot_id=head) if time_travel else []
    )  # in the schema of that snapshot, which may be an older one
    assert before
    result = compact(warehouse)
    assert result.stats.files_after == outputs
    assert java.rows(NAME) == before
    assert not generic or java.generic_rows(NAME) == by_generic_reader
    assert not time_travel or java.rows(NAME, snapshot_id=head) == travelled


def create(java: JavaCatalog, columns: str, rest: str = "", version: int = 2) -> None:
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(f"CREATE TABLE {NAME} ({columns}) USING iceberg {rest} TBLPROPERTIES ('format-version' = '{version}')")


def alter(java: JavaCatalog, *changes: str) -> None:
    for change in changes:
        java.sql(f"ALTER TABLE {NAME} {change}")
