"""One partition at a time: the groups that a strategy proposes for it, or why it is left alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidyberg.model.inventory import Partition, PartitionStatistics
from tidyberg.model.plan import Rest, Skip
from tidyberg.model.words import plural
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.cold import why_hot
from tidyberg.planning.modes import Choice, ModeRule
from tidyberg.planning.moving import Move, pack_in_order
from tidyberg.planning.pack import output_count, pack_files
from tidyberg.planning.parts import part_count
from tidyberg.planning.price import Pricing, Work
from tidyberg.planning.resting import counted
from tidyberg.planning.rules import hours_since, score_partition, share_of_rows
from tidyberg.planning.safety import Hazard, explain
from tidyberg.planning.strategies.base import PartitionFacts, RewriteStrategy


@dataclass(frozen=True, slots=True)
class Draft:
    """A group before it is numbered; `members` are positions in the sorted files, `deletes` in the delete index."""

    partition: int
    members: npt.NDArray[np.int64]
    deletes: npt.NDArray[np.int64]
    outputs: int
    gains: bool
    score: float
    work: Work
    mode: Choice
    moves: bool = False  # to the table's current partition spec


@dataclass(frozen=True, slots=True)
class Proposal:
    reason: str
    drafts: tuple[Draft, ...]
    rest: tuple[Rest, ...] = ()


class _Counts(NamedTuple):
    """Of one partition: its files, and how many of them each question leaves."""

    files: int
    small: int
    wanted: int  # what the strategy looks for
    wrong_size: int  # of these, not only for their deletes
    safe: int  # of the wanted, may be rewritten
    held: int  # of these, wait because the partition is hot
    fresh: int  # of the others, not just the outputs of the last compaction
    mergeable: int  # of these, to be merged; the others are to be split
    for_deletes: int  # of these, to be rid of their deletes, few or many
    moved: int  # of the fresh, to be moved to the current partition spec: all, or none


class Judge:
    """Judges the partitions of one snapshot under one set of options."""

    def __init__(
        self,
        candidates: Candidates,
        strategy: RewriteStrategy,
        pricing: Pricing,
        modes: ModeRule,
        move: Move | None,
        now_ms: int,
    ) -> None:
        self._candidates = candidates
        self._strategy = strategy
        self._sizes = strategy.sizes
        self._pricing = pricing
        self._modes = modes
        self._move = move
        self._now_ms = now_ms
        wanted = candidates.wanted
        self._wanted = wanted
        safe = wanted & (candidates.hazards == Hazard.NONE)
        self._safe = safe
        self._fresh = safe & ~candidates.settled & ~candidates.held
        masks = (
            np.ones(len(candidates.sizes), dtype=np.bool_),
            candidates.sizes < strategy.sizes.small,
            wanted,
            candidates.for_size | candidates.oversized,
            safe,
            safe & candidates.held,
            self._fresh,
            self._fresh & ~candidates.oversized,
            self._fresh & ~candidates.oversized & candidates.for_deletes,
            self._fresh & candidates.moved,
        )
        per_mask = [candidates.per_partition(mask) for mask in masks]
        for position, name in ((0, "files"), (1, "small_files")):
            per_mask[position] = per_mask[position] + counted(candidates.resting, name, len(per_mask[position]))
        self._counts = [_Counts(*numbers) for numbers in zip(*(each.tolist() for each in per_mask), strict=True)]
        # Looked up for every partition, of which there may be a hundred thousand: all at once is quicker by far.
        self._fresh_files = np.flatnonzero(self._fresh)
        self._fresh_starts = np.concatenate(([0], np.cumsum([counts.fresh for counts in self._counts]))).tolist()

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
        if not drafts and counts.held:
            return too_few or Skip("hot", f"hot: {why_hot(statistics, self._strategy, self._now_ms)}")
        if not drafts:
            return (
                self._left_by_full(statistics, counts)
                or too_few
                or Skip("no-gain", f"no gain: {plural(counts.mergeable, 'file')} cannot be merged into fewer")
            )
        rest = tuple(self._rest(statistics, counts))
        left = "".join(f"; {each.reason}" for each in rest)
        return Proposal(
            self._reason(statistics, counts) + left + self._merged_deletes(statistics, drafts), drafts, rest
        )

    def _not_movable(self, statistics: PartitionStatistics) -> Skip | None:
        move = self._move
        return move.refusal if move is not None and move.concerns(statistics.partition) else None

    def _not_wanted(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        return None if counts.moved else self._strategy.refuse(self._facts(statistics, counts))

    def _facts(self, statistics: PartitionStatistics, counts: _Counts) -> PartitionFacts:
        burden, partition = self._candidates.burden, statistics.partition
        return PartitionFacts(
            statistics=statistics,
            files=counts.files,
            wanted=counts.wanted,
            wrong_size=counts.wrong_size,
            deleted_rows=float(burden.rows[partition]),
            deleted_rows_exact=bool(burden.exact[partition]),
            has_too_many_deletes=bool(burden.too_heavy[partition]),
        )

    def _hot(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        """A hot partition gives up its cold files, where they are enough for a rewrite."""
        why = why_hot(statistics, self._strategy, self._now_ms)
        if why is None or (counts.fresh and self._enough(counts)):
            return None
        return Skip("hot", f"hot: {why}")

    def _not_safe(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        if counts.safe:
            return None
        hazards = self._hazards(statistics.partition)
        return Skip(_commonest(hazards), explain(hazards))

    def _too_few(self, counts: _Counts) -> Skip | None:
        if counts.fresh == 0:
            return Skip("tidy", "already tidy: compacted, and nothing written since")
        if self._enough(counts):
            return None
        if counts.mergeable == 1:
            return Skip("tidy", "already tidy: one file, and none to merge it with")
        return Skip(
            "too-few-files",
            f"too few files: {counts.mergeable} to merge, at least {self._strategy.options.min_input_files} wanted",
        )

    def _left_by_full(self, statistics: PartitionStatistics, counts: _Counts) -> Skip | None:
        """Of files that `full` packed already: they turned out smaller than planned, and now fewer would do."""
        if not self._strategy.is_exhaustive or counts.fresh == counts.safe:
            return None
        start, end = self._candidates.starts[statistics.partition : statistics.partition + 2]
        files = start + np.flatnonzero(self._safe[start:end] & ~self._candidates.oversized[start:end])
        score = self.score(statistics)
        groups = [self.draft(statistics.partition, members, score) for members in self._packed(files)]
        mergeable = sum(len(group.members) for group in groups if group.outputs < len(group.members))
        if not mergeable:
            return None
        words = "could be merged, but the last full compaction left them and nothing was written since"
        return Skip("compacted", f"{plural(mergeable, 'file')} {words}")

    def _enough(self, counts: _Counts) -> bool:
        """Whether there is a file to be moved, split or rid of its deletes, or enough of them to merge."""
        return bool(counts.moved or counts.mergeable < counts.fresh or counts.for_deletes) or self._merges(counts)

    def _merges(self, counts: _Counts) -> bool:
        return counts.mergeable >= self._strategy.min_files_to_merge

    def _drafts(self, statistics: PartitionStatistics, counts: _Counts) -> Iterator[Draft]:
        start, end = self._fresh_starts[statistics.partition : statistics.partition + 2]
        fresh = self._fresh_files[start:end]
        score = self.score(statistics)
        if counts.moved:
            for group in pack_in_order(self._candidates.sizes[fresh].tolist(), self._sizes.group_limit):
                yield self.draft(statistics.partition, fresh[group], score)
            return
        oversized = fresh[:0]
        if counts.mergeable < counts.fresh:
            is_oversized = self._candidates.oversized[fresh]
            oversized, fresh = fresh[is_oversized], fresh[~is_oversized]
        if not self._merges(counts):
            fresh = fresh[self._candidates.for_deletes[fresh]]
        for members in (*self._packed(fresh), *oversized.reshape(-1, 1)):
            draft = self.draft(statistics.partition, members, score)
            if draft.gains:
                yield draft

    def _packed(self, files: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        groups = pack_files(self._candidates.sizes[files], self._sizes)
        return [files] if len(groups) == 1 else [np.sort(files[group]) for group in groups]

    def draft(self, partition: int, members: npt.NDArray[np.int64], score: float) -> Draft:
        candidates = self._candidates
        deletes = candidates.deletes.of_group(members)
        sizes = candidates.sizes[members].tolist()
        size = sum(sizes)
        expected = round(candidates.expected_sizes[members].sum()) if len(deletes) else size
        outputs = output_count(expected, self._sizes)
        if max(sizes) <= self._sizes.maximum:
            outputs = min(outputs, len(members))  # as many outputs are within the maximum too
        moves = self._move is not None and bool(candidates.moved[members].any())
        if moves:
            assert self._move is not None
            outputs = max(outputs, self._move.fewest_outputs(partition))
        row_groups = sum(candidates.row_groups[members].tolist())
        mode = self._modes.choose(
            deletes=len(deletes),
            moves=moves,
            size=size,
            row_groups=row_groups,
            outputs=outputs,
        )
        work = self._pricing.work_of_group(
            sizes,
            outputs,
            expected,
            candidates.deletes.sizes[deletes],
            mode=mode.mode,
            tasks=part_count(mode.mode, moves=moves, outputs=outputs, row_groups=row_groups),
        )
        # I10: the gain is fewer files, a file above the maximum less, files rid of their deletes or of an old spec.
        gains = (
            moves
            or outputs < len(members)
            or (outputs > 1 and bool(candidates.oversized[members].all()))
            or bool(candidates.for_deletes[members].any())
        )
        return Draft(partition, members, deletes, outputs, gains, score, work, mode, moves)

    def _reason(self, statistics: PartitionStatistics, counts: _Counts) -> str:
        if counts.moved:
            return f"{counts.moved:,} of {plural(counts.files, 'file')} moved to the current partition spec"
        return self._strategy.reason(self._facts(statistics, counts))

    def _rest(self, statistics: PartitionStatistics, counts: _Counts) -> Iterator[Rest]:
        if counts.safe < counts.wanted:
            hazards = self._hazards(statistics.partition)
            yield Rest(_commonest(hazards), counts.wanted - counts.safe, f"leaves out {explain(hazards)}")
        if counts.held:
            why = why_hot(statistics, self._strategy, self._now_ms)
            verb = "waits" if counts.held == 1 else "wait"
            yield Rest("hot", counts.held, f"{plural(counts.held, 'file')} {verb}: {why}")

    def _merged_deletes(self, statistics: PartitionStatistics, drafts: Sequence[Draft]) -> str:
        if not any(len(draft.deletes) for draft in drafts):
            return ""
        merged = len(deletes_of(drafts))
        burden = self._candidates.burden
        exact = bool(burden.exact[statistics.partition])
        share = float(burden.rows[statistics.partition])
        if exact:
            rows = sum(int(self._candidates.rows_deleted[draft.members].sum()) for draft in drafts)
            share = rows / max(1, statistics.records)
        return f"; merges {plural(merged, 'delete file')}, {share_of_rows(share, exact=exact)}"

    def _hazards(self, partition: int) -> npt.NDArray[np.int8]:
        """Of the files that the strategy looks for."""
        start, end = self._candidates.starts[partition : partition + 2]
        hazards: npt.NDArray[np.int8] = self._candidates.hazards[start:end][self._wanted[start:end]]
        return hazards


def deletes_of(drafts: Sequence[Draft]) -> npt.NDArray[np.int64]:
    """Positions in the sorted delete files, ascending: those that apply to some file of some group."""
    used = np.zeros(1 + max((int(draft.deletes[-1]) for draft in drafts if len(draft.deletes)), default=-1), np.bool_)
    for draft in drafts:
        used[draft.deletes] = True
    return np.flatnonzero(used)


def ranked(
    drafts: Sequence[Draft],
    statistics: Sequence[PartitionStatistics],
    partitions: Sequence[Partition],
    strategy: RewriteStrategy,
) -> list[Draft]:
    """The order of work: the most urgent partition first, for a time series the oldest; then what saves most."""

    def key(draft: Draft) -> tuple[float, float, int, str, int]:
        urgency = strategy.urgency(draft.score, statistics[draft.partition].last_write_ms or 0)
        saved = (len(draft.members) + len(draft.deletes) - draft.outputs) / max(1, draft.work.bytes_read)
        partition = partitions[draft.partition]
        return urgency, -saved, partition.spec_id, partition.path, int(draft.members[0])

    return sorted(drafts, key=key)


def _commonest(hazards: npt.NDArray[np.int8]) -> str:
    return Hazard(int(np.bincount(hazards[hazards > 0]).argmax())).code
