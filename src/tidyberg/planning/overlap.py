"""Measures how deep files overlap along a sort key, from the bounds in manifests alone, for all partitions at once.

Two files overlap if rows of one belong between rows of the other. Files that only touch at a value do not: a sort
cannot separate them either, because the rows of a frequent key may fill several files. A file without bounds may hold
anything, so it overlaps all files of its partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidyberg.planning.key_values import FieldRanges, Floats, Ints, Mask

_BEFORE_ALL, _AFTER_ALL = np.int64(-(2**62)), np.int64(2**62)


@dataclass(frozen=True)
class KeySpans:
    """The span of each file along the whole key: from coordinate `starts` to coordinate `ends`.

    Coordinates grow with the partition and then with the key. A file with one key starts and ends at the same one.
    """

    partition: Ints
    starts: Ints
    ends: Ints
    known: Mask

    @property
    def coordinates(self) -> int:
        return int(self.ends.max(initial=-1)) + 1

    def depths_of(self, starts: Ints, ends: Ints) -> Ints:
        """Returns how deep files with these spans overlap: at each coordinate, and in the gap behind it.

        Files with one key lie at a coordinate. All that lie at the same one count once.
        """
        wide = starts < ends
        opened = np.bincount(starts[wide], minlength=self.coordinates + 1)
        closed = np.bincount(ends[wide], minlength=self.coordinates + 1)
        gaps = np.cumsum(opened - closed)
        depths = np.empty(2 * len(gaps), np.int64)
        depths[1::2] = gaps
        depths[0::2] = gaps - opened  # these files pass through
        depths[2 * np.unique(starts[~wide])] += 1
        return depths

    def deepest(self, depths: Ints) -> Ints:
        """Returns the largest depth within the span of each file."""
        found = depths[2 * self.starts]
        wide = np.flatnonzero(self.starts < self.ends)
        if len(wide):
            edges = np.column_stack((2 * self.starts[wide] + 1, 2 * self.ends[wide])).ravel()
            found[wide] = np.maximum.reduceat(depths, edges)[0::2]
        return found

    def joined(self, groups: Ints, members: Mask) -> tuple[Ints, Ints]:
        """Returns one span for the members of each group, from the first of their coordinates to the last."""
        _, group = np.unique(groups[members], return_inverse=True)
        count = int(group.max(initial=-1)) + 1
        starts, ends = np.full(count, self.coordinates, np.int64), np.zeros(count, np.int64)
        np.minimum.at(starts, group, self.starts[members])
        np.maximum.at(ends, group, self.ends[members])
        return starts, ends

    def united(self, groups: Ints, members: Mask) -> tuple[Ints, Ints]:
        """Returns the spans that the members of each group cover. Those of one group that meet become one."""
        if not members.any():
            return self.starts[:0], self.ends[:0]
        _, group = np.unique(groups[members], return_inverse=True)
        order = np.lexsort((self.starts[members], group))
        base = group[order].astype(np.int64) * (self.coordinates + 1)  # groups lie one after the other
        starts = base + self.starts[members][order]
        ends = np.maximum.accumulate(base + self.ends[members][order])
        first = np.flatnonzero(np.append(True, starts[1:] > ends[:-1]))
        last = np.append(first[1:], len(order)) - 1
        return starts[first] - base[first], ends[last] - base[first]


def spans_of(partition: Ints, fields: Sequence[FieldRanges]) -> KeySpans:
    """Returns the span of each file along a key with these fields.

    Bounds are those of single columns. A later field counts only where the fields before it have one value in the file.
    """
    lows: list[Ints] = []
    highs: list[Ints] = []
    undecided = np.ones(len(partition), np.bool_)  # all fields so far have one value
    for field in fields:
        low, high = np.where(field.known, field.lower, _BEFORE_ALL), np.where(field.known, field.upper, _AFTER_ALL)
        # The span of a file that was decided by an earlier field lies strictly between its two values of that field.
        lows.append(np.where(undecided, low, _AFTER_ALL))
        highs.append(np.where(undecided, high, _BEFORE_ALL))
        if len(lows) > 1:
            unknown_before = ~fields[len(lows) - 2].known
            lows[-1][unknown_before] = highs[-1][unknown_before] = 0
        undecided = undecided & field.constant
    known = fields[0].known if fields else np.zeros(len(partition), np.bool_)
    columns = [np.concatenate((low, high)) for low, high in zip(lows, highs, strict=True)]
    both = np.concatenate((partition, partition)).astype(np.int64)
    order = np.lexsort((*columns[::-1], both))
    changed = np.zeros(len(order), np.bool_)
    for column in (both, *columns):
        changed[1:] |= np.diff(column[order]) != 0
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(changed)
    files = len(partition)
    return KeySpans(partition, rank[:files], rank[files:], known)


@dataclass(frozen=True, slots=True)
class Reads:
    """What one query is expected to read."""

    files: float
    bytes: float

    def __add__(self, other: "Reads") -> "Reads":
        return Reads(self.files + other.files, self.bytes + other.bytes)


def lookup_shares(field: FieldRanges, records: Ints) -> Floats:
    """Returns for each file the share of rows whose value lies within the bounds of the file.

    This is the chance that a lookup of one row's value reads the file. The rows of a file count as spread evenly
    between its bounds. A file without bounds is always read.
    """
    shares = np.ones(len(records), np.float64)
    known = np.flatnonzero(field.known)
    if not len(known) or field.positions is None:
        return shares
    low, high = (field.positions[ranks[known] + 1] for ranks in (field.lower, field.upper))
    rows = records[known].astype(np.float64)
    places, index = np.unique(np.concatenate((low, high)), return_inverse=True)
    first, last = index[: len(known)], index[len(known) :]
    # Rows at single places, and rows spread over the gaps between places.
    is_point = first == last
    at_places = np.bincount(first[is_point], rows[is_point], minlength=len(places)).astype(np.float64)
    density = np.zeros(len(places) + 1)
    widths = places[last] - places[first]
    per_width = rows[~is_point] / widths[~is_point]
    np.add.at(density, first[~is_point], per_width)
    np.subtract.at(density, last[~is_point], per_width)
    gaps = np.maximum(0.0, np.cumsum(density)[: len(places) - 1]) * np.diff(places)
    # The rows up to and including each place.
    until = np.cumsum(at_places)
    until[1:] += np.cumsum(gaps)
    total = float(rows.sum())
    if total > 0:
        before = np.where(first > 0, until[first] - at_places[first], 0.0)
        shares[known] = np.clip((until[last] - before) / total, 0.0, 1.0)
    return shares


def expected_reads(shares: Floats, sizes: Ints, range_share: float = 0.0) -> Reads:
    """Returns what a lookup reads, or a query for a range that holds `range_share` of the rows."""
    chance = np.minimum(1.0, shares + range_share)
    return Reads(float(chance.sum()), float((chance * sizes).sum()))


def depth_by_partition(partition: npt.NDArray[np.int64], deepest: Ints, partitions: int) -> Ints:
    """Returns the largest depth in each partition."""
    found = np.zeros(partitions, np.int64)
    np.maximum.at(found, partition, deepest)
    return found
