"""Says in a plan what becomes of every partition, what limits left out, and what the rewrite does not keep."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.plan import FileGroup, LayoutForecast, PartitionVerdict, Rest, Rewrite, Skip, Verdict
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.drafts import GroupDraft
from tidyberg.planning.judge import Judge, Proposal
from tidyberg.planning.limits import LeftByLimit, WithinLimits

_MAX_LEFT_OUT_LINES = 100
_LIMIT_NAMES = {"budget": "max_cost", "limit": "max_files", "outputs": "max_output_files"}


def verdicts_of(outcomes: Sequence[Skip | Proposal], groups: Sequence[FileGroup], taken: WithinLimits) -> list[Verdict]:
    """Returns one verdict per partition: what was proposed, as far as the limits allow it."""
    groups_of: defaultdict[int, list[FileGroup]] = defaultdict(list)
    for draft, group in zip(taken.drafts, groups, strict=True):
        groups_of[draft.partition].append(group)
    left_of: defaultdict[int, list[LeftByLimit]] = defaultdict(list)
    for left in taken.left:
        left_of[left.partition].append(left)
    return [
        outcome
        if isinstance(outcome, Skip)
        else _verdict(outcome, groups_of.get(partition, []), left_of.get(partition, []))
        for partition, outcome in enumerate(outcomes)
    ]


def _verdict(proposal: Proposal, groups: Sequence[FileGroup], left: Sequence[LeftByLimit]) -> Verdict:
    files_left = sum(each.files for each in left)
    if not groups:
        code = left[0].code
        all_of_them = "the only file" if files_left == 1 else f"all {files_left:,} files"
        return Skip(code, f"{_LIMIT_NAMES[code]}: leaves {all_of_them} for another time")
    reason, rest = proposal.reason, proposal.rest
    if files_left:
        words = f"{_LIMIT_NAMES[left[0].code]} leaves {plural(files_left, 'file')} for another time"
        reason += f"; {words}"
        rest = (*rest, Rest(left[0].code, files_left, words))
    return Rewrite(
        reason=reason,
        groups=tuple(group.group_id for group in groups),
        files=sum(len(group.files) for group in groups),
        outputs=sum(group.outputs for group in groups),
        dollars=sum(group.estimate.dollars for group in groups),
        rest=rest,
    )


def partition_verdicts(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    judge: Judge,
    verdicts: Sequence[Verdict],
    layouts: Mapping[int, LayoutForecast],
) -> tuple[PartitionVerdict, ...]:
    """Returns every partition with its verdict, sorted by spec and path."""
    rows = [
        PartitionVerdict(
            spec_id=partition.spec_id,
            partition_path=partition.path,
            files=numbers.files,
            small_files=judge.small_files(numbers.partition),
            bytes=numbers.bytes,
            records=numbers.records,
            delete_files=numbers.delete_files,
            deleted_rows=numbers.deleted_rows,
            fragment_ratio=numbers.fragment_ratio,
            score=judge.score(numbers),
            last_write_ms=numbers.last_write_ms,
            last_compaction_ms=numbers.last_compaction_ms,
            recent_commits=numbers.recent_commits,
            verdict=verdict,
            layout=layouts.get(numbers.partition),
        )
        for partition, numbers, verdict in zip(inventory.partitions, statistics, verdicts, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.spec_id, row.partition_path, row.files, row.bytes)))


def left_out_lines(left: Sequence[LeftByLimit], inventory: Inventory) -> tuple[str, ...]:
    """Says in words what each limit left out in each partition."""
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for each in left:
        files, size = sums.get((each.partition, each.code), (0, 0))
        sums[each.partition, each.code] = (files + each.files, size + each.bytes)
    lines = [
        f"{inventory.partitions[partition].label}: {plural(files, 'file')}, {format_size(size)} left by "
        f"{_LIMIT_NAMES[code]}"
        for (partition, code), (files, size) in sums.items()
    ]
    if len(lines) > _MAX_LEFT_OUT_LINES:
        more = plural(len(lines) - _MAX_LEFT_OUT_LINES, "more partition")
        return (*lines[:_MAX_LEFT_OUT_LINES], f"and {more}")
    return tuple(lines)


def sort_order_warnings(drafts: Sequence[GroupDraft], inventory: Inventory, candidates: Candidates) -> tuple[str, ...]:
    """Warns if files of a table with a sort order are not merged in that order, so that readers can skip less."""
    order = inventory.pinned.sort_order_id
    drafts = [draft for draft in drafts if draft.mode.mode not in ("deletes", "merge", "sort")]
    if not drafts or order == 0:
        return ()
    members = np.concatenate([draft.members for draft in drafts])
    orders = candidates.files.column("sort_order_id").fill_null(0).to_numpy()[members]
    in_order = int((orders == order).sum())
    files = plural(len(members), "file")
    words = f"the table has a sort order ({order}), and rows of {files} are not sorted: files are merged as they are"
    if in_order:
        words += f"; {plural(in_order, 'file')} written in that order {'is' if in_order == 1 else 'are'} among them"
    return (words,)
