"""Compares the files that `tidyberg advise` predicts with the files that Iceberg's Java library reads.

For each table, 20 random predicates go into a query log. The advice says how many files each of them reads today, and
how many after the recommended layout. The table is then written in that layout, and Java's scan reports say how many
files each predicate really reads. The median of the relative errors must be below 20 %.

python -m benchmarks.pruning
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.java_scans import JavaScans, scanned_warehouse
from benchmarks.skipping import FILES, Rows, build, numbers, urls
from tidyberg import app
from tidyberg.model.options import PlanOptions
from tidyberg.model.table import TableRef
from tidyberg.model.workload import LayoutChoice, QueryAdvice
from tidyberg.planning.workload.query_log import QueryLog
from tidyberg.planning.workload.sql_queries import LoggedQuery
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

QUERIES = 20
MOST_ERROR = 0.2
WEIGHTS = [1 + number / 10_000 for number in range(QUERIES)]  # tell the queries apart, and hardly weigh
Comparison = tuple[str, str, Any]  # column, operator of Java's expressions, value
_SQL = {"equal": "=", "greaterThanOrEqual": ">=", "lessThan": "<"}


@dataclass(frozen=True)
class Case:
    name: str
    rows: Rows
    columns: tuple[str, ...]  # that predicates compare
    together: int = 1  # so many columns in one predicate


def _two(drawn: np.random.Generator, rows: int) -> pa.Table:
    return numbers(drawn, rows, 2)


def _three(drawn: np.random.Generator, rows: int) -> pa.Table:
    return numbers(drawn, rows, 3)


def _skewed(drawn: np.random.Generator, rows: int) -> pa.Table:
    """Few values have most of the rows."""
    values = {name: (drawn.pareto(1.2, rows) * 1000).clip(max=1e15).astype(np.int64) for name in "ab"}
    return pa.table({**values, "payload": drawn.random(rows)})


CASES = (
    Case("lookups and ranges of one column", _two, ("a",)),
    Case("lookups and ranges of either of two columns", _two, ("a", "b")),
    Case("lookups and ranges of any of three columns", _three, ("a", "b", "c")),
    Case("conditions on two columns together", _two, ("a", "b"), together=2),
    Case("two skewed columns", _skewed, ("a", "b")),
    Case("a URL and a number", urls, ("url", "at")),
)


def predicates(case: Case, sample: pa.Table, drawn: np.random.Generator) -> list[list[Comparison]]:
    """Draws values that exist, and ranges of up to a tenth of the rows, of random columns."""
    found: list[list[Comparison]] = []
    while len(found) < QUERIES:
        conditions: list[Comparison] = []
        for column in drawn.choice(case.columns, case.together, replace=False).tolist():
            values = sorted(sample[column].to_pylist())
            if drawn.random() < 0.4:
                conditions.append((column, "equal", values[int(drawn.integers(len(values)))]))
                continue
            width = int(drawn.integers(1, len(values) // 10))
            low = int(drawn.integers(len(values) - width))
            conditions.append((column, "greaterThanOrEqual", values[low]))
            conditions.append((column, "lessThan", values[low + width]))
        if conditions not in found:
            found.append(conditions)
    return found


def sql_of(table: str, conditions: Sequence[Comparison]) -> str:
    words = " and ".join(f"{column} {_SQL[operator]} {_literal(value)}" for column, operator, value in conditions)
    return f"select * from {table} where {words}"


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def options_of(layout: LayoutChoice) -> dict[str, str]:
    return {"sort" if layout.curve is None else layout.curve.value: ", ".join(layout.columns)}


def errors(predicted: Sequence[float], measured: Sequence[int]) -> list[float]:
    return [abs(guess - found) / max(1, found) for guess, found in zip(predicted, measured, strict=True)]


def measure_case(case: Case, number: int, warehouse: Warehouse, scans: JavaScans) -> bool:
    name = f"db.pruned{number}"
    table, sample = build(warehouse, f"pruned{number}", case.rows)
    asked = predicates(case, sample, np.random.default_rng(100 + number))
    texts = [sql_of(name, one) for one in asked]
    ref = TableRef.parse(name, "lab")
    settings = Settings.model_validate({"engine": "inline", "catalogs": {"lab": warehouse.properties}})
    with app.build_control(settings) as control:
        # The advice is for as many files as there are today. So files are first encoded as the layout will be, in an
        # order that helps no query.
        assert control.compact(ref, _of_size(table, sort="payload")).outcome == "committed"
        log = QueryLog(tuple(LoggedQuery(text, WEIGHTS[place]) for place, text in enumerate(texts)))
        advice = control.query_adviser(ref, PlanOptions()).advise(log)
        assert advice.best is not None, advice.why
        files = scans.live_files(name)
        before = [scans.files_read(name, [one]) for one in asked]
        assert control.compact(ref, _of_size(table, **options_of(advice.best))).outcome == "committed"
    after = [scans.files_read(name, [one]) for one in asked]
    was, becomes = _predictions(advice)
    now = float(np.median(errors(was, before)))
    then = float(np.median(errors(becomes, after)))
    print(
        f"{case.name}: {advice.best}, {files} -> {scans.live_files(name)} files; a query reads {np.mean(before):.1f} "
        f"before, and {np.mean(after):.1f} after it (predicted {np.mean(was):.1f} and {np.mean(becomes):.1f}); "
        f"median error {now:.1%} before, {then:.1%} after {'' if then < MOST_ERROR else '<-- too large'}",
        flush=True,
    )
    return max(now, then) < MOST_ERROR


def _of_size(table: Table, **options: Any) -> PlanOptions:
    """Returns options that keep the number of files."""
    size = sum(task.file.file_size_in_bytes for task in table.refresh().scan().plan_files())
    return PlanOptions(target_file_size=size // FILES, **options)


def _predictions(advice: QueryAdvice) -> tuple[list[float], list[float]]:
    scores = {one.weight: one for one in advice.filters}
    found = [scores[weight] for weight in WEIGHTS]
    return [one.before for one in found], [one.after for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="of Spark")
    given = parser.parse_args()
    with scanned_warehouse(given.threads) as (warehouse, scans):
        good = [measure_case(case, number, warehouse, scans) for number, case in enumerate(CASES)]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
