"""Checks that a stream of rows is in the order of a key, batch by batch."""

from collections.abc import Sequence

import pyarrow as pa

from tidyberg.execute.kernel.order.keys import sort_levels
from tidyberg.execute.kernel.order.values import as_table, key_sources
from tidyberg.execute.kernel.order.word_sort import first_unsorted
from tidyberg.model.sort_key import SortKey


class OrderCheck:
    """Remembers the last row, so that batches are compared with each other too."""

    def __init__(self, schema: pa.Schema, key: SortKey) -> None:
        assert key.curve is None, "a curve is no order that a file can claim"
        self.first_wrong: int | None = None  # the first row that must come before the row above it
        self._sources = key_sources(schema, key)
        self._fields = key.fields
        self._rows = 0
        self._last: list[pa.Array] | None = None

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        self.add_values([source.of(as_table(rows)) for source in self._sources])

    def add_values(self, values: Sequence[pa.Array]) -> None:
        """Takes the values of the key's fields instead of whole rows."""
        count = len(values[0])
        if not count or self.first_wrong is not None:
            return
        if self._last is not None:
            border = [
                pa.concat_arrays([last, array.slice(0, 1)]) for last, array in zip(self._last, values, strict=True)
            ]
            if first_unsorted(sort_levels(border, self._fields), 2) is not None:
                self.first_wrong = self._rows
                return
        wrong = first_unsorted(sort_levels(values, self._fields), count)
        if wrong is not None:
            self.first_wrong = self._rows + wrong
        self._rows += count
        self._last = [array.slice(count - 1) for array in values]
