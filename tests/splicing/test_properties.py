"""Random files are spliced: rows, facts and metrics equal those of encoding, and every offset is right."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_readers import rows_by_duckdb
from tests.builders.random_tables import files, write_each
from tests.builders.splice_tasks import assert_alike, both, rows_of, small_files_count

OPTIONS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["zstd", "zstd", "zstd", "snappy"]),
        "use_dictionary": st.sampled_from([False, False, True, ["id"]]),
        "write_page_index": st.booleans(),
        "write_statistics": st.sampled_from([True, True, False]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([7, 20, 1000]),
        "data_page_size": st.sampled_from([10, 1 << 20]),
        "max_rows_per_page": st.sampled_from([5, 1000]),
        "store_schema": st.booleans(),
        "write_page_checksum": st.booleans(),
    }
)
SETTINGS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["zstd", "zstd", "snappy"]),
        "dictionary": st.booleans(),
        "row_group_rows": st.sampled_from([60, 100, 1000]),
    }
)


@settings(max_examples=40, deadline=None)
@given(files(), st.lists(OPTIONS, min_size=4, max_size=4), SETTINGS)
def test_random_files_are_spliced_as_they_are_encoded(
    tables: list[pa.Table], how: list[dict[str, Any]], write: dict[str, Any]
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-splice-"))
    try:
        # The first file decides which columns are moved: what later ones have otherwise is made plain.
        how[0] |= {"compression": write["compression"], "use_dictionary": False, "write_statistics": True}
        inputs = write_each(directory, tables, how)
        schema = tables[0].schema
        with small_files_count():
            spliced, encoded = both(inputs, directory, schema, write=write)
        event(f"spliced: {spliced.bytes_spliced > 0}")
        assert_alike(spliced, encoded)
        if not spliced.outputs:
            return
        # As text, for NaN equals nothing.
        expected = repr(pa.concat_tables(tables).to_pylist())
        assert repr(rows_of(spliced).cast(schema).to_pylist()) == repr(rows_of(encoded).cast(schema).to_pylist())
        assert repr(rows_of(spliced).cast(schema).to_pylist()) == expected
        check_offsets(Path(spliced.outputs[0].path))
        assert rows_by_duckdb([spliced.outputs[0].path]) == rows_by_duckdb([encoded.outputs[0].path])
    finally:
        shutil.rmtree(directory)
