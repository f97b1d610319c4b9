"""Divides rows at boundaries: values of the first field of a key, at which outputs end.

The rows between two neighbouring boundaries are a segment. Segments follow each other in the order of the key.
"""

import decimal
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.execute.kernel.order.bounds import KeyBounds
from tidyberg.execute.kernel.order.keys import Positions
from tidyberg.execute.kernel.order.ranges import RangeBounds, Ranges, range_bounds
from tidyberg.execute.kernel.order.values import as_table, key_schema, key_sources
from tidyberg.model.sort_key import SortField, SortKey

_DECIMALS = decimal.Context(prec=76)


@dataclass(frozen=True)
class Segments:
    """The segments between boundaries, which are single values as the specification serializes them, ascending.

    A boundary divides rows with lesser values from the others. Nulls and NaN are where the key puts them.
    """

    key: SortKey
    boundaries: tuple[bytes, ...]

    @property
    def count(self) -> int:
        return len(self.boundaries) + 1

    def of(self, rows: pa.Table | pa.RecordBatch) -> Positions:
        """Returns the segment of each row."""
        table, first = as_table(rows), self.key.fields[0]
        (source,) = key_sources(table.schema, SortKey((first,)))
        values = source.of(table)
        less, not_greater = _places(self.boundaries, first, values.type).places([values])
        # The row that equals a boundary is above it: behind it if values ascend, before it if they descend.
        return less if first.descending else not_greater


@dataclass(frozen=True)
class SegmentedRanges:
    """Ranges of a key, each of which lies within one segment. It is small and can be pickled, like `RangeBounds`."""

    segments: Segments
    within: tuple[RangeBounds, ...]  # of each segment

    @property
    def key(self) -> SortKey:
        return self.segments.key

    def assign(self, rows: pa.Table | pa.RecordBatch, row_numbers_start: int = 0) -> Ranges:
        """Returns the range of every row. The ranges of a segment follow those of the segment before it."""
        table = as_table(rows)
        keys = table.select(key_schema(table.schema, self.key).names)
        found, first = np.zeros(table.num_rows, np.int32), 0
        for members, bounds in zip(_members(self.segments.of(table), self.segments.count), self.within, strict=True):
            if len(members):
                found[members] = first + bounds.assign(keys.take(pa.array(members)), row_numbers_start)
            first += bounds.ranges
        return found

    def sorted_positions(self, rows: pa.Table | pa.RecordBatch) -> Positions:
        return self.within[0].sorted_positions(rows)


def segmented_ranges(sample: pa.Table, segments: Segments, ranges: Sequence[int]) -> SegmentedRanges:
    """Returns ranges that divide the sample of each segment equally, into as many as `ranges` says."""
    parts = _members(segments.of(sample), segments.count)
    return SegmentedRanges(
        segments,
        tuple(
            range_bounds(sample.take(pa.array(members)), segments.key, count)
            for members, count in zip(parts, ranges, strict=True)
        ),
    )


def _members(segment: Positions, count: int) -> list[npt.NDArray[np.int64]]:
    order = np.argsort(segment, kind="stable")
    return np.split(order, np.searchsorted(segment[order], np.arange(1, count)))


@lru_cache(maxsize=16)
def _places(boundaries: tuple[bytes, ...], field: SortField, kind: pa.DataType) -> KeyBounds:
    in_order = boundaries[::-1] if field.descending else boundaries
    return KeyBounds([pa.array([_decoded(raw, kind) for raw in in_order], kind)], (field,))


def _decoded(raw: bytes, kind: pa.DataType) -> Any:
    """Returns a single value in a plain type, which has no times and dates."""
    types = pa.types
    if types.is_boolean(kind):
        return raw != b"\x00"
    if types.is_signed_integer(kind):
        return int.from_bytes(raw, "little", signed=True)
    if types.is_floating(kind):
        return struct.unpack("<f" if kind.bit_width == 32 else "<d", raw)[0]
    if types.is_decimal(kind):
        return decimal.Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale, _DECIMALS)
    return raw.decode() if types.is_string(kind) or types.is_large_string(kind) else raw
