"""The checker finds no problem in files of any writer, except the known flaws of that writer."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import rows
from tests.builders.parquet_writers import (
    KNOWN_FLAWS,
    Writer,
    by_arrow,
    by_arrow_rs,
    by_datafusion,
    by_duckdb,
    by_fastparquet,
    by_polars,
    unknown_problems,
)
from tidyberg.parquet.check.file import check_path

ODD = pa.table(
    {
        "u32": pa.array([1, 2**32 - 1, None, 5] * 100, pa.uint32()),
        "u64": pa.array([1, 2**64 - 1, None, 5] * 100, pa.uint64()),
        "i8": pa.array([1, -5, None, 5] * 100, pa.int8()),
        "nan": pa.array([math.nan, 1.5, None, -0.0] * 100),
        "only nan": pa.array([math.nan] * 400),
        "zeros": pa.array([0.0, -0.0, 0.0, -0.0] * 100),
        "half": pa.array(np.array([1, 2, -3, 4] * 100, np.float16)),
        "nulls": pa.array([None] * 400, pa.int32()),
        "null texts": pa.array([None] * 400, pa.string()),
        "empty": pa.array([""] * 400),
        "long": pa.array(["x" * 300, "\U0010ffff" * 100, "é" * 99, "a"] * 100),
        "bytes": pa.array([b"\xff" * 100, b"", b"\x80", b"\x00"] * 100),
        "nested": pa.array([[[1, 2], None, []], None, [], [[3]]] * 100),
        "ns": pa.array([1, 2, 3, None] * 100, pa.timestamp("ns")),
        "flags": pa.array([[True], [], None, [False, None]] * 100),
    }
)
ALL = rows(0, 1500)
# Without types that fastparquet cannot infer from pandas objects, or that DuckDB has no column type for.
FLAT = ALL.select(["id", "small", "name", "ratio", "at", "zoned", "flag", "raw", "weight"])
FOR_DUCKDB = ODD.drop_columns(["half"])
BLOOM = {name: {"ndv": 500, "fpp": 0.01} for name in ("id", "name", "ratio", "key", "fixed", "day")}

CASES: dict[str, tuple[Writer, pa.Table]] = {
    "arrow": (by_arrow(row_group_size=400, write_page_index=True, bloom_filter_options=BLOOM), ALL),
    "arrow, odd": (by_arrow(row_group_size=170, write_page_index=True, max_rows_per_page=20), ODD),
    "arrow, plain": (by_arrow(use_dictionary=False, max_rows_per_page=50, write_page_checksum=True), ALL),
    "arrow, old": (by_arrow(version="1.0", compression="gzip", data_page_version="2.0"), ALL),
    "arrow, v2": (by_arrow(data_page_version="2.0", write_page_index=True, write_page_checksum=True), ALL),
    "arrow, v2, odd": (by_arrow(data_page_version="2.0", write_page_index=True, use_dictionary=False), ODD),
    "arrow, lz4": (by_arrow(compression="lz4", store_decimal_as_integer=True), ALL),
    "arrow, brotli": (by_arrow(compression="brotli", write_statistics=False), ALL),
    "arrow, fallback": (by_arrow(dictionary_pagesize_limit=200, data_page_size=100, write_batch_size=10), ALL),
    "arrow, fallback, odd": (by_arrow(dictionary_pagesize_limit=9, data_page_size=9, write_page_index=True), ODD),
    "arrow, delta": (
        by_arrow(
            use_dictionary=False,
            column_encoding={
                "id": "DELTA_BINARY_PACKED",
                "name": "DELTA_BYTE_ARRAY",
                "raw": "DELTA_LENGTH_BYTE_ARRAY",
                "ratio": "BYTE_STREAM_SPLIT",
                "place.label": "DELTA_BYTE_ARRAY",
                "small": "DELTA_BINARY_PACKED",
            },
            max_rows_per_page=100,
            write_page_index=True,
        ),
        ALL,
    ),
    "arrow, sorted": (by_arrow(sorting_columns=[pq.SortingColumn(0)], row_group_size=400), ALL),
    "arrow, int96": (by_arrow(use_deprecated_int96_timestamps=True), ALL),
    "arrow, no rows": (by_arrow(), ALL.slice(0, 0)),
    "arrow-rs": (
        by_arrow_rs(
            max_row_group_size=170,
            bloom_filter_enabled=True,
            bloom_filter_ndv=500,
            data_page_row_count_limit=20,
            write_batch_size=10,
        ),
        ALL,
    ),
    "arrow-rs, v2": (by_arrow_rs(writer_version="parquet_2_0", compression="lz4", max_row_group_size=500), ODD),
    "arrow-rs, cut bounds": (by_arrow_rs(max_statistics_size=8, dictionary_enabled=False), ODD),
    "polars": (by_polars(row_group_size=500), ALL),
    "polars, odd": (by_polars(compression="lz4", data_page_size=500, statistics="full"), ODD),
    "polars, small pages": (by_polars(row_group_size=1000, data_page_size=500, statistics="full"), ALL),
    "duckdb": (by_duckdb(", ROW_GROUP_SIZE 2048"), ALL),
    "duckdb, odd": (by_duckdb(), FOR_DUCKDB),
    "duckdb, v2": (by_duckdb(", PARQUET_VERSION v2, COMPRESSION zstd"), ALL),
    "fastparquet": (by_fastparquet(), FLAT),
    "fastparquet, zstd": (by_fastparquet(compression="ZSTD", stats=True, row_group_offsets=400), FLAT),
    "datafusion": (by_datafusion, ODD),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")  # of fastparquet's use of pandas
def test_files_of_every_writer_have_only_known_flaws(tmp_path: Path, case: str) -> None:
    write, table = CASES[case]
    path = tmp_path / "file.parquet"
    write(table, path)
    report = check_path(path)
    assert unknown_problems(report) == []
    assert report.rows == table.num_rows
    assert report.columns


DELTA = by_arrow(use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY", write_page_index=True)
EVIDENCE: dict[tuple[str, str], tuple[Writer, Any]] = {
    ("parquet-cpp-arrow", "page-kinds"): (by_arrow(data_page_version="2.0"), ["a", "b"]),
    ("parquet-cpp-arrow", "size-statistics"): (DELTA, ["same"] * 9),
    ("parquet-cpp-arrow", "page-sizes"): (DELTA, ["same"] * 9),
    ("DuckDB", "dictionary-encoding"): (by_duckdb(), ["a", "b"] * 50),
    ("Polars", "file-offset"): (by_polars(), ["a", "b"] * 50),
    ("Polars", "statistics-loose"): (by_polars(data_page_size=500), list(range(1000))),
    ("parquet-rs", "null-page"): (by_arrow_rs(), [[1, None]]),
    ("datafusion", "null-page"): (by_datafusion, [[1, None]]),
}


@pytest.mark.parametrize(("writer", "rule"), [(name, rule) for name, flaws in KNOWN_FLAWS.items() for rule in flaws])
def test_every_listed_flaw_still_exists(tmp_path: Path, writer: str, rule: str) -> None:
    write, values = EVIDENCE[writer, rule]
    path = tmp_path / "file.parquet"
    write(pa.table({"a": values}), path)
    report = check_path(path)
    assert report.created_by.startswith(writer)
    assert rule in {problem.rule for problem in report.problems}
