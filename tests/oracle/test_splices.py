"""Java reads files whose pages were moved into larger row groups, with every filter and all of its readers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import SCHEMA, rows, write_files
from tests.builders.engines import Watched
from tests.builders.java_every_type_table import FILTERS, create, insert
from tests.builders.java_tables import NAME, compact
from tests.builders.splice_tasks import moved_columns, rewrite, small_files_count
from tests.oracle.client import JavaCatalog
from tidyberg.execute.kernel.splice import eligibility as judge
from tidyberg.model.options import VerifyMode
from tidyberg.model.task import TaskResult
from tidyberg.testing import Warehouse, local_path

WITHOUT_DICTIONARIES = {"write.parquet.page-row-limit": "500", "write.parquet.dict-size-bytes": "1"}


def spliced(warehouse: Warehouse, *, everything: bool = False) -> TaskResult:
    """Compacts the table, and fails unless pages are moved.

    With `everything`, columns for which a dictionary pays are moved too, unless they are in lists.
    """
    engine = Watched()
    with small_files_count(), pytest.MonkeyPatch.context() as patch:
        if everything:
            patch.setattr(judge, "_dictionaries_from_first_rows", lambda *_: {})
        # Full verification would decode all rows, so nothing would be spliced.
        compact(warehouse, engine=engine, verify=VerifyMode.COUNTS)
    (result,) = engine.results
    assert result.mode == "encode"
    assert result.bytes_spliced > 0
    return result


def test_files_of_java_are_spliced_and_found_by_every_filter(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, **WITHOUT_DICTIONARIES)
    for first in range(0, 4000, 2000):
        insert(java, first, first + 2000)
    before, found = java.rows(NAME), {condition: java.rows(NAME, condition) for condition in FILTERS}
    assert all(found.values()), [condition for condition, rows in found.items() if not rows]
    by_generic_reader = java.generic_rows(NAME)
    result = spliced(warehouse, everything=True)
    assert java.rows(NAME) == before
    assert java.generic_rows(NAME) == by_generic_reader
    assert {condition: java.rows(NAME, condition) for condition in FILTERS} == found
    path = local_path(result.outputs[0].path)
    footer = pq.read_metadata(path)
    assert footer.num_row_groups == 1
    chunks = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    assert all(chunk.has_offset_index for chunk in chunks)
    # Java writes no column index for columns with NaN.
    assert [chunk.path_in_schema for chunk in chunks if not chunk.has_column_index] == ["ratio"]
    encoded = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
    assert all(name.startswith(("tags.", "counts.")) for name in encoded)  # lists and maps are never moved
    by_spark = java.sql(f"SELECT count(*), sum(id) FROM parquet.`{path}` WHERE id >= 1990 AND id < 2010")
    assert by_spark == [(20, sum(range(1990, 2010)))]
    java.sql(f"DELETE FROM {NAME} WHERE ratio < 100")  # uses bounds; rows with NaN must stay
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE isnan(ratio)") == [(80,)]
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    assert java.sql(f"SELECT count(*) FROM {NAME} WHERE isnan(ratio)") == [(80,)]


def test_dictionaries_of_pyiceberg_become_pages_that_java_reads(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java)
    insert(java, 0, 4000)
    table = warehouse.catalog.load_table(NAME)
    written = table.scan().to_arrow()
    table.overwrite(written.slice(0, 2000))
    table.append(written.slice(2000))
    before, found = java.rows(NAME), {condition: java.rows(NAME, condition) for condition in FILTERS}
    by_generic_reader = java.generic_rows(NAME)
    result = spliced(warehouse, everything=True)
    path = local_path(result.outputs[0].path)
    moved = moved_columns(result)
    assert {"id", "ratio", "price", "at", "place.x"} <= moved  # each value once
    assert not {"small", "name"} & moved
    assert java.rows(NAME) == before
    assert java.generic_rows(NAME) == by_generic_reader
    assert {condition: java.rows(NAME, condition) for condition in FILTERS} == found
    for vectorized in ("true", "false"):  # Spark's own two readers
        java.sql(f"SET spark.sql.parquet.enableVectorizedReader = {vectorized}")
        assert java.sql(f"SELECT count(*), sum(id), sum(price), sum(place.x) FROM parquet.`{path}`") == java.sql(
            f"SELECT count(*), sum(id), sum(price), sum(place.x) FROM {NAME}"
        )
        assert java.sql(f"SELECT id FROM parquet.`{path}` WHERE id BETWEEN 1998 AND 2001 ORDER BY id") == [
            (1998,),
            (1999,),
            (2000,),
            (2001,),
        ]
    java.sql("RESET spark.sql.parquet.enableVectorizedReader")
    java.call("rewrite_data_files", table=NAME, options={"rewrite-all": "true"})
    assert java.rows(NAME) == before


def test_rows_of_v3_keep_their_ids_beside_moved_pages(warehouse: Warehouse, java: JavaCatalog) -> None:
    create(java, **WITHOUT_DICTIONARIES, **{"format-version": "3"})

    def lineage() -> list[tuple[Any, ...]]:
        return java.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {NAME} ORDER BY id")

    insert(java, 0, 400)
    insert(java, 400, 600)
    before, all_rows, one = lineage(), java.rows(NAME), java.rows(NAME, "_row_id = 417")
    assert len({row_id for _, row_id, _ in before}) == 600
    spliced(warehouse)
    assert lineage() == before
    assert java.rows(NAME) == all_rows
    assert java.rows(NAME, "_row_id = 417") == one
    insert(java, 600, 700)
    later = lineage()
    assert later[:600] == before
    spliced(warehouse, everything=True)  # one file stores its lineage now, the other's rows inherit theirs
    assert lineage() == later


def test_spark_reads_pages_of_both_kinds_in_one_column(java: JavaCatalog, tmp_path: Path) -> None:
    schema = pa.schema([column for column in SCHEMA if column.name not in ("key", "clock")])  # Spark has no such types
    inputs = [
        write_files(
            tmp_path / version,
            [rows(first, 100).select(schema.names)],
            use_dictionary=False,
            compression="zstd",
            data_page_version=version,
            write_page_index=True,
        )[0]
        for version, first in (("1.0", 0), ("2.0", 100))
    ]
    with small_files_count():
        result = rewrite(inputs, tmp_path / "out", schema)
    assert result.bytes_spliced > 0
    columns = ", ".join(name for name in schema.names if name != "raw")
    (path,) = [output.path for output in result.outputs]
    wanted = [java.sql(f"SELECT {columns} FROM parquet.`{file.path}` ORDER BY id") for file in inputs]
    assert java.sql(f"SELECT {columns} FROM parquet.`{path}` ORDER BY id") == wanted[0] + wanted[1]
    assert java.sql(f"SELECT count(*) FROM parquet.`{path}` WHERE id BETWEEN 95 AND 104") == [(10,)]
