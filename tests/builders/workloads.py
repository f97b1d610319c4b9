"""Tables in memory whose files are lists of rows, for tests of layouts: their bounds, samples and true reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.file_bounds import ColumnBounds, FileBounds
from tidyberg.model.table import TableRef
from tidyberg.model.workload import (
    AllOf,
    AnyOf,
    Anything,
    Comparison,
    Condition,
    LayoutChoice,
    Operator,
    SampleFacts,
    ScanFilter,
    Workload,
)
from tidyberg.planning.workload.recommend import Recommender, RowSample

TABLE = TableRef("lake", ("db",), "t")
MB = 1024 * 1024


@dataclass(frozen=True)
class TableOfRows:
    """Rows of the table, with the file and the partition of each file."""

    rows: pa.Table
    file_of_row: np.ndarray
    partitions: Sequence[int]

    @classmethod
    def of(cls, columns: Mapping[str, Any], files: int, partitions: Sequence[int] | None = None) -> "TableOfRows":
        """Divides the rows into files of equal size, in their order."""
        rows = pa.table(columns)
        ends = np.linspace(0, rows.num_rows, files + 1).round().astype(int)
        return cls(rows, np.repeat(np.arange(files), np.diff(ends)), partitions or [0] * files)

    def bounds(self) -> FileBounds:
        files = [self.rows.filter(pa.array(self.file_of_row == number)) for number in range(len(self.partitions))]
        return FileBounds(
            [f"file-{number}" for number in range(len(files))],
            np.array(self.partitions, np.int64),
            np.array([10 * MB] * len(files)),
            np.array([file.num_rows for file in files]),
            {name: _bounds([file[name] for file in files]) for name in self.rows.column_names},
        )

    def sample(self, every: int = 1) -> RowSample:
        chosen = np.arange(0, self.rows.num_rows, every)
        facts = SampleFacts(len(chosen), 1, len(set(self.partitions)), len(set(self.partitions)))
        return RowSample(self.rows.take(pa.array(chosen)), self.file_of_row[chosen], facts)

    def recommender(self, filters: Sequence[ScanFilter | Condition], every: int = 1) -> Recommender:
        scans = tuple(one if isinstance(one, ScanFilter) else ScanFilter(one) for one in filters)
        return Recommender(TABLE, Workload(scans, len(scans)), self.bounds(), self.sample(every), 10 * MB)

    def reads(self, condition: Condition) -> int:
        """The files that a reader must open, by their true ranges: computed file by file, without ranks."""
        bounds = self.bounds()
        return sum(_may_match(condition, bounds, number) for number in range(len(bounds)))

    def written_as(self, order: np.ndarray) -> "TableOfRows":
        """The same rows in another order, in as many files."""
        rows = self.rows.take(pa.array(order))
        return TableOfRows.of({name: rows[name] for name in rows.column_names}, len(self.partitions))


def _bounds(columns: Sequence[pa.ChunkedArray]) -> ColumnBounds:
    ranges = [pc.min_max(column).as_py() for column in columns]
    return ColumnBounds(
        [one["min"] for one in ranges],
        [one["max"] for one in ranges],
        np.array([column.null_count > 0 for column in columns]),
        np.array([column.null_count < len(column) for column in columns]),
    )


def _may_match(condition: Condition, bounds: FileBounds, file: int) -> bool:
    if isinstance(condition, AllOf):
        return all(_may_match(one, bounds, file) for one in condition.parts)
    if isinstance(condition, AnyOf):
        return any(_may_match(one, bounds, file) for one in condition.parts)
    if isinstance(condition, Anything):
        return True
    column, values = bounds.columns[condition.column], condition.values or ()
    if condition.operator is Operator.IS_NULL:
        return bool(column.may_have_nulls[file])
    low, high = column.lows[file], column.highs[file]
    if low is None or condition.operator is Operator.NOT_NULL:
        return low is not None
    checks = {
        Operator.EQ: lambda value: low <= value <= high,
        Operator.IN: lambda value: low <= value <= high,
        Operator.LT: lambda value: low < value,
        Operator.LE: lambda value: low <= value,
        Operator.GT: lambda value: high > value,
        Operator.GE: lambda value: high >= value,
        Operator.STARTS_WITH: lambda value: low[: len(value)] <= value <= high[: len(value)],
    }
    return any(checks[condition.operator](value) for value in values)


def matching_rows(condition: Condition, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The rows that meet the condition."""
    return [number for number, row in enumerate(rows) if _meets(condition, row)]


def _meets(condition: Condition, row: Mapping[str, Any]) -> bool:
    if isinstance(condition, AllOf):
        return all(_meets(one, row) for one in condition.parts)
    if isinstance(condition, AnyOf):
        return any(_meets(one, row) for one in condition.parts)
    if isinstance(condition, Anything):
        return True
    value = row[condition.column]
    if condition.operator.is_unary:
        return (value is None) is (condition.operator is Operator.IS_NULL)
    if value is None:
        return False
    checks = {
        Operator.EQ: lambda given: value == given,
        Operator.IN: lambda given: value == given,
        Operator.LT: lambda given: value < given,
        Operator.LE: lambda given: value <= given,
        Operator.GT: lambda given: value > given,
        Operator.GE: lambda given: value >= given,
        Operator.STARTS_WITH: lambda given: value.startswith(given),
    }
    return any(checks[condition.operator](given) for given in condition.values or ())


def between(column: str, low: Any, high: Any) -> Condition:
    return AllOf((Comparison(column, Operator.GE, (low,)), Comparison(column, Operator.LE, (high,))))


def equal(column: str, value: Any) -> Condition:
    return Comparison(column, Operator.EQ, (value,))


def sort_by(*columns: str) -> LayoutChoice:
    return LayoutChoice(columns)
