"""Merges sorted runs as streams: a few batches of each run are in memory.

Rows are not compared one by one. Of all runs, the rows up to a bound are taken and sorted together. The bound is the
least of the last rows in memory, so no row that comes later can be less.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidyberg.execute.kernel.order.bounds import KeyBounds
from tidyberg.execute.kernel.order.gathering import combined, gathered
from tidyberg.execute.kernel.order.keys import sort_levels
from tidyberg.execute.kernel.order.order_check import OrderCheck
from tidyberg.execute.kernel.order.values import as_table, key_sources
from tidyberg.execute.kernel.order.word_sort import positions_by
from tidyberg.model.sort_key import SortKey


class NotInOrder(Exception):  # noqa: N818 - it is an answer: the claim of a file is false
    """A run is not in the order of the key."""

    def __init__(self, run: int, row: int) -> None:
        super().__init__(f"row {row} of run {run} must come before the row above it")
        self.run = run
        self.row = row


def merged_runs(
    runs: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema, key: SortKey, *, rows_per_run: int
) -> Iterator[pa.Table]:
    """Yields the rows of all runs in the order of the key, with about `rows_per_run` rows of each run in memory.

    Raises NotInOrder if a run is not sorted. Rows that were yielded before are in order even then.
    """
    open_runs = [_OpenRun(number, batches, schema, key) for number, batches in enumerate(runs)]
    while True:
        for run in open_runs:
            run.fill(rows_per_run)
        open_runs = [run for run in open_runs if run.count]
        if not open_runs:
            return
        bound = _least_last_row(open_runs, key)
        parts = [part for run in open_runs if (part := run.take_up_to(bound)) is not None]
        if len(parts) == 1:
            yield parts[0][0]
            continue
        values = [pa.concat_arrays(arrays) for arrays in zip(*(values for _, values in parts), strict=True)]
        order = positions_by(sort_levels(values, key.fields), len(values[0]))
        rows = pa.concat_tables([table for table, _ in parts]).unify_dictionaries()
        yield pa.Table.from_batches([gathered([combined(column) for column in rows.columns], order, schema)])


class _OpenRun:
    """The rows of one run that are in memory, and the values of their keys."""

    def __init__(self, number: int, batches: Iterator[pa.RecordBatch], schema: pa.Schema, key: SortKey) -> None:
        self.is_read = False
        self._number = number
        self._batches = batches
        self._sources = key_sources(schema, key)
        self._check = OrderCheck(schema, key)
        self._table = pa.Table.from_batches([], schema)  # Arrow's `empty_table` cannot make a uuid inside a struct
        self._values: list[pa.Array] = []

    @property
    def count(self) -> int:
        return int(self._table.num_rows)

    @property
    def last_row(self) -> list[pa.Array]:
        return [array.slice(len(array) - 1) for array in self._values]

    def fill(self, rows: int) -> None:
        """Reads on if less than half of the rows are left."""
        while self.count <= rows // 2 and not self.is_read:
            batch = next(self._batches, None)
            if batch is None:
                self.is_read = True
            elif batch.num_rows:
                self._add(as_table(batch))

    def take_up_to(self, bound: KeyBounds | None) -> tuple[pa.Table, list[pa.Array]] | None:
        """Takes the rows that are not greater than the bound out of the run. Without a bound, takes all."""
        count = self.count
        if bound is not None:
            if self._is_beyond(bound):
                return None
            lesser_bounds, _ = bound.places(self._values)
            count = int(np.count_nonzero(lesser_bounds == 0))
        taken = self._table.slice(0, count), [array.slice(0, count) for array in self._values]
        self._table = self._table.slice(count)
        self._values = [array.slice(count) for array in self._values]
        return taken

    def _is_beyond(self, bound: KeyBounds) -> bool:
        lesser_bounds, _ = bound.places([array.slice(0, 1) for array in self._values])
        return bool(lesser_bounds[0])

    def _add(self, table: pa.Table) -> None:
        values = [source.of(table) for source in self._sources]
        self._check.add_values(values)
        if self._check.first_wrong is not None:
            raise NotInOrder(self._number, self._check.first_wrong)
        if not self.count:
            self._table, self._values = table, values
            return
        self._table = pa.concat_tables([self._table, table])
        self._values = [pa.concat_arrays(both) for both in zip(self._values, values, strict=True)]


def _least_last_row(runs: Sequence[_OpenRun], key: SortKey) -> KeyBounds | None:
    """Returns the least of the last rows of runs that have more rows to read; None if all rows are in memory."""
    lasts = [run.last_row for run in runs if not run.is_read]
    if not lasts:
        return None
    values = [pa.concat_arrays(arrays) for arrays in zip(*lasts, strict=True)]
    least = int(positions_by(sort_levels(values, key.fields), len(lasts))[0])
    return KeyBounds([array.slice(least, 1) for array in values], key.fields)
