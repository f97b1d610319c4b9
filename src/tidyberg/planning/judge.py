"""Judges one partition at a time: which groups to rewrite, or why to leave it alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.plan import Rest, Skip
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.drafts import DraftBuilder, GroupDraft, deletes_of
from tidyberg.planning.file_sizes import MAX_GROUP_RATIO
from tidyberg.planning.hot_partitions import why_hot
from tidyberg.planning.moving import pack_in_order
from tidyberg.planning.pack import output_count, pack_files
from tidyberg.planning.rules import hours_since, score_partition, share_of_rows
from tidyberg.planning.safety import Hazard, explain
from tidyberg.planning.strategies.base import PartitionFacts, RewriteStrategy
from tidyberg.planning.unchanged_files import sum_by_partition


@dataclass(frozen=True, slots=True)
class Proposal:
    """The files of a partition that would be rewritten, before limits apply."""

    reason: str
    drafts: tuple[GroupDraft, ...]
    rest: tuple[Rest, ...] = ()


class _Counts(NamedTuple):
    """The files of one partition, and how many of them pass each test."""

    files: int
    small: int
    wanted: int  # the strategy wants it
    wrong_size: int  # it is wanted for its size
    safe: int  # it is wanted and may be rewritten
    waiting: int  # it is safe, but its partition is hot
    eligible: int  # it is safe, does not wait, and is no output of the last compaction
    mergeable: int  # it is eligible and not oversized
    for_deletes: int  # it is mergeable and has deletes to apply
    moved: int  # it is eligible and moves to the current partition spec; this is true of all files or of none


class Judge:
    """Judges the partitions of one snapshot for one strategy."""

    def __init__(self, candidates: Candidates, strategy: RewriteStrategy, builder: DraftBuilder, now_ms: int) -> None:
        self._candidates = candidates
        self._strategy = strategy
        self._builder = builder
        self._now_ms = now_ms
        self._wanted = wanted = candidates.wanted
        self._safe = safe = wanted & (candidates.hazards == Hazard.NONE)
        eligible = safe & ~candidates.compacted & ~candidates.waiting
        mergeable = eligible & ~candidates.oversized
        masks = (
            np.ones(len(candidates.sizes), dtype=np.bool_),
            candidates.sizes < strategy.sizes.small,
            wanted,
            candidates.for_size | candidates.oversized,
            safe,
            safe & candidates.waiting,
            eligible,
            mergeable,
            mergeable & candidates.for_deletes,
            eligible & candidates.moved,
        )
        per_mask = [candidates.per_partition(mask) for mask in masks]
        for position, name in ((0, "files"), (1, "small_files")):
            counted = per_mask[position]
            per_mask[position] = counted + sum_by_partition(candidates.unchanged, name, len(counted))
        # There may be a hundred thousand partitions: counting all of them at once is much faster than one by one.
        self._counts = [_Counts(*numbers) for numbers in zip(*(each.tolist() for each in per_mask), strict=True)]
        self._eligible = np.flatnonzero(eligible)
        self._eligible_starts = np.concatenate(([0], np.cumsum([counts.eligible for counts in self._counts]))).tolist()

    def small_files(self, partition: int) -> int:
        return self._counts[partition].small

    def score(self, statistics: PartitionStatistics) -> float:
        return score_partition(
            statistics.files,
            self._counts[statistics.partition].small,
            statistics.fragment_ratio,
            hours_since(statistics.last_compaction_ms, self._now_ms),
        )

    def judge(self, statistics: PartitionStatistics) -> Skip | Proposal:
        counts = self._counts[statistics.partition]
        if counts.files == 0:
            return Skip("empty", "no data files")
        refusal = (
            self._not_movable(statistics)
            or self._not_wanted(statistics, counts)
            or self._not_safe(statistics, counts)
            or self._hot(statistics, counts)
        )
        if refusal is not None:
            return refusal
        too_few = self._too_few(counts)
        drafts = () if too_few is not None else tuple(self._drafts(statistics, counts))
        if not drafts and counts.waiting:
            return too_few or self._hot_skip(statistics)
        if not drafts:
            return (
                self._left_by_last_run(statistics, counts)
                or too_few
                or self._limited_by_group_size(statistics, counts)
                or Skip("no-gain", f"no gain: {plural(counts.mergeable, 'file')} cannot be merged into fewer")
            )
        rest = tuple(self._rest(statistics, counts))
        left = "".join(f"; {each.reason}" for each in rest)
        return Proposal(
            self._reason(statistics, counts) + left + self._merged_deletes(statistics, drafts), drafts, rest
        )

    def _not_movable(self, statistics: PartitionStatistics) -> Skip | None:
        move = self._builder.move
        return move.refusal if move is not None and move.concerns(statistics.partition) else None

    def _not_wanted(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        return None if counts.moved else self._strategy.refuse(self._facts(statistics, counts))

    def _not_safe(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        if counts.safe:
            return None
        hazards = self._hazards(statistics.partition)
        return Skip(_most_common(hazards), explain(hazards))

    def _hot(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        """A hot partition gives up its cold files if they are enough for a rewrite."""
        if counts.eligible and self._enough(counts):
            return None
        return None if why_hot(statistics, self._strategy, self._now_ms) is None else self._hot_skip(statistics)

    def _hot_skip(self, statistics: PartitionStatistics) -> Skip:
        return Skip("hot", f"hot: {why_hot(statistics, self._strategy, self._now_ms)}")

    def _too_few(self, counts: _Counts) -> Skip | None:
        if counts.eligible == 0:
            return Skip("tidy", "already tidy: compacted, and nothing written since")
        if self._enough(counts):
            return None
        if counts.mergeable == 1:
            return Skip("tidy", "already tidy: one file, and none to merge it with")
        fewest = self._strategy.min_files_to_merge
        return Skip("too-few-files", f"{counts.mergeable} files to merge, fewer than min_input_files ({fewest})")

    def _left_by_last_run(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        """An exhaustive strategy says so if its last outputs turned out small enough to be merged."""
        if not self._strategy.is_exhaustive or counts.eligible == counts.safe:
            return None
        start, end = self._candidates.starts[statistics.partition : statistics.partition + 2]
        files = start + np.flatnonzero(self._safe[start:end] & ~self._candidates.oversized[start:end])
        score = self.score(statistics)
        groups = [self._builder.build(statistics.partition, members, score) for members in self._builder.pack(files)]
        mergeable = sum(len(group.members) for group in groups if group.outputs < len(group.members))
        if not mergeable:
            return None
        words = "could be merged, but the last full compaction left them and nothing was written since"
        return Skip("compacted", f"{plural(mergeable, 'file')} {words}")

    def _limited_by_group_size(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        """Files that only a low max_group_size keeps apart are not tidy."""
        sizes, candidates = self._strategy.sizes, self._candidates
        if sizes.group_limit >= sizes.target:
            return None
        start, end = self._eligible_starts[statistics.partition : statistics.partition + 2]
        files = self._eligible[start:end]
        file_sizes = candidates.sizes[files[~candidates.oversized[files]]]
        unlimited = replace(sizes, group_limit=MAX_GROUP_RATIO * sizes.target)
        groups = [file_sizes[members] for members in pack_files(file_sizes, unlimited)]
        if all(output_count(int(group.sum()), sizes) >= len(group) for group in groups):
            return None
        limit = f"max_group_size ({format_size(sizes.group_limit)})"
        return Skip("group-size", f"{plural(counts.mergeable, 'file')} cannot be merged within {limit}")

    def _enough(self, counts: _Counts) -> bool:
        """Returns True if there is a file to move, split or apply deletes to, or if there are enough to merge."""
        has_other_work = bool(counts.moved or counts.mergeable < counts.eligible or counts.for_deletes)
        return has_other_work or self._merges(counts)

    def _merges(self, counts: _Counts) -> bool:
        return counts.mergeable >= self._strategy.min_files_to_merge

    def _drafts(self, statistics: PartitionStatistics, counts: _Counts) -> Iterator[GroupDraft]:
        candidates, builder, partition = self._candidates, self._builder, statistics.partition
        start, end = self._eligible_starts[partition : partition + 2]
        files = self._eligible[start:end]
        score = self.score(statistics)
        if counts.moved:
            for group in pack_in_order(candidates.sizes[files].tolist(), self._strategy.sizes.group_limit):
                yield builder.build(partition, files[group], score)
            return
        oversized = files[:0]
        if counts.mergeable < counts.eligible:
            is_oversized = candidates.oversized[files]
            oversized, files = files[is_oversized], files[~is_oversized]
        if not self._merges(counts):
            files = files[candidates.for_deletes[files]]
        for members in (*builder.pack(files), *oversized.reshape(-1, 1)):
            draft = builder.build(partition, members, score)
            if draft.gains:
                yield draft

    def _facts(self, statistics: PartitionStatistics, counts: _Counts) -> PartitionFacts:
        ratios, partition = self._candidates.delete_ratios, statistics.partition
        return PartitionFacts(
            statistics=statistics,
            files=counts.files,
            wanted=counts.wanted,
            wrong_size=counts.wrong_size,
            deleted_rows=float(ratios.deleted_rows[partition]),
            deleted_rows_exact=bool(ratios.exact[partition]),
            has_too_many_deletes=bool(ratios.above_limit[partition]),
            settled_deletes=int(ratios.settled[partition]),
        )

    def _reason(self, statistics: PartitionStatistics, counts: _Counts) -> str:
        if counts.moved:
            return f"{counts.moved:,} of {plural(counts.files, 'file')} moved to the current partition spec"
        return self._strategy.reason(self._facts(statistics, counts))

    def _rest(self, statistics: PartitionStatistics, counts: _Counts) -> Iterator[Rest]:
        if counts.safe < counts.wanted:
            hazards = self._hazards(statistics.partition)
            yield Rest(_most_common(hazards), counts.wanted - counts.safe, f"leaves out {explain(hazards)}")
        if counts.waiting:
            why = why_hot(statistics, self._strategy, self._now_ms)
            verb = "waits" if counts.waiting == 1 else "wait"
            yield Rest("hot", counts.waiting, f"{plural(counts.waiting, 'file')} {verb}: {why}")

    def _merged_deletes(self, statistics: PartitionStatistics, drafts: Sequence[GroupDraft]) -> str:
        if not any(len(draft.deletes) for draft in drafts):
            return ""
        ratios = self._candidates.delete_ratios
        exact = bool(ratios.exact[statistics.partition])
        share = float(ratios.deleted_rows[statistics.partition])
        if exact:
            rows = sum(int(self._candidates.rows_deleted[draft.members].sum()) for draft in drafts)
            share = rows / max(1, statistics.records)
        return f"; merges {plural(len(deletes_of(drafts)), 'delete file')}, {share_of_rows(share, exact=exact)}"

    def _hazards(self, partition: int) -> npt.NDArray[np.int8]:
        """Returns the hazards of the files that the strategy wants."""
        start, end = self._candidates.starts[partition : partition + 2]
        hazards: npt.NDArray[np.int8] = self._candidates.hazards[start:end][self._wanted[start:end]]
        return hazards


def _most_common(hazards: npt.NDArray[np.int8]) -> str:
    return Hazard(int(np.bincount(hazards[hazards > 0]).argmax())).code
