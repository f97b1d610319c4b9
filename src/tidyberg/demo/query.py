"""Times one query over all of demo.events."""

import statistics
import time
from dataclasses import dataclass

from pyiceberg.catalog import Catalog

from tidyberg.demo.events import TABLE

RUNS = 3
QUERY = "select kind, count(*), sum(amount) from demo.events group by kind"


@dataclass(frozen=True, slots=True)
class QueryResult:
    seconds: float  # median of a few runs, each of which reads the metadata again
    rows: int
    result: tuple[tuple[str, int, float], ...]


def run_query(catalog: Catalog) -> QueryResult:
    """Runs the query with PyIceberg, as any Python reader would."""
    times: list[float] = []
    rows, result = 0, tuple[tuple[str, int, float], ...]()
    for _ in range(RUNS):
        started = time.perf_counter()
        contents = catalog.load_table(TABLE).scan(selected_fields=("kind", "amount")).to_arrow()
        grouped = contents.group_by("kind").aggregate([("amount", "count"), ("amount", "sum")])
        times.append(time.perf_counter() - started)
        rows = contents.num_rows
        result = tuple(
            (row["kind"], row["amount_count"], round(row["amount_sum"], 2))
            for row in grouped.sort_by("kind").to_pylist()
        )
    return QueryResult(statistics.median(times), rows, result)
