"""From an inventory to a plan: select, judge every partition, rank, limit, price. Pure and deterministic [I11]."""

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg._version import __version__
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import INLINE, Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import (
    PLAN_FORMAT,
    DeleteFile,
    Estimate,
    FileGroup,
    InputFile,
    PartitionVerdict,
    Plan,
    Rest,
    Rewrite,
    Skip,
    Verdict,
)
from tidyberg.model.sizes import format_size
from tidyberg.model.words import plural
from tidyberg.planning.bounds import FileSizes, resolve_sizes
from tidyberg.planning.candidates import Candidates, find_candidates
from tidyberg.planning.document import plan_hash
from tidyberg.planning.health import assess
from tidyberg.planning.judge import Draft, Judge, Proposal, deletes_of, ranked
from tidyberg.planning.limits import Left, Taken, take_within_limits
from tidyberg.planning.modes import mode_rule
from tidyberg.planning.moving import move_to_current_spec
from tidyberg.planning.price import Pricing, Work, pricing_for
from tidyberg.planning.publishing import waiting_to_be_published
from tidyberg.planning.safety import unsupported_table
from tidyberg.planning.select import selected_partitions
from tidyberg.planning.upkeep import upkeep_of

_PRICES, _CALIBRATION, _RESOURCES = Prices(), Calibration(), Resources()
_LEFT_OUT_LINES = 100


