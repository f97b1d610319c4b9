"""Proposes to sort only the files of a partition that straddle boundaries, and to end their outputs there."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.plan import BOUNDARIES, SORT_KEY, BoundaryForecast, LayoutForecast, Rest, Skip
from tidyberg.model.sizes import format_size
from tidyberg.model.sort_key import sort_key_text
from tidyberg.model.words import count_boundaries, plural
from tidyberg.planning.boundary_text import Boundary
from tidyberg.planning.drafts import GroupDraft, SegmentContents
from tidyberg.planning.judge import Proposal
from tidyberg.planning.key_values import Floats, Ints, Mask
from tidyberg.planning.metrics_modes import cut_length, metrics_mode
from tidyberg.planning.overlap import Reads
from tidyberg.planning.pack import output_count
from tidyberg.planning.price import Work
from tidyberg.planning.safety import Hazard, explain
from tidyberg.planning.segments import SHARE_OF_INPUTS, SegmentSpans, boundaries_worth_keeping, segment_spans
from tidyberg.planning.sorting import SortPlanner, files_words


@dataclass(frozen=True)
class BoundaryPlanner(SortPlanner):
    """Proposes sorts of files that straddle boundaries. All other files stay, whatever their order and size."""

    boundaries: tuple[Boundary, ...] = ()

    def propose(self, statistics: PartitionStatistics) -> Skip | Proposal:
        start, end = self._span(statistics.partition)
        if start == end:
            return Skip("empty", "no data files")
        files = np.arange(start, end)
        if not self._usable:
            return Skip("no-gain", f"no gain: {self._too_long}")
        straddles = self._spans.of_files(files).straddles
        straddling = straddles & ~self._done[files]
        if not straddling.any():
            if straddles.any():
                return Skip("tidy", f"already tidy: cut at these boundaries of {self._columns}, where that is worth it")
            which = count_boundaries(len(self._usable))
            return Skip("tidy", f"already tidy: no file straddles any of {which} of {self._columns}")
        safe = straddling & (self.candidates.hazards[files] == Hazard.NONE)
        if not safe.any():
            hazards = self.candidates.hazards[files[straddling]]
            return Skip(Hazard(int(hazards.max())).code, f"cannot be sorted: {explain(hazards)}")
        if not self.strategy.options.force and (why := self._useless_bounds(files)) is not None:
            return Skip("no-gain", f"no gain: {why}")
        return self._propose(statistics, files, files[safe])

    def forecast(self, partition: int, drafts: Sequence[GroupDraft]) -> LayoutForecast | None:
        mine = [draft for draft in drafts if draft.sort_key is not None]
        if not mine:
            return super().forecast(partition, ())
        together = replace(
            mine[0],
            members=np.sort(np.concatenate([draft.members for draft in mine])),
            outputs=sum(draft.outputs for draft in mine),
            work=sum((draft.work for draft in mine), Work()),
        )
        return super().forecast(partition, [together])

    def queries(self, drafts: Sequence[GroupDraft], dollars: float) -> BoundaryForecast:
        """Predicts what queries between boundaries read of the partitions with drafts."""
        of_partition: defaultdict[int, list[GroupDraft]] = defaultdict(list)
        for draft in drafts:
            of_partition[draft.partition].append(draft)
        before = after = Reads(0.0, 0.0)
        for partition, mine in of_partition.items():
            reads = self._reads(partition, mine)
            before, after = before + reads[0], after + reads[1]
        saved = self.builder.pricing.saved_by_lookup(before.files - after.files, before.bytes - after.bytes)
        return BoundaryForecast(
            asked=tuple(boundary.text for boundary in self.boundaries),
            files_before=round(before.files, 2),
            files_after=round(after.files, 2),
            bytes_before=round(before.bytes),
            bytes_after=round(after.bytes),
            payback_queries=ceil(dollars / saved) if saved > 0 and dollars > 0 else None,
        )

    def _propose(self, statistics: PartitionStatistics, files: Ints, straddling: Ints) -> Skip | Proposal:
        spans, sizes = self._spans.of_files(straddling), self.candidates.sizes[straddling]
        least = min(float(self.strategy.sizes.small), float(sizes.mean()) / SHARE_OF_INPUTS)
        crossed = spans.crossed
        cut = np.zeros(len(crossed), np.bool_)
        drafts = []
        for run in self._spans.of_files(files).runs(straddling - files[0]):
            members, kept = self._worth_cutting(files[run], least)
            if len(members):
                drafts.append(self._draft(statistics, members, kept))
                cut |= kept & self._spans.of_files(members).crossed
        which = f"{count_boundaries(int(crossed.sum()))} of {self._columns}"
        found = f"{len(straddling):,} of {plural(len(files), 'file')} may straddle {which}"
        if not drafts:
            return Skip("no-gain", f"no gain: {found}, but files that end there would be below {format_size(least)}")
        before, after = self._reads(statistics.partition, drafts)
        if after.bytes >= before.bytes and not self.strategy.options.force:
            return Skip("no-gain", f"no gain: {found}, but {self._query} would read as much as now")
        parts = [found]
        if left_out := int((crossed & ~cut).sum()):
            words = f"files that end there would be below {format_size(least)}"
            parts.append(f"{count_boundaries(left_out)} left out, because {words}")
        parts += [self._too_long] if self._too_long is not None else []
        if left := len(files) - sum(len(draft.members) for draft in drafts):
            parts.append(f"{plural(left, 'file')} {'stays' if left == 1 else 'stay'}")
        parts.append(f"{self._query} reads {reads_words(after)} instead of {reads_words(before)}")
        rest = tuple(self._unsafe(files))
        return Proposal("; ".join((*parts, *(each.reason for each in rest))), tuple(drafts), rest)

    def _worth_cutting(self, files: Ints, least: float) -> tuple[Ints, Mask]:
        """Returns the files of a run that are cut, and at which boundaries."""
        spans = self._spans.of_files(files)
        kept = np.ones(len(self._usable), np.bool_)
        if not self.strategy.options.force:
            kept = boundaries_worth_keeping(spans, self.candidates.sizes[files], least)
        return files[spans.between(kept).straddles], kept

    def _unsafe(self, files: Ints) -> Iterator[Rest]:
        hazards = self.candidates.hazards[files[self._spans.of_files(files).straddles & ~self._done[files]]]
        if (hazards != Hazard.NONE).any():
            count = int((hazards != Hazard.NONE).sum())
            yield Rest(Hazard(int(hazards.max())).code, count, f"leaves out {explain(hazards)}")

    def _draft(self, statistics: PartitionStatistics, members: Ints, kept: Mask) -> GroupDraft:
        spans = self._spans.of_files(members)
        # Boundaries that lie outside of all values divide nothing.
        number = np.arange(len(kept))
        inside = kept & (number >= spans.first.min()) & (number < spans.last.max())
        merged = spans.between(inside)
        content = np.maximum(merged.content(self.candidates.sizes[members]), merged.touched)
        texts = tuple(self._usable[number].value.hex() for number in np.flatnonzero(inside))
        segments = SegmentContents(texts, tuple(content.tolist()))
        return self.builder.build_sorted(
            statistics.partition, members, self.judge.score(statistics), self.key, segments
        )

    def _reads(self, partition: int, drafts: Sequence[GroupDraft]) -> tuple[Reads, Reads]:
        """Returns what a query between two boundaries reads of a partition, now and after its drafts."""
        files = np.arange(*self._span(partition))
        members = np.concatenate([draft.members for draft in drafts])
        after = self._reads_of(files[~np.isin(files, members)])
        for draft in drafts:
            after += self._reads_of_outputs(draft)
        return self._reads_of(files), after

    def _reads_of_outputs(self, draft: GroupDraft) -> Reads:
        spans, sizes = self._spans.of_files(draft.members), self.candidates.sizes[draft.members]
        inside = np.array([boundary.value.hex() in draft.boundaries for boundary in self._usable])
        segment = np.append(0, np.cumsum(inside))
        content, together = spans.content(sizes), spans.between(inside).content(sizes)[segment]
        outputs = np.array([output_count(max(1, round(size)), self.strategy.sizes) for size in together.tolist()])
        # A range that is a part of a segment reads a part of its outputs, and one more at its ends.
        is_whole = np.bincount(segment)[segment] == 1
        part = np.minimum(1.0, content / np.maximum(1.0, together) + 1.0 / outputs)
        share = np.where(is_whole, 1.0, part) * spans.touched
        return Reads(self._mean(outputs * share), self._mean(together * share))

    def _reads_of(self, files: Ints) -> Reads:
        spans = self._spans.of_files(files)
        found = (spans.read_by_segment(weights) for weights in (np.ones(len(files)), self.candidates.sizes[files]))
        return Reads(*map(self._mean, found))

    def _mean(self, of_segments: Floats) -> float:
        """Averages over the segments between boundaries. With one boundary, over both of its sides."""
        return float((of_segments[1:-1] if len(of_segments) > 2 else of_segments).mean())

    @property
    def _query(self) -> str:
        return "a query between two boundaries" if len(self._usable) > 1 else "a query for one side of the boundary"

    @cached_property
    def _done(self) -> Mask:
        """I10: files that a job with the same boundaries has written. It has left out what was not worth a cut."""
        asked = ", ".join(boundary.text for boundary in self.boundaries)
        wanted = {BOUNDARIES: asked, SORT_KEY: sort_key_text(self.key)}
        same = [
            info.snapshot_id
            for info in self.inventory.pinned.snapshots.values()
            if all(info.summary.get(name) == value for name, value in wanted.items())
        ]
        added = self.candidates.files.column("snapshot_id").to_numpy()
        found: Mask = np.isin(added, np.array(same, np.int64))
        return np.zeros_like(found) if self.strategy.options.force else found

    @cached_property
    def _spans(self) -> SegmentSpans:
        kind = self.inventory.pinned.schema.find_type(self.key.fields[0].source_id)
        return segment_spans(self.layout.bounds[0], [boundary.value for boundary in self._usable], kind)

    @cached_property
    def _usable(self) -> tuple[Boundary, ...]:
        """The boundaries that bounds in manifests can tell from other values."""
        longest = self._longest
        return tuple(
            boundary
            for boundary in self.boundaries
            if longest is None or boundary.characters is None or boundary.characters <= longest
        )

    @cached_property
    def _too_long(self) -> str | None:
        count = len(self.boundaries) - len(self._usable)
        if not count:
            return None
        return (
            f"{count_boundaries(count)} left out, because manifests keep only {self._longest} characters of "
            f"{self._columns}; set write.metadata.metrics.column.{self._columns} to full"
        )

    @cached_property
    def _longest(self) -> int | None:
        pinned, source_id = self.inventory.pinned, self.key.fields[0].source_id
        mode = metrics_mode(self._columns, source_id, pinned.schema, pinned.properties)
        return cut_length(mode)


def reads_words(reads: Reads) -> str:
    return f"{files_words(reads.files)} ({format_size(round(reads.bytes))})"
