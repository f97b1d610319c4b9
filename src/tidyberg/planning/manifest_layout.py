"""Decides which manifest lists which entries: clustered by partition, and of about the same size.

Entries are ordered by group (entries that can share a manifest), by partition and by sequence number. A manifest that
already has about the right size, and lists a contiguous range of that order, stays as it is. The ranges between are
divided evenly, at the border of a partition if one is near.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_NEAR = 0.25  # of a manifest: how far a cut moves to the border of a partition
_MOST_SCANS = 500  # partitions that stand for all


@dataclass(frozen=True)
class EntryColumns:
    """The live entries of all manifests that may be rewritten, in the order of the manifests."""

    manifest: Ints
    group: Ints
    partition: Ints  # numbered in the order of clustering
    sequence_number: Ints
    file_sequence_number: Ints
    size: Ints  # as encoded in a rewritten manifest, before compression

    def __len__(self) -> int:
        return len(self.manifest)


@dataclass(frozen=True, slots=True)
class SourceManifest:
    length: int
    deleted: int  # entries that a rewrite drops
    may_stay: bool  # its format is that of the table


@dataclass(frozen=True)
class EntryGroup:
    """Entries that can share a manifest."""

    layout: int  # groups of the same layout have the same partition fields
    holds_deletes: bool
    compression: float  # compressed bytes per byte


@dataclass(frozen=True)
class Layout:
    """The partitions of one partition spec, as numbers in the order of each field's values."""

    first: int  # its partitions have the numbers from here on
    codes: Ints  # a row for each partition, a column for each field


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    group: int
    start: int  # in the order of entries
    stop: int
    keeps: int | None = None  # the manifest that already lists exactly these entries

    @property
    def entries(self) -> int:
        return self.stop - self.start


def order_of(entries: EntryColumns) -> Ints:
    """Stable: entries that are equal in all keys stay in the order of the manifest list."""
    keys = (entries.file_sequence_number, entries.sequence_number, entries.partition, entries.group)
    return np.lexsort(keys)


def divide(
    entries: EntryColumns,
    order: Ints,
    manifests: Sequence[SourceManifest],
    groups: Sequence[EntryGroup],
    target: int,
    *,
    keep: bool = True,
) -> tuple[PlannedManifest, ...]:
    """Returns the manifests in the order of their entries. With `keep` False none of the present ones stays."""
    present = _Present.of(entries, order, manifests) if keep else _Present({}, {})
    group, partition = entries.group[order], entries.partition[order]
    filled = np.concatenate(([0], np.cumsum(entries.size[order], dtype=np.float64)))
    planned: list[PlannedManifest] = []
    for number, facts in enumerate(groups):
        start, stop = (int(at) for at in np.searchsorted(group, (number, number + 1)))
        cutter = _Cutter(filled * facts.compression, partition, target)
        for begin, end in cutter.pieces(start, stop, present):
            planned.append(PlannedManifest(number, begin, end, present.ranges.get((begin, end))))
    return tuple(planned)


@dataclass(frozen=True)
class _Present:
    """Manifests that list a contiguous range, and nothing that would be dropped."""

    ranges: dict[tuple[int, int], int]
    lengths: dict[tuple[int, int], int]

    @classmethod
    def of(cls, entries: EntryColumns, order: Ints, manifests: Sequence[SourceManifest]) -> "_Present":
        at = np.empty(len(order), np.int64)
        at[order] = np.arange(len(order))
        numbers, starts, counts = np.unique(entries.manifest, return_index=True, return_counts=True)
        if not len(numbers):
            return cls({}, {})
        first, last = np.minimum.reduceat(at, starts), np.maximum.reduceat(at, starts)
        ranges, lengths = {}, {}
        found = zip(*(one.tolist() for one in (numbers, first, last, counts)), strict=True)
        for number, begin, end, count in found:
            manifest = manifests[number]
            if end - begin + 1 == count and not manifest.deleted and manifest.may_stay:
                ranges[begin, end + 1] = number
                lengths[begin, end + 1] = manifest.length
        return cls(ranges, lengths)