@contextmanager
def without_collecting() -> Iterator[None]:
    """A plan is many small objects and no cycles: to look for cycles among a million takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_collecting()
def make_plan(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    options: PlanOptions,
    *,
    now_ms: int,
    prices: Prices = _PRICES,
    calibration: Calibration = _CALIBRATION,
    resources: Resources = _RESOURCES,
    only: Collection[tuple[int, str]] | None = None,
    first_group: int = 0,
) -> Plan:
    """What to rewrite in a pinned snapshot, why, and for how much; `statistics` has one entry a partition.

    A job that plans some groups again takes `only` their partitions, by spec and path, and numbers on.
    """
    pinned = inventory.pinned
    sizes = resolve_sizes(options, pinned.properties)
    selection = selected_partitions(pinned, inventory.partitions, options, now_ms)
    selected = list(selection.chosen)
    if only is not None:
        mine = [(partition.spec_id, partition.path) in only for partition in inventory.partitions]
        selected = [chosen and own for chosen, own in zip(selected, mine, strict=True)]
    pricing = pricing_for(options, pinned.properties, prices, calibration, resources, pinned.location)
    candidates = find_candidates(inventory, statistics, options, sizes, now_ms)
    move = move_to_current_spec(inventory) if options.rewrite_to_current_spec else None
    modes = mode_rule(options, target=sizes.target)
    judge = Judge(candidates, options, sizes, pricing, modes, move, now_ms)

    hindrance = unsupported_table(pinned)
    if hindrance is None and not options.ignore_wap_branches:
        hindrance = waiting_to_be_published(pinned)
    outcomes: list[Skip | Proposal] = []
    for number, (chosen, numbers) in enumerate(zip(selected, statistics, strict=True)):
        if hindrance is not None:
            outcomes.append(hindrance)
        elif not chosen:
            outcomes.append(Skip("filtered", selection.undecided.get(number, "not selected by the filter")))
        else:
            outcomes.append(judge.judge(numbers))

    taken = _take(inventory, statistics, options, candidates, judge, pricing, outcomes)
    used = deletes_of(taken.drafts)
    groups = _number(taken.drafts, inventory, candidates.files, used, pricing, first_group)
    verdicts = _verdicts(outcomes, groups, taken)
    plan = Plan(
        format=PLAN_FORMAT,
        tool_version=__version__,
        table=pinned.table,
        table_uuid=pinned.uuid,
        format_version=pinned.format_version,
        branch=pinned.branch,
        snapshot_id=pinned.snapshot_id,
        sequence_number=pinned.sequence_number,
        snapshot_ms=pinned.timestamp_ms,
        schema_id=pinned.schema.schema_id,
        created_ms=now_ms,
        options=_resolved_options(options, sizes),
        resolved_where=selection.where,
        target_file_size=sizes.target,
        health=assess(statistics, options, sizes.target, now_ms, upkeep_of(inventory)).score,
        partitions=_in_order(inventory, statistics, judge, verdicts),
        groups=tuple(groups),
        estimate=_job_estimate(taken.drafts, inventory, options, candidates, pricing),
        deletes=_delete_files(candidates.deletes.rows.take(pa.array(used)), inventory),
        left_out=_left_out(taken.left, inventory),
        better_inline=resources.name != INLINE and pricing.starts_longer_than_it_runs(_work_of(taken.drafts)),
        warnings=_warnings(taken.drafts, inventory, candidates),
    )
    return replace(plan, hash=plan_hash(plan))


def _take(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    options: PlanOptions,
    candidates: Candidates,
    judge: Judge,
    pricing: Pricing,
    outcomes: Sequence[Skip | Proposal],
) -> Taken:
    drafts = [draft for outcome in outcomes if isinstance(outcome, Proposal) for draft in outcome.drafts]

    def smaller(draft: Draft, files: int) -> Draft:
        # The smallest files: they give the most for the bytes read.
        order = np.argsort(candidates.sizes[draft.members], kind="stable")
        return judge.draft(draft.partition, np.sort(draft.members[order[:files]]), draft.score)

    return take_within_limits(
        ranked(drafts, statistics, inventory.partitions, options.strategy),
        options,
        pricing,
        manifests_of=lambda draft: _manifests([draft], candidates),
        manifests=inventory.manifests,
        specs=[_output_spec(inventory, partition, options) for partition in range(len(inventory.partitions))],
        smaller=smaller,
    )


def _output_spec(inventory: Inventory, partition: int, options: PlanOptions) -> int:
    return (
        inventory.pinned.default_spec_id if options.rewrite_to_current_spec else inventory.partitions[partition].spec_id
    )


def _delete_files(rows: pa.Table, inventory: Inventory) -> tuple[DeleteFile, ...]:
    return tuple(
        DeleteFile(
            path=row["path"],
            kind=row["kind"],
            size=row["size"],
            records=row["records"],
            sequence_number=row["sequence_number"],
            manifest=inventory.manifests[row["manifest"]].path,
            referenced_data_file=row["referenced_data_file"],
            equality_ids=tuple(row["equality_ids"] or ()),
            content_offset=row["content_offset"],
            content_size=row["content_size"],
        )
        for row in rows.to_pylist()
    )


def _number(
    drafts: Sequence[Draft],
    inventory: Inventory,
    files: pa.Table,
    used: npt.NDArray[np.int64],
    pricing: Pricing,
    first_group: int,
) -> list[FileGroup]:
    """Drafts to groups; files are in the order of their sequence numbers and paths already."""
    if not drafts:
        return []
    rows = files.take(pa.array(np.concatenate([draft.members for draft in drafts])))
    manifests = [manifest.path for manifest in inventory.manifests]
    inputs = [
        InputFile(path, size, records, sequence_number, manifests[manifest], first_row_id)
        for path, size, records, sequence_number, manifest, first_row_id in zip(
            *(
                rows.column(name).to_pylist()
                for name in ("path", "size", "records", "sequence_number", "manifest", "first_row_id")
            ),
            strict=True,
        )
    ]
    groups: list[FileGroup] = []
    start = 0
    for draft in drafts:
        end = start + len(draft.members)
        partition = inventory.partitions[draft.partition]
        groups.append(
            FileGroup(
                group_id=first_group + len(groups),
                spec_id=partition.spec_id,
                partition_path=partition.path,
                files=tuple(inputs[start:end]),
                outputs=draft.outputs,
                mode=draft.mode.mode,
                score=draft.score,
                estimate=pricing.price_group(draft.work),
                output_spec_id=inventory.pinned.default_spec_id if draft.moves else None,
                deletes=tuple(np.searchsorted(used, draft.deletes).tolist()),
                mode_reason=draft.mode.reason,
                tasks=draft.work.tasks,
            )
        )
        start = end
    return groups


def _verdicts(outcomes: Sequence[Skip | Proposal], groups: Sequence[FileGroup], taken: Taken) -> list[Verdict]:
    groups_of: defaultdict[int, list[FileGroup]] = defaultdict(list)
    for draft, group in zip(taken.drafts, groups, strict=True):
        groups_of[draft.partition].append(group)
    left_of: defaultdict[int, list[Left]] = defaultdict(list)
    for left in taken.left:
        left_of[left.partition].append(left)
    return [
        outcome
        if isinstance(outcome, Skip)
        else _verdict(outcome, groups_of.get(partition, []), left_of.get(partition, []))
        for partition, outcome in enumerate(outcomes)
    ]


def _verdict(proposal: Proposal, groups: Sequence[FileGroup], left: Sequence[Left]) -> Verdict:
    files_left = sum(rest.files for rest in left)
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


_LIMIT_NAMES = {"budget": "max_cost", "limit": "max_files", "outputs": "max_output_files"}


def _in_order(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    judge: Judge,
    verdicts: Sequence[Verdict],
) -> tuple[PartitionVerdict, ...]:
    """Every partition with its verdict, by spec and path."""
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
        )
        for partition, numbers, verdict in zip(inventory.partitions, statistics, verdicts, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (row.spec_id, row.partition_path, row.files, row.bytes)))


def _job_estimate(
    drafts: Sequence[Draft], inventory: Inventory, options: PlanOptions, candidates: Candidates, pricing: Pricing
) -> Estimate:
    work = _work_of(drafts)
    specs = len({_output_spec(inventory, draft.partition, options) for draft in drafts})
    manifests = [inventory.manifests[number] for number in _manifests(drafts, candidates)]
    return pricing.price_job(work, manifests, specs)


def _work_of(drafts: Sequence[Draft]) -> Work:
    work = Work()
    for draft in drafts:
        work += draft.work
    return work


def _manifests(drafts: Sequence[Draft], candidates: Candidates) -> set[int]:
    """Those that name the groups' files or the deletes that the groups apply: the commit may write them anew."""
    if not drafts:
        return set()
    members = np.concatenate([draft.members for draft in drafts])
    data = candidates.files.column("manifest").to_numpy()[members]
    deletes = candidates.deletes.rows.column("manifest").to_numpy()[deletes_of(drafts)]
    return set(np.unique(data).tolist()) | set(np.unique(deletes).tolist())


