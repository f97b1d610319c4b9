"""Divides rows into ranges of a key, by bounds that a sample of the rows suggests."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.order.bounds import KeyBounds
from tidyberg.execute.kernel.order.curve_space import CurveSpace, curve_space
from tidyberg.execute.kernel.order.keys import Positions, sort_levels
from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.execute.kernel.order.values import as_table, from_ipc, key_sources, to_ipc
from tidyberg.execute.kernel.order.word_sort import equal_runs, positions_by
from tidyberg.model.sort_key import SortField, SortKey

Ranges = npt.NDArray[np.int32]

_GOLDEN = (5**0.5 - 1) / 2  # multiples of it, without their integers, are spread evenly in any stretch of row numbers
_INDEX = (SortField(0),)  # a place on a curve sorts like any number


@dataclass(frozen=True)
class RangeBounds:
    """The bounds of consecutive ranges of a key. It is small and can be pickled.

    A key that fills more than one range of the sample is divided: several bounds are equal to it. Its rows are spread
    over all ranges that may hold it, so ranges may touch at one key, but they do not overlap.
    """

    key: SortKey
    ranges: int
    values: bytes  # the distinct bounds, as Arrow IPC; a column for each field, or the places on the curve
    held: (
        bytes  # for each distinct bound: where its rows begin and end in the sorted sample, as pairs of 64-bit numbers
    )
    sampled: int  # rows in the sample
    space: CurveSpace | None = None  # set for a curve

    def assign(self, rows: pa.Table | pa.RecordBatch, row_numbers_start: int = 0) -> Ranges:
        """Returns the range of every row, from 0 to `ranges - 1`. Row numbers spread rows of equal keys."""
        table = as_table(rows)
        less, not_greater = self._bounds.places(self._values_of(table))
        begins, ends = self._held[:, 0], self._held[:, 1]
        # A key between two bounds belongs to the range of the rows that follow the lower bound in the sample.
        found = self._range_at(np.append(0, ends)).astype(np.int32)[less]
        equal = np.flatnonzero(not_greater > less)
        if len(equal):
            bound = less[equal]
            part = (equal + row_numbers_start) * _GOLDEN % 1
            found[equal] = self._range_at(begins[bound] + part * (ends[bound] - begins[bound]))
        return found

    def sorted_positions(self, rows: pa.Table | pa.RecordBatch) -> Positions:
        """Like `sorted_positions` of the key, with the coordinates that these bounds use."""
        return sorted_positions(rows, self.key, self.space)

    def is_sorted(self, rows: pa.Table | pa.RecordBatch) -> bool:
        return is_sorted(rows, self.key, self.space)

    def _range_at(self, places: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = (places * self.ranges // max(1, self.sampled)).astype(np.int64)
        return np.minimum(found, self.ranges - 1)

    def _values_of(self, table: pa.Table) -> list[pa.Array]:
        if self.space is not None:
            return [_numbers(self.space.indexes(table))]
        return [source.of(table) for source in key_sources(table.schema, self.key)]

    @cached_property
    def _bounds(self) -> KeyBounds:
        return KeyBounds(from_ipc(self.values), self.key.fields if self.space is None else _INDEX)

    @cached_property
    def _held(self) -> npt.NDArray[np.int64]:
        return np.frombuffer(self.held, np.int64).reshape(-1, 2)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


def range_bounds(sample: pa.Table | pa.RecordBatch, key: SortKey, ranges: int) -> RangeBounds:
    """Returns bounds that divide the sample into equal ranges. An empty sample puts all rows into the first range."""
    table = as_table(sample)
    if key.curve is not None:
        space = curve_space(table, key)
        values = [_numbers(space.indexes(table))]
    else:
        space = None
        values = [source.of(table) for source in key_sources(table.schema, key)]
    levels = sort_levels(values, key.fields if space is None else _INDEX)
    order = positions_by(levels, table.num_rows)
    starts = equal_runs(levels, order)
    ends = np.append(starts[1:], table.num_rows)[: len(starts)]
    cuts = np.arange(1, ranges, dtype=np.int64) * table.num_rows // ranges
    chosen = np.unique(np.searchsorted(starts, cuts, side="right") - 1) if len(starts) else starts
    bounds = pa.array(order[starts[chosen]])
    return RangeBounds(
        key,
        ranges,
        to_ipc([array.take(bounds) for array in values]),
        np.column_stack([starts[chosen], ends[chosen]]).astype(np.int64).tobytes(),
        table.num_rows,
        space,
    )


def _numbers(indexes: npt.NDArray[np.uint64]) -> pa.Array:
    return pa.array(indexes.view(np.int64))
