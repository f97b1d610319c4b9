"""Java reads files that were copied as bytes, and finds rows by pages, bloom filters and bounds with every filter."""

from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.engines import Watched
from tests.builders.java_every_type_table import FILTERS, create, insert
from tests.builders.java_tables import NAME, PREDICATES, arrow_rows, compact, make_table
from tests.oracle.client import JavaCatalog
from tests.seed import SEED
from tidyberg.model.options import RewriteMode
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse, local_path

SMALL_PAGES = {
    "write.parquet.row-group-size-bytes": "30000",
    "write.parquet.row-group-check-min-record-count": "100",
    "write.parquet.page-row-limit": "50",
    "write.parquet.dict-size-bytes": "2000",
    "write.parquet.bloom-filter-enabled.column.id": "true",
    "write.parquet.bloom-filter-enabled.column.name": "true",
    "write.parquet.bloom-filter-max-bytes": "4096",
}


def float_metrics(java: JavaCatalog) -> list[tuple[Any, ...]]:
    """Returns the NaN count and bounds of both float columns of every file, as Java reads them from manifests."""
    names = ("nan_value_count", "lower_bound", "upper_bound")
    chosen = ", ".join(f"readable_metrics.{column}.{name}" for column in ("ratio", "weight") for name in names)
    return java.sql(f"SELECT {chosen} FROM {NAME}.files")


def copied(warehouse: Warehouse) -> list[TaskResult]:
    """Compacts the table, and fails unless all groups are copied."""
    engine = Watched()
    compact(warehouse, engine=engine, mode=RewriteMode.COPY)
    assert [(result.mode, result.mode_reason) for result in engine.results] == [("copy", "")] * len(engine.results)
    return engine.results


@pytest.mark.parametrize("codec", [("zstd", "uncompressed")[SEED % 2]])
def test_files_of_java_are_copied_and_found_by_every_filter(
    warehouse: Warehouse, java: JavaCatalog, codec: str
) -> None:
    create(java, **SMALL_PAGES, **{"write.parquet.compression-codec": codec})
    for first in range(0, 4000, 2000):
        insert(java, first, first + 2000)
    before, found = java.rows(NAME), {condition: java.rows(NAME, condition) for condition in FILTERS}
    assert all(found.values()), [condition for condition, rows in found.items() if not rows]
    by_generic_reader, metrics = java.generic_rows(NAME), float_metrics(java)
    (result,) = copied(warehouse)
    of_both = list(zip(*metrics, strict=True))
    for nans, lower, upper in ((0, 1, 2), (3, 4, 5)):
        expected = (sum(of_both[nans]), min(of_both[lower]), max(of_both[upper]))
        assert float_metrics(java)[0][nans : upper + 1] == expected
    assert float_metrics(java)[0][0] == 80
    assert java.rows(NAME) == before
    assert java.generic_rows(NAME) == by_generic_reader
    assert {condition: java.rows(NAME, condition) for condition in FILTERS} == found
    footer = pq.read_metadata(local_path(result.outputs[0].path))
    assert footer.num_row_groups >= 6
    chunk = footer.row_group(5).column(0)
    assert chunk.has_column_index
    assert chunk.has_offset_index
    assert chunk.bloom_filter_offset
    path = local_path(result.outputs[0].path)
    by_spark = java.sql(f"SELECT count(*), sum(id) FROM parquet.`{path}` WHERE id >= 1990 AND id < 2010")
    assert by_spark == [(20, sum(range(1990, 2010)))]
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    assert java.rows(NAME) == before


def test_files_of_pyiceberg_are_copied_and_found_by_every_filter(warehouse: Warehouse, java: JavaCatalog) -> None:
    table = make_table(warehouse)
    before = {condition: java.rows(NAME, condition) for condition in PREDICATES}
    assert all(before.values())
    copied(warehouse)
    assert java.rows(NAME) == arrow_rows(table)
    assert {condition: java.rows(NAME, condition) for condition in PREDICATES} == before


def test_rows_of_v3_keep_their_ids_through_copies(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, **{"format-version": "3", "write.parquet.page-row-limit": "50"})

    def lineage() -> list[tuple[Any, ...]]:
        return java.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {NAME} ORDER BY id")

    insert(java, 0, 400)
    insert(java, 400, 600)
    before, rows, one = lineage(), java.rows(NAME), java.rows(NAME, "_row_id = 417")
    assert len({row_id for _, row_id, _ in before}) == 600
    assert len(one) == 1
    copied(warehouse)
    assert lineage() == before
    assert java.rows(NAME) == rows
    assert java.rows(NAME, "_row_id = 417") == one
    insert(java, 600, 700)
    later = lineage()
    assert later[:600] == before
    copied(warehouse)  # one file stores its lineage now, the other's rows inherit theirs
    assert lineage() == later


def test_a_delete_by_bounds_spares_rows_that_bounds_do_not_cover(warehouse: Warehouse, java: JavaCatalog) -> None:
    """Java drops whole files if all rows match by their bounds. Bounds do not cover NaN, so NaN must be counted."""
    create(java)
    insert(java, 1, 100)
    insert(java, 100, 200)
    copied(warehouse)
    assert [found[0] for found in float_metrics(java)] == [3]
    java.sql(f"DELETE FROM {NAME} WHERE weight < 100 AND ratio < 1000")
    assert java.sql(f"SELECT count(*) FROM {NAME}") == [(101,)]
    java.sql(f"DELETE FROM {NAME} WHERE ratio < 1000")
    # For Spark, NaN is greater than every number.
    assert [row[0] for row in java.sql(f"SELECT id FROM {NAME} ORDER BY id")] == [50, 100, 150]
