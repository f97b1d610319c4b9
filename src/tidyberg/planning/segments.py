"""Finds the files that straddle boundaries, and the boundaries that are left out because they would make small files.

Boundaries divide the values of a column into segments. Everything here comes from the bounds in manifests. The rows of
a file count as spread evenly between its bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyiceberg.types import IcebergType

from tidyberg.model.sort_key import SortField
from tidyberg.planning.key_values import FieldRanges, Floats, Ints, KeyColumnMetrics, Mask, ranges_of

# A file that a boundary makes may be small, but not much smaller than the files that it is made of. Otherwise a table
# of small files could not be cut at all.
SHARE_OF_INPUTS = 4
_ASCENDING = SortField(0)  # whatever the direction of the key: a boundary has the same two sides


@dataclass(frozen=True)
class SegmentSpans:
    """The segments that the values of each file reach from and to. Segment 0 is below the first boundary.

    A file without values, all of whose rows are null or NaN, is in no segment.
    """

    first: Ints
    last: Ints
    has_values: Mask
    known: Mask
    low: Floats  # the position of the least value, on a line that grows with the value
    high: Floats
    cuts: Floats  # the positions of the boundaries

    @property
    def straddles(self) -> Mask:
        return np.asarray((self.first < self.last) & self.has_values, np.bool_)

    @property
    def segments(self) -> int:
        return len(self.cuts) + 1

    @property
    def crossed(self) -> Mask:
        """Says of each boundary whether some file straddles it."""
        files = self.straddles
        begun = np.bincount(self.first[files], minlength=self.segments)
        ended = np.bincount(self.last[files], minlength=self.segments)
        return np.asarray(np.cumsum(begun - ended)[:-1] > 0, np.bool_)

    @property
    def touched(self) -> Mask:
        """Says of each segment whether some file may have rows in it."""
        return np.asarray(self.read_by_segment(np.ones(len(self.first))) > 0.5, np.bool_)

    def read_by_segment(self, weights: Floats | Ints) -> Floats:
        """Adds up the weights of the files that a query for the rows of each segment reads."""
        mine = np.where(self.has_values, weights, 0.0)
        begun = np.bincount(self.first, mine, minlength=self.segments + 1)
        ended = np.bincount(self.last + 1, mine, minlength=self.segments + 1)
        return np.asarray(np.cumsum(begun - ended)[:-1], np.float64)

    def content(self, sizes: Ints) -> Floats:
        """Returns the bytes in each segment."""
        number = np.arange(len(self.cuts))
        width = np.where(self.high > self.low, self.high - self.low, 1.0)[:, None]
        below = np.clip((self.cuts - self.low[:, None]) / width, 0.0, 1.0)
        below[~self.known] = (number + 1) / self.segments
        below = np.where(number < self.first[:, None], 0.0, np.where(number < self.last[:, None], below, 1.0))
        until = (below * sizes[:, None]).sum(axis=0)
        return np.diff(until, prepend=0.0, append=float(sizes.sum()))

    def runs(self, members: Ints) -> list[Ints]:
        """Divides files into runs, between which values of other files lie. Files that overlap are in one run.

        Outputs of one run do not reach over files that stay.
        """
        low, high = np.where(self.known, self.low, -np.inf), np.where(self.known, self.high, np.inf)
        is_other = self.known & self.has_values
        is_other[members] = False
        in_order = members[np.argsort(low[members], kind="stable")]
        reach, begin = np.maximum.accumulate(high[in_order])[:-1], low[in_order[1:]]
        between = np.searchsorted(np.sort(low[is_other]), begin, side="left")
        between -= np.searchsorted(np.sort(high[is_other]), reach, side="right")
        breaks = np.flatnonzero((begin > reach) & (between > 0)) + 1
        return [np.sort(run) for run in np.split(in_order, breaks)]

    def of_files(self, files: Ints) -> "SegmentSpans":
        of_these = {
            name: getattr(self, name)[files] for name in ("first", "last", "has_values", "known", "low", "high")
        }
        return replace(self, **of_these)

    def between(self, kept: Mask) -> "SegmentSpans":
        """Returns the spans among some of the boundaries."""
        segment = np.append(0, np.cumsum(kept))
        return replace(self, first=segment[self.first], last=segment[self.last], cuts=self.cuts[kept])


def segment_spans(column: KeyColumnMetrics, boundaries: Sequence[bytes], kind: IcebergType) -> SegmentSpans:
    """Returns the spans of files. A file without bounds may reach from the first segment to the last."""
    files, count = len(column.records), len(boundaries)
    ranges = _ranked(column, boundaries, kind)
    lower, upper, known, cuts = ranges.lower[:files], ranges.upper[:files], ranges.known[:files], ranges.lower[files:]
    # A file straddles a boundary if its least value is below it and its greatest is not.
    first, last = (np.searchsorted(cuts, ranks, side="right") for ranks in (lower, upper))
    assert ranges.positions is not None, "values of a key have an order"
    return SegmentSpans(
        np.where(known, first, 0),
        np.where(known, last, count),
        ~(column.all_null | column.only_nans),
        known,
        *(ranges.positions[ranks + 1] for ranks in (lower, upper, cuts)),
    )


def _ranked(column: KeyColumnMetrics, boundaries: Sequence[bytes], kind: IcebergType) -> FieldRanges:
    """Ranks the bounds of files and the boundaries together. Boundaries are like files behind the last one."""
    more, none = pa.array(boundaries, pa.binary()), np.zeros(len(column.records) + len(boundaries), np.int64)
    lower, upper = (pa.concat_arrays([bounds, more]) for bounds in (column.lower, column.upper))
    # Nulls and NaN do not count: no range reads a file because of them.
    return ranges_of(KeyColumnMetrics(lower, upper, none, none, none + 1), _ASCENDING, kind)


def boundaries_worth_keeping(spans: SegmentSpans, sizes: Ints, least: float) -> Mask:
    """Returns the boundaries that leave no segment with fewer than `least` bytes of the files that straddle.

    The smallest segment loses the boundary to its smaller neighbour, and so on. Without that boundary fewer files may
    straddle, so each step looks again at what is left.
    """
    kept = np.ones(len(spans.cuts), np.bool_)
    while True:
        merged = spans.between(kept)
        straddling = np.flatnonzero(merged.straddles)
        merged = merged.of_files(straddling)
        content, touched = merged.content(sizes[straddling]), merged.touched
        small = np.flatnonzero(touched & (content < least))
        if not len(small):
            return kept
        smallest = int(small[np.argmin(content[small])])
        beside = [one for one in (smallest - 1, smallest + 1) if 0 <= one < len(content) and touched[one]]
        neighbour = min(beside, key=lambda one: float(content[one]))
        kept[np.flatnonzero(kept)[min(smallest, neighbour)]] = False
