"""Random files are copied: every reader finds the same rows, and every offset is right."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import copy, read_back
from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_readers import rows_by_duckdb
from tests.builders.random_tables import files, write_each

options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
        "use_dictionary": st.booleans(),
        "write_page_index": st.booleans(),
        "write_statistics": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([7, 20, 1000]),
        "data_page_size": st.sampled_from([10, 1 << 20]),
        "max_rows_per_page": st.sampled_from([5, 1000]),
        "store_schema": st.booleans(),
        "write_page_checksum": st.booleans(),
        "bloom_filter_options": st.sampled_from([None, {"id": {"ndv": 20, "fpp": 0.1}}]),
    }
)


@settings(max_examples=60, deadline=None)
@given(files(), st.lists(options, min_size=4, max_size=4), st.integers(1, 3))
def test_copies_of_random_files_have_the_same_rows(
    tables: list[pa.Table], how: list[dict[str, Any]], outputs: int
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-copy-"))
    try:
        inputs = write_each(directory, tables, how)
        schema = tables[0].schema
        result = copy(inputs, directory / "out", schema, outputs=outputs)
        assert (result.mode, result.mode_reason) == ("copy", "")
        expected = pa.concat_tables(tables)
        assert result.rows_read == result.rows_written == expected.num_rows
        if not expected.num_rows:
            assert result.outputs == ()
            return
        # As text, for NaN equals nothing.
        assert repr(read_back(result, schema).to_pylist()) == repr(expected.to_pylist())
        for output in result.outputs:
            check_offsets(Path(output.path))
        assert rows_by_duckdb([output.path for output in result.outputs]) == rows_by_duckdb(
            [file.path for file in inputs]
        )
    finally:
        shutil.rmtree(directory)
