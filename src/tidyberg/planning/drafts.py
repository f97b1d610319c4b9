"""Builds the file groups that a partition proposes, with their outputs, their mode and their work, and ranks them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidyberg.model.inventory import Partition, PartitionStatistics
from tidyberg.model.sort_key import SortKey
from tidyberg.model.words import count_boundaries
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.file_sizes import FileSizes
from tidyberg.planning.modes import ModeChoice, ModeRule
from tidyberg.planning.moving import Move
from tidyberg.planning.pack import output_count, pack_files
from tidyberg.planning.price import Pricing, Work
from tidyberg.planning.strategies.base import RewriteStrategy
from tidyberg.planning.task_split import tasks_per_group

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """The segments that outputs are divided into: the boundaries between them, and the bytes of input in each."""

    boundaries: tuple[str, ...]
    bytes: tuple[float, ...]  # more by one; 0: no row is in the segment


@dataclass(frozen=True, slots=True)
class GroupDraft:
    """A file group that has no number yet."""

    partition: int
    members: Ints  # positions in the sorted files of the candidates
    deletes: Ints  # positions in the delete index
    outputs: int
    gains: bool
    score: float
    work: Work
    mode: ModeChoice
    moves: bool = False  # to the current partition spec of the table
    sort_key: SortKey | None = None  # the rows are sorted by it
    boundaries: tuple[str, ...] = ()  # as in a `FileGroup`

    @property
    def keeps_data(self) -> bool:
        """Only deletes are merged."""
        return self.mode.mode == "deletes"


@dataclass(frozen=True, slots=True)
class DraftBuilder:
    """Builds the drafts of one plan."""

    candidates: Candidates
    sizes: FileSizes
    pricing: Pricing
    modes: ModeRule
    move: Move | None

    def pack(self, files: Ints) -> list[Ints]:
        """Divides files of one partition into groups."""
        groups = pack_files(self.candidates.sizes[files], self.sizes)
        return [files] if len(groups) == 1 else [np.sort(files[group]) for group in groups]

    def build(self, partition: int, members: Ints, score: float) -> GroupDraft:
        candidates = self.candidates
        deletes = candidates.deletes.of_group(members)
        sizes = candidates.sizes[members].tolist()
        size = sum(sizes)
        expected = round(candidates.expected_sizes[members].sum()) if len(deletes) else size
        outputs = output_count(expected, self.sizes)
        if max(sizes) <= self.sizes.maximum:
            outputs = min(outputs, len(members))  # no output is above the maximum, since no input is
        moves = self.move is not None and bool(candidates.moved[members].any())
        if moves:
            assert self.move is not None
            outputs = max(outputs, self.move.fewest_outputs(partition))
        row_groups = sum(candidates.row_groups[members].tolist())
        mode = self.modes.choose(
            deletes=len(deletes),
            moves=moves,
            size=size,
            row_groups=row_groups,
            outputs=outputs,
            in_order=bool(candidates.in_order[members].all()),
        )
        work = self.pricing.work_of_group(
            sizes,
            outputs,
            expected,
            candidates.deletes.sizes[deletes],
            mode=mode.mode,
            tasks=tasks_per_group(mode.mode, moves=moves, outputs=outputs, row_groups=row_groups),
        )
        # I10: a gain is fewer files, no file above the maximum, deletes applied, or files moved to the current spec.
        gains = (
            moves
            or outputs < len(members)
            or (outputs > 1 and bool(candidates.oversized[members].all()))
            or bool(candidates.for_deletes[members].any())
        )
        return GroupDraft(partition, members, deletes, outputs, gains, score, work, mode, moves)

    def build_sorted(
        self, partition: int, members: Ints, score: float, key: SortKey, segments: SegmentContents | None = None
    ) -> GroupDraft:
        """Builds the one group of a partition whose rows are sorted together. The caller knows what it gains."""
        candidates = self.candidates
        deletes = candidates.deletes.of_group(members)
        sizes = candidates.sizes[members].tolist()
        expected = round(candidates.expected_sizes[members].sum()) if len(deletes) else sum(sizes)
        outputs = output_count(expected, self.sizes)
        reason = "rows are clustered" if key.curve is not None else "rows are sorted"
        if segments is not None:
            kept = expected / max(1, sum(sizes))
            outputs = sum(output_count(max(1, round(kept * part)), self.sizes) for part in segments.bytes if part)
            reason = f"rows are sorted and cut at {count_boundaries(len(segments.boundaries))}"
        work = self.pricing.work_of_group(
            sizes,
            outputs,
            expected,
            candidates.deletes.sizes[deletes],
            mode="sort",
            tasks=tasks_per_group("sort", moves=False, outputs=outputs, row_groups=outputs),
        )
        mode = ModeChoice("sort", reason)
        boundaries = () if segments is None else segments.boundaries
        return GroupDraft(partition, members, deletes, outputs, True, score, work, mode, False, key, boundaries)

    def smallest_files(self, draft: GroupDraft, files: int) -> GroupDraft:
        """Returns the draft cut down to its smallest files, which save the most for the bytes that are read.

        A part of a group that is sorted gains nothing: its outputs would overlap the files that are left.
        """
        if draft.sort_key is not None:
            return replace(draft, gains=False)
        order = np.argsort(self.candidates.sizes[draft.members], kind="stable")
        return self.build(draft.partition, np.sort(draft.members[order[:files]]), draft.score)


def deletes_of(drafts: Sequence[GroupDraft]) -> Ints:
    """Returns the positions of the delete files that apply to some file of the drafts, in ascending order."""
    used = np.zeros(1 + max((int(draft.deletes[-1]) for draft in drafts if len(draft.deletes)), default=-1), np.bool_)
    for draft in drafts:
        used[draft.deletes] = True
    return np.flatnonzero(used)


def ranked(
    drafts: Sequence[GroupDraft],
    statistics: Sequence[PartitionStatistics],
    partitions: Sequence[Partition],
    strategy: RewriteStrategy,
) -> list[GroupDraft]:
    """Sorts drafts by the urgency of their partitions, then by the files that they save per byte read."""

    def key(draft: GroupDraft) -> tuple[float, float, int, str, int]:
        urgency = strategy.urgency(draft.score, statistics[draft.partition].last_write_ms or 0)
        saved = (len(draft.members) + len(draft.deletes) - draft.outputs) / max(1, draft.work.bytes_read)
        partition = partitions[draft.partition]
        first = int(draft.members[0]) if len(draft.members) else -1
        return urgency, -saved, partition.spec_id, partition.path, first

    return sorted(drafts, key=key)
