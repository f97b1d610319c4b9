"""A table of Java with every kind of delete, whose schema, spec and format version have changed [I1, I4, I8]."""

from tests.builders.java_every_delete import insert, lineage_of, make_table
from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog
from tidyberg.testing import Warehouse


def test_java_reads_the_same_rows_and_row_ids_before_and_after(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    kinds = {(content, kind) for content, kind in java.sql(f"SELECT content, file_format FROM {NAME}.delete_files")}
    assert kinds == {(1, "PARQUET"), (1, "PUFFIN"), (2, "PARQUET")}, "position deletes, vectors and keys"
    assert len(java.sql(f"SELECT DISTINCT spec_id FROM {NAME}.data_files")) == 2
    before, lineage = java.rows(NAME), lineage_of(java)
    assert before
    assert all(row_id is not None and updated is not None for _, row_id, updated in lineage)

    result = compact(warehouse)

    assert not result.groups_left
    assert java.rows(NAME) == before
    assert lineage_of(java) == lineage
    assert java.sql(f"SELECT count(*) FROM {NAME}.delete_files") == [(0,)]
    assert java.rows(NAME, snapshot_id=result.plan.snapshot_id) == before

    insert(java, 400, 450)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 6")
    expected = java.rows(NAME), lineage_of(java)
    compact(warehouse)
    assert (java.rows(NAME), lineage_of(java)) == expected