def _left_out(left: Sequence[Left], inventory: Inventory) -> tuple[str, ...]:
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for rest in left:
        files, size = sums.get((rest.partition, rest.code), (0, 0))
        sums[rest.partition, rest.code] = (files + rest.files, size + rest.bytes)
    lines = [
        f"{inventory.partitions[partition].label}: {plural(files, 'file')}, {format_size(size)} left by "
        f"{_LIMIT_NAMES[code]}"
        for (partition, code), (files, size) in sums.items()
    ]
    if len(lines) > _LEFT_OUT_LINES:
        return (*lines[:_LEFT_OUT_LINES], f"and {plural(len(lines) - _LEFT_OUT_LINES, 'more partition')}")
    return tuple(lines)


def _warnings(drafts: Sequence[Draft], inventory: Inventory, candidates: Candidates) -> tuple[str, ...]:
    """A sort order is a promise that files are cut by their values: merged files are not, and readers skip less."""
    order = inventory.pinned.sort_order_id
    if not drafts or order == 0:
        return ()
    members = np.concatenate([draft.members for draft in drafts])
    orders = candidates.files.column("sort_order_id").fill_null(0).to_numpy()[members]
    in_order = int((orders == order).sum())
    words = f"the table has a sort order ({order}), and rows are not sorted: files are merged as they are"
    if in_order:
        words += f"; {plural(in_order, 'file')} written in that order {'is' if in_order == 1 else 'are'} among them"
    return (words,)


def _resolved_options(options: PlanOptions, sizes: FileSizes) -> Mapping[str, Any]:
    resolved = asdict(options) | {
        "strategy": options.strategy.value,
        "mode": options.mode.value,
        "target_file_size": sizes.target,
        "min_file_size": sizes.minimum,
        "max_file_size": sizes.maximum,
        "max_group_size": sizes.group_limit,
        "parquet": dict(sorted(options.parquet.items())),
    }
    return dict(sorted(resolved.items()))
