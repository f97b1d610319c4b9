"""Reads a file with every installed reader, whole and with filters."""

from collections.abc import Callable

import datafusion
import duckdb
import polars
import pyarrow.parquet as pq

Read = Callable[[str, int | None], list[int]]


def by_datafusion(path: str, wanted: int | None) -> list[int]:
    """Uses page indexes and bloom filters, and filters rows while they are decoded."""
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
    """Every reader finds these ids, all of them and each of a few by itself."""
    for read in READERS:
        assert sorted(read(path, None)) == sorted(ids), read.__name__
        for wanted in (ids[0], ids[len(ids) // 2], ids[-1]):
            assert read(path, wanted) == [wanted] * ids.count(wanted), read.__name__
        assert read(path, -5) == [], read.__name__
