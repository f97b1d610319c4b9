"""Java is the judge of minor compactions: it reads the same rows and row ids, and goes on with the new deletes."""

import shutil

import pytest

from tests.builders.java_deletes import change_rows
from tests.builders.java_deletes import java_deletes as write_keys
from tests.builders.java_deletes import make_table as make_v2_table
from tests.builders.java_every_delete import insert, lineage_of, make_table
from tests.builders.java_tables import NAME, compact
from tests.oracle.client import JavaCatalog, OracleError
from tidyberg.model.options import Strategy
from tidyberg.testing import Warehouse, local_path


def test_v2_position_deletes(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_v2_table(java, "PARTITIONED BY (region)", "partition")
    change_rows(java)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 6")
    before = java.rows(NAME)
    files = java.sql(f"SELECT file_path FROM {NAME}.data_files ORDER BY 1")

    result = compact(warehouse, strategy=Strategy.DELETES_ONLY)

    assert result.outcome == "committed"
    assert java.rows(NAME) == before
    ids = warehouse.catalog.load_table(NAME).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert sorted(ids) == [number for (number,) in java.sql(f"SELECT id FROM {NAME} ORDER BY id")], "as PyIceberg reads"
    assert java.sql(f"SELECT file_path FROM {NAME}.data_files ORDER BY 1") == files
    referenced = java.sql(f"SELECT referenced_data_file FROM {NAME}.delete_files")
    assert len(set(referenced)) == len(referenced), "one delete file per data file"
    assert set(referenced) <= set(files)
    assert _totals_are_true(java)

    write_keys(java, "PARTITIONED BY (region)")
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 7")
    before = java.rows(NAME)
    compact(warehouse, strategy=Strategy.DELETES_ONLY)
    assert java.rows(NAME) == before
    assert _deletes(java)[2, "PARQUET"] == 3, "equality deletes stay"


def test_v3_deletes_of_every_kind_become_vectors(warehouse: Warehouse, java: JavaCatalog) -> None:
    make_table(java)
    before, lineage = java.rows(NAME), lineage_of(java)

    result = compact(warehouse, strategy=Strategy.DELETES_ONLY)

    assert result.outcome == "committed"
    assert java.rows(NAME) == before
    assert lineage_of(java) == lineage
    assert set(_deletes(java)) == {(1, "PUFFIN")}
    assert java.rows(NAME, snapshot_id=result.plan.snapshot_id) == before
    assert _totals_are_true(java)

    insert(java, 400, 450)
    java.sql(f"DELETE FROM {NAME} WHERE id % 10 = 6")  # Java merges our vectors into its own
    java.equality_delete(NAME, {"amount": [4]}, ("eu", 0))
    before, lineage = java.rows(NAME), lineage_of(java)
    compact(warehouse, strategy=Strategy.DELETES_ONLY)
    assert (java.rows(NAME), lineage_of(java)) == (before, lineage)
    assert set(_deletes(java)) == {(1, "PUFFIN")}
    assert _totals_are_true(java)

    compact(warehouse)
    assert (java.rows(NAME), lineage_of(java)) == (before, lineage)
    assert not _deletes(java)


def test_javas_compaction_that_began_before_an_equality_delete_fails_after_the_delete_became_a_vector(
    warehouse: Warehouse, java: JavaCatalog
) -> None:
    """Its outputs are older than the equality delete and rely on it. Without the delete, the rows would be back."""
    java.sql("CREATE NAMESPACE IF NOT EXISTS db")
    java.sql(f"CREATE TABLE {NAME} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    java.sql(f"INSERT INTO {NAME} SELECT /*+ COALESCE(1) */ id FROM range(100)")
    started = warehouse.catalog.load_table(NAME).metadata.current_snapshot_id
    assert started is not None
    ((path,),) = java.sql(f"SELECT file_path FROM {NAME}.data_files")
    copy = path.replace(".parquet", "-copy.parquet")
    shutil.copy(local_path(path), local_path(copy))
    java.equality_delete(NAME, {"id": [3, 4]})
    expected = java.rows(NAME)

    compact(warehouse, strategy=Strategy.DELETES_ONLY)
    assert java.rows(NAME) == expected
    with pytest.raises(OracleError, match="found new position delete"):
        java.rewrite_file(NAME, path, copy, started)
    assert java.rows(NAME) == expected


def _deletes(java: JavaCatalog) -> dict[tuple[int, str], int]:
    """Returns the number of delete files by content and format."""
    rows = java.sql(f"SELECT content, file_format, count(*) FROM {NAME}.delete_files GROUP BY 1, 2")
    return {(content, kind): count for content, kind, count in rows}


def _totals_are_true(java: JavaCatalog) -> bool:
    """Whether the totals in the summary of the last snapshot are those of the files that it lists."""
    ((summary,),) = java.sql(f"SELECT summary FROM {NAME}.snapshots ORDER BY committed_at DESC LIMIT 1")
    ((files, positions, keys),) = java.sql(
        f"SELECT count(*), coalesce(sum(IF(content = 1, record_count, 0)), 0), "
        f"coalesce(sum(IF(content = 2, record_count, 0)), 0) FROM {NAME}.delete_files"
    )
    names = ("total-delete-files", "total-position-deletes", "total-equality-deletes")
    return [int(summary[name]) for name in names] == [files, positions, keys]
