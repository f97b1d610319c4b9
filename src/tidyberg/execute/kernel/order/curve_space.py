"""Coordinates of rows on the space-filling curves. A coordinate is the rank of a value among sampled quantiles.

Ranks make every type a coordinate, use the whole range of numbers, and do not care how far apart values are or how long
the prefix is that strings share.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.curves import MAX_CURVE_COLUMNS, coordinate_bits, hilbert_places, zorder_places
from tidyberg.execute.kernel.order.bounds import KeyBounds
from tidyberg.execute.kernel.order.byte_strings import Words
from tidyberg.execute.kernel.order.keys import Positions, sort_levels
from tidyberg.execute.kernel.order.values import as_table, from_ipc, key_sources, to_ipc
from tidyberg.execute.kernel.order.word_sort import equal_runs, positions_by
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.sort_key import Curve, SortField, SortKey

_SAMPLE = 100_000  # rows that are enough for the quantiles


@dataclass(frozen=True)
class CurveSpace:
    """The quantiles of every column, which turn values into coordinates. It is small and can be pickled."""

    key: SortKey
    quantiles: tuple[bytes, ...]  # for each column: its distinct quantiles, as Arrow IPC
    ranks: tuple[bytes, ...]  # for each column: the coordinate of each quantile, as 32-bit numbers

    def indexes(self, rows: pa.Table | pa.RecordBatch) -> Words:
        """Returns the place of each row on the curve."""
        table = as_table(rows)
        sources = key_sources(table.schema, self.key)
        coordinates = [axis.ranks(source.of(table)) for source, axis in zip(sources, self._axes, strict=True)]
        return hilbert_places(coordinates) if self.key.curve is Curve.HILBERT else zorder_places(coordinates)

    @cached_property
    def _axes(self) -> "list[_Axis]":
        parts = zip(self.key.fields, self.quantiles, self.ranks, strict=True)
        return [
            _Axis.of(field, from_ipc(quantiles), np.frombuffer(ranks, np.int32)) for field, quantiles, ranks in parts
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_axes"}


@dataclass(frozen=True)
class _Axis:
    bounds: KeyBounds
    coordinates: npt.NDArray[np.int32]  # by twice the number of lesser quantiles, plus one if the value is a quantile

    @classmethod
    def of(cls, field: SortField, quantiles: list[pa.Array], ranks: npt.NDArray[np.int32]) -> "_Axis":
        # A value between two quantiles belongs to the lower one.
        coordinates = np.concatenate([ranks[:1], np.repeat(ranks, 2)]) if len(ranks) else np.zeros(1, np.int32)
        return cls(KeyBounds(quantiles, (field,)), coordinates)

    def ranks(self, values: pa.Array) -> npt.NDArray[np.int32]:
        less, not_greater = self.bounds.places([values])
        ranks: npt.NDArray[np.int32] = self.coordinates[less + not_greater]
        return ranks


def sampled_space(rows: pa.Table, key: SortKey) -> CurveSpace:
    """Takes the quantiles from the rows themselves, or from some of them if they are many."""
    step = max(1, rows.num_rows // _SAMPLE)
    return curve_space(rows if step == 1 else rows.take(pa.array(np.arange(0, rows.num_rows, step))), key)


def curve_space(sample: pa.Table | pa.RecordBatch, key: SortKey) -> CurveSpace:
    """Takes the quantiles of every column from a sample of rows."""
    if key.curve is None or not 2 <= len(key.fields) <= MAX_CURVE_COLUMNS:
        raise KernelFailure(
            FailureKind.SCHEMA,
            f"A curve needs 2 to {MAX_CURVE_COLUMNS} columns, but the key has {len(key.fields)}.",
        )
    table = as_table(sample)
    bits = coordinate_bits(len(key.fields))
    quantiles, ranks = [], []
    for source in key_sources(table.schema, key):
        values = source.of(table)
        places, coordinates = _quantiles(values, source.field, bits)
        quantiles.append(to_ipc([values.take(pa.array(places))]))
        ranks.append(coordinates.tobytes())
    return CurveSpace(key, tuple(quantiles), tuple(ranks))


def _quantiles(values: pa.Array, field: SortField, bits: int) -> tuple[Positions, npt.NDArray[np.int32]]:
    """Returns the positions of distinct values that are quantiles, and the coordinate of each.

    The coordinate of a value is its place in the sorted sample; that of a frequent value is the middle of its rows. A
    column with two values therefore has coordinates that are far apart, and divides the curve like any other column.
    """
    levels = sort_levels([values], (field,))
    order = positions_by(levels, len(values))
    starts = equal_runs(levels, order)
    ends = np.append(starts[1:], len(values))[: len(starts)]
    if len(starts) == 1:  # along an edge of the space, the curve follows the other columns
        return order[starts], np.zeros(1, np.int32)
    cells = ((starts + ends) << bits) // max(1, 2 * len(values))
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = cells[1:] != cells[:-1]
    return order[starts[is_first]], cells[is_first].astype(np.int32)