@dataclass(frozen=True)
class _Cutter:
    filled: npt.NDArray[np.float64]  # compressed bytes before each entry
    partition: Ints
    target: int

    def pieces(self, start: int, stop: int, present: _Present) -> Iterator[tuple[int, int]]:
        settled = sorted(
            span
            for span, length in present.lengths.items()
            if start <= span[0] < stop and self.target / 2 <= length <= 2 * self.target
        )
        begin = start
        for span in settled:
            if begin < span[0] and self._bytes(begin, span[0]) < self.target / 2:
                continue  # too little for a manifest of its own, so this one is divided together with it
            yield from self._even(begin, span[0])
            yield span
            begin = span[1]
        yield from self._even(begin, stop)

    def _bytes(self, start: int, stop: int) -> float:
        return float(self.filled[stop] - self.filled[start])

    def _even(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        if start == stop:
            return
        total = self._bytes(start, stop)
        parts = max(1, int(-(-total // self.target)))
        borders = 1 + start + np.flatnonzero(np.diff(self.partition[start:stop]))
        begin = start
        for number in range(1, parts):
            cut = self._cut(start, total * number / parts, total / parts, borders)
            if begin < cut < stop:
                yield begin, cut
                begin = cut
        yield begin, stop

    def _cut(self, start: int, wanted: float, part: float, borders: Ints) -> int:
        ideal = self.filled[start] + wanted
        if len(borders):
            after = int(np.searchsorted(self.filled[borders], ideal))
            near = borders[max(0, after - 1) : after + 1]
            best = int(near[np.argmin(np.abs(self.filled[near] - ideal))])
            if abs(self.filled[best] - ideal) <= _NEAR * part:
                return best
        return int(np.searchsorted(self.filled, ideal))


@dataclass(frozen=True)
class ListedRanges:
    """Says which entries manifests list. `starts` has the position in `partition` at which each manifest begins."""

    partition: Ints  # of each entry, manifest after manifest
    starts: Ints
    group: Ints  # of each manifest


def manifests_per_scan(ranges: ListedRanges, groups: Sequence[EntryGroup], layouts: Sequence[Layout]) -> float:
    """Returns how many manifests a scan of one partition reads on average.

    A reader skips a manifest if the partition is outside of the lowest and highest value of a field.
    """
    read = scans = 0.0
    layout_of = np.array([group.layout for group in groups], np.int64)
    for number, layout in enumerate(layouts):
        members = np.flatnonzero(layout_of[ranges.group] == number) if len(ranges.group) else np.array([], np.int64)
        partitions = len(layout.codes)
        if not len(members) or not partitions:
            continue
        picked = np.unique(np.linspace(0, partitions - 1, min(partitions, _MOST_SCANS)).astype(np.int64))
        matches = np.ones((len(picked), len(members)), np.bool_)
        for field in range(layout.codes.shape[1]):
            codes = np.zeros(len(ranges.partition), np.int64)
            inside = (ranges.partition >= layout.first) & (ranges.partition < layout.first + partitions)
            codes[inside] = layout.codes[ranges.partition[inside] - layout.first, field]
            lowest = np.minimum.reduceat(codes, ranges.starts)[members]
            highest = np.maximum.reduceat(codes, ranges.starts)[members]
            wanted = layout.codes[picked, field][:, None]
            matches &= (wanted >= lowest) & (wanted <= highest)
        read += partitions * float(matches.sum(axis=1).mean())
        scans += partitions
    return read / scans if scans else 0.0


def ranges_before(entries: EntryColumns) -> ListedRanges:
    _, starts = np.unique(entries.manifest, return_index=True)
    return ListedRanges(entries.partition, starts, entries.group[starts])


def ranges_after(entries: EntryColumns, order: Ints, planned: Sequence[PlannedManifest]) -> ListedRanges:
    starts = np.array([one.start for one in planned], np.int64)
    return ListedRanges(entries.partition[order], starts, np.array([one.group for one in planned], np.int64))
