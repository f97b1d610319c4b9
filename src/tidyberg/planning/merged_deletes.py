"""Plans minor compactions: which deletes are merged into one per data file, and which leave the table.

In v3, position deletes and equality deletes become one deletion vector per data file. In v2, position deletes become
one delete file per data file, and equality deletes stay: as positions they would be files too, and the readers that
hold keys in memory once would open one more file for each data file.

A delete that may apply to several files leaves only if all of these files are merged [I4]. If it had to stay, its rows
would be merged again by every run [I10]. So a file is merged only for the sake of deletes that can leave.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.plan import Rest, Skip
from tidyberg.model.words import plural
from tidyberg.planning.drafts import DraftBuilder, GroupDraft
from tidyberg.planning.judge import Proposal
from tidyberg.planning.modes import ModeChoice
from tidyberg.planning.moving import pack_in_order
from tidyberg.planning.needed_deletes import NeededDeletes
from tidyberg.planning.price import Merging, Work
from tidyberg.planning.safety import Hazard, explain

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Merge:
    """The effect of a minor compaction of the chosen partitions."""

    files: Mask  # data files whose deletes are merged
    merged: Mask  # deletes that leave because all their data files get new ones
    dangling: Mask  # deletes that apply to no live file


class DeleteMerging:
    """Proposes minor compactions for the partitions of one snapshot."""

    def __init__(
        self,
        inventory: Inventory,
        builder: DraftBuilder,
        score: Callable[[PartitionStatistics], float],
    ) -> None:
        self._inventory = inventory
        self._builder = builder
        self._score = score
        self._candidates = candidates = builder.candidates
        self._deletes = candidates.deletes
        self._vectors = inventory.pinned.format_version > 2
        kind = self._deletes.rows.column("kind").cast(pa.string())
        self._is_position: Mask = pc.equal(kind, "position").to_numpy()
        self._is_equality: Mask = pc.equal(kind, "equality").to_numpy()
        self._partition: Ints = candidates.files.column("partition").to_numpy()

    def plan(self, chosen: Sequence[bool]) -> Merge:
        """Decides what is merged if only files of the chosen partitions may be."""
        candidates, rows, partitions = self._candidates, self._deletes.rows, len(self._inventory.partitions)
        may_merge = (candidates.hazards == Hazard.NONE) & np.array(chosen, np.bool_)[self._partition]
        # A plan for some partitions of a huge table only counts the files of all others. They may need a delete too.
        counted = candidates.unchanged
        reached = NeededDeletes(candidates.files, partitions, counted).among(rows)
        others = candidates.files.filter(pa.array(~may_merge))
        leaves = reached & ~NeededDeletes(others, partitions, counted).among(rows)
        merged = leaves & (self._is_position | self._is_equality if self._vectors else self._is_position)
        files = self._deletes.touched(merged) & may_merge
        if not self._vectors:
            files, merged = self._worth_a_file(files, merged)
        return Merge(files, merged, dangling=~reached & np.array(chosen, np.bool_)[self._deletes_partition()])

    def propose(self, merge: Merge, statistics: PartitionStatistics) -> Proposal | Skip:
        """Proposes the groups of one partition, or says why there are none."""
        partition = statistics.partition
        start, end = self._candidates.starts[partition : partition + 2]
        files = start + np.flatnonzero(merge.files[start:end])
        here = self._deletes_partition() == partition
        dangling = np.flatnonzero(merge.dangling & here)
        if not len(files) and not len(dangling):
            return self._nothing(statistics, int(start), int(end))
        drafts = [self._draft(partition, files[members], statistics) for members in self._packed(files)]
        if len(dangling):
            # In a group without files: nothing opens these deletes, whose file or columns may be gone.
            none = np.array([], dtype=np.int64)
            drafts.insert(0, self._drafted(partition, none, dangling, self._score(statistics)))
        return Proposal(self._reason(drafts, len(files), len(dangling)), tuple(drafts), tuple(self._rest(start, end)))

    def frees(self, merge: Merge, partition: int) -> bool:
        """Returns True if the files of a partition keep only new deletes and those that were merged before."""
        loose = self._is_position | self._is_equality
        if not self._vectors:
            loose = loose & ~self._settled()
        start, end = self._candidates.starts[partition : partition + 2]
        left: Mask = self._deletes.touched(loose & ~merge.merged)[start:end]
        return not left.any()

    def _settled(self) -> Mask:
        """v2: the delete files that are the only ones by position of their data file."""
        named, naming = self._deletes.named_pairs()
        alone = np.bincount(named, minlength=len(self._partition)) == 1
        settled = np.zeros(len(self._is_position), np.bool_)
        settled[naming[alone[named]]] = True
        return settled

    def full_rewrite(self, drafts: Sequence[GroupDraft]) -> Work:
        """Returns the work of a rewrite that would apply the deletes of these drafts instead."""
        work = Work()
        for draft in drafts:
            if draft.mode.mode == "deletes" and len(draft.members):
                for members in self._builder.pack(draft.members):
                    work += self._builder.build(draft.partition, members, draft.score).work
        return work

    def _deletes_partition(self) -> Ints:
        partition: Ints = self._deletes.rows.column("partition").to_numpy()
        return partition

    def _worth_a_file(self, files: Mask, merged: Mask) -> tuple[Mask, Mask]:
        """v2: leaves out deletes where each data file already has only one, because a merge would save nothing."""
        rows = self._deletes.rows
        count = np.zeros(len(files), np.int64)
        named, naming = self._deletes.named_pairs()
        np.add.at(count, named[merged[naming]], 1)
        shared = np.flatnonzero(merged & ~self._deletes.names_file)
        reach = [np.flatnonzero(self._deletes.touched(_only(len(merged), at)) & files) for at in shared.tolist()]
        for touched in reach:
            count[touched] += 1
        # A shared delete is worth merging if one of its files has another delete. Then all its files are merged.
        worth, known = count > 1, -1
        while known != (known := int(worth.sum())):
            for touched in reach:
                worth[touched] |= worth[touched].any()
        keeps = np.ones(rows.num_rows, np.bool_)
        for number, touched in zip(shared.tolist(), reach, strict=True):
            keeps[number] = bool(worth[touched].all()) if len(touched) else False
        keeps[naming[~worth[named]]] = False
        chosen = merged & keeps
        return self._deletes.touched(chosen) & files & worth, chosen

    def _packed(self, files: Ints) -> list[list[int]]:
        return pack_in_order(self._candidates.sizes[files].tolist(), self._builder.sizes.group_limit)

    def _draft(self, partition: int, members: Ints, statistics: PartitionStatistics) -> GroupDraft:
        deletes = self._deletes.of_group(members)
        if not self._vectors:
            deletes = deletes[self._is_position[deletes]]
        return self._drafted(partition, members, deletes, self._score(statistics))

    def _drafted(self, partition: int, members: Ints, deletes: Ints, score: float) -> GroupDraft:
        candidates = self._candidates
        work = self._builder.pricing.work_of_merge(
            Merging(
                file_sizes=candidates.sizes[members].tolist(),
                delete_sizes=self._stored_sizes(deletes),
                key_share=self._key_share(deletes),
                rows=int(self._deletes.rows.column("records").to_numpy()[deletes].sum()),
                vectors=self._vectors,
            )
        )
        outputs = (min(1, len(members)) if self._vectors else len(members)) or 0
        how = "into deletion vectors" if self._vectors else "into one delete file per data file"
        mode = ModeChoice("deletes", how if len(members) else "no live file needs them")
        return GroupDraft(partition, members, deletes, outputs, True, score, work, mode)

    def _stored_sizes(self, deletes: Ints) -> list[int]:
        """A vector counts with its own bytes, because its file may hold others."""
        rows = self._deletes.rows.take(pa.array(deletes))
        own = pc.coalesce(rows.column("content_size"), rows.column("size"))
        return [int(size) for size in own.to_pylist()]

    def _key_share(self, deletes: Ints) -> float:
        """Estimates the share of a data file that is read: the columns of the keys, if keys are matched."""
        keyed = deletes[self._is_equality[deletes]]
        ids = self._deletes.rows.column("equality_ids").take(pa.array(keyed)).to_pylist()
        columns = {number for each in ids for number in each or ()}
        return min(1.0, len(columns) / max(1, len(self._inventory.pinned.schema.fields)))

    def _reason(self, drafts: Sequence[GroupDraft], files: int, dangling: int) -> str:
        words = []
        if files:
            used = len(np.unique(np.concatenate([draft.deletes for draft in drafts]))) - dangling
            how = "deletion vectors" if self._vectors else "one delete file each"
            words.append(f"merges {plural(used, 'delete')} of {plural(files, 'data file')} into {how}")
        if dangling:
            words.append(f"removes {plural(dangling, 'delete')} that no data file needs")
        return "; ".join(words)

    def _rest(self, start: int, end: int) -> list[Rest]:
        """Files whose deletes cannot be read or merged."""
        hazards = self._candidates.hazards[start:end][self._deletes.touched()[start:end]]
        refused = hazards[hazards > 0]
        if not len(refused):
            return []
        code = Hazard(int(np.bincount(refused).argmax())).code
        return [Rest(code, len(refused), f"leaves out {explain(refused)}")]

    def _nothing(self, statistics: PartitionStatistics, start: int, end: int) -> Skip:
        if rest := self._rest(start, end):
            return Skip(rest[0].code, explain(self._candidates.hazards[start:end][self._deletes.touched()[start:end]]))
        if not statistics.files and not statistics.delete_files:
            return Skip("empty", "no data files")
        if not statistics.delete_files:
            return Skip("tidy", "already tidy: no deletes")
        found = plural(statistics.delete_files, "delete")
        if not self._vectors and self._deletes.touched(self._is_equality)[start:end].any():
            return Skip("tidy", f"{found} to keep: those by value leave format v2 only when their files are rewritten")
        return Skip("tidy", f"already tidy: {found}, and none can be merged or removed")


def _only(length: int, position: int) -> Mask:
    mask = np.zeros(length, np.bool_)
    mask[position] = True
    return mask
