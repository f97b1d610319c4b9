"""Parquet writers, and the false statements that each of them is known to write.

`tests/checking/test_writers.py` shows each flaw in a file of that writer, and fails once the writer is fixed.
"""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import fastparquet
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from arro3.io import write_parquet

from tidyberg.parquet.check.file import FileReport
from tidyberg.parquet.check.problems import FileProblem

Writer = Callable[[pa.Table, Path], None]

# Keyed by the first part of the writer's name in the footer.
KNOWN_FLAWS: dict[str, dict[str, str]] = {
    "parquet-cpp-arrow": {
        "page-kinds": "encoding_stats count data pages of the second version as of the first",
        "size-statistics": "of DELTA_BYTE_ARRAY, unencoded bytes leave out what values share with the one before",
        "page-sizes": "the same, in the offset index",
    },
    "DuckDB": {"dictionary-encoding": "the list of encodings leaves out PLAIN, in which dictionaries are written"},
    "Polars": {
        "file-offset": "a chunk's file_offset is the first data page plus the length of all pages",
        "statistics-loose": "pages of plain columns carry the bounds of their whole chunk",
    },
    "parquet-rs": {"null-page": "a page with values is called null where its nulls are as many as its rows"},
    "datafusion": {"null-page": "a page with values is called null where its nulls are as many as its rows"},
}


def unknown_problems(report: FileReport) -> list[FileProblem]:
    """Returns the problems other than the known flaws of the writer."""
    known = {rule for name, flaws in KNOWN_FLAWS.items() if report.created_by.startswith(name) for rule in flaws}
    return [problem for problem in report.problems if problem.rule not in known]


def by_arrow(**options: Any) -> Writer:
    return lambda table, path: pq.write_table(table, path, **options)


def by_arrow_rs(**options: Any) -> Writer:
    return lambda table, path: write_parquet(table, path, **options)


def by_polars(**options: Any) -> Writer:
    def write(table: pa.Table, path: Path) -> None:
        frame = polars.from_arrow(table)
        assert isinstance(frame, polars.DataFrame)
        frame.write_parquet(path, **options)

    return write


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def by_duckdb(options: str = "") -> Writer:
    def write(table: pa.Table, path: Path) -> None:
        connection = _duckdb()
        connection.register("given", table)
        connection.execute(f"COPY given TO '{path}' (FORMAT parquet{options})")
        connection.unregister("given")

    return write


def by_fastparquet(**options: Any) -> Writer:
    return lambda table, path: fastparquet.write(str(path), table.to_pandas(), **options)


def by_datafusion(table: pa.Table, path: Path) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        datafusion.SessionContext().from_arrow(table).write_parquet(str(directory))
        (made,) = directory.glob("*.parquet")
        shutil.move(made, path)
    finally:
        shutil.rmtree(directory)
