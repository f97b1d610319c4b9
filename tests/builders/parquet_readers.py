"""Reads Parquet files with several readers, in full and with filters that prune pages."""

from collections.abc import Callable

import datafusion
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

Read = Callable[[str, int | None], list[int]]


def by_datafusion(path: str, wanted: int | None) -> list[int]:
    """Uses page indexes and bloom filters, and filters rows while decoding."""
    config = datafusion.SessionConfig()
    for name in ("pushdown_filters", "enable_page_index", "bloom_filter_on_read", "pruning"):
        config = config.set(f"datafusion.execution.parquet.{name}", "true")
    frame = datafusion.SessionContext(config).read_parquet(path)
    if wanted is not None:
        frame = frame.filter(datafusion.col("id") == datafusion.lit(wanted))
    found: list[int] = frame.select("id").to_pydict()["id"]
    return found


def by_duckdb(path: str, wanted: int | None) -> list[int]:
    where = "" if wanted is None else f"WHERE id = {wanted}"
    with duckdb.connect() as connection:
        return [row[0] for row in connection.execute(f"SELECT id FROM '{path}' {where}").fetchall()]


def by_polars(path: str, wanted: int | None) -> list[int]:
    frame = polars.scan_parquet(path)
    if wanted is not None:
        frame = frame.filter(polars.col("id") == wanted)
    found: list[int] = frame.collect()["id"].to_list()
    return found


def by_arrow(path: str, wanted: int | None) -> list[int]:
    filters = None if wanted is None else [("id", "=", wanted)]
    found: list[int] = pq.read_table(path, columns=["id"], filters=filters)["id"].to_pylist()
    return found


READERS: tuple[Read, ...] = (by_datafusion, by_duckdb, by_polars, by_arrow)


def check_readers(path: str, ids: list[int]) -> None:
    """Checks that every reader finds these ids, all at once and some one by one."""
    for read in READERS:
        assert sorted(read(path, None)) == sorted(ids), read.__name__
        for wanted in (ids[0], ids[len(ids) // 2], ids[-1]):
            assert read(path, wanted) == [wanted] * ids.count(wanted), read.__name__
        assert read(path, -5) == [], read.__name__


def is_readable(path: str) -> bool:
    try:
        pq.read_table(path)
    except pa.ArrowInvalid:
        return False
    return True


def rows_by_duckdb(paths: list[str]) -> list[str]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT * FROM read_parquet(?)", [paths]).fetchall()
        even = connection.execute("SELECT count(*) FROM read_parquet(?) WHERE id = 17", [paths]).fetchall()
    return sorted(map(repr, [*found, *even]))
