"""Makes a plan from an inventory: select partitions, judge each, rank, limit, price. Pure and deterministic [I11]."""

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from tidyberg._version import __version__
from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.options import INLINE, Calibration, PlanOptions, Prices, Resources
from tidyberg.model.plan import PLAN_FORMAT, Estimate, LayoutForecast, Plan, Skip
from tidyberg.planning.boundary_sorting import BoundaryPlanner
from tidyberg.planning.boundary_text import parse_boundaries
from tidyberg.planning.candidates import Candidates, find_candidates
from tidyberg.planning.cheaper_merges import with_cheaper_merges
from tidyberg.planning.document import plan_hash
from tidyberg.planning.drafts import DraftBuilder, GroupDraft, deletes_of, ranked
from tidyberg.planning.file_groups import numbered_groups, plan_deletes, touched_manifests
from tidyberg.planning.file_sizes import FileSizes, resolve_sizes
from tidyberg.planning.health import assess
from tidyberg.planning.judge import Judge, Proposal
from tidyberg.planning.limits import WithinLimits, take_all_or_nothing, take_within_limits
from tidyberg.planning.merged_deletes import DeleteMerging
from tidyberg.planning.modes import mode_rule
from tidyberg.planning.moving import move_to_current_spec
from tidyberg.planning.overhead import overhead_of
from tidyberg.planning.price import Pricing, Work, pricing_for
from tidyberg.planning.publishing import waiting_to_be_published
from tidyberg.planning.safety import unsupported_table
from tidyberg.planning.select import selected_partitions
from tidyberg.planning.sort_orders import sort_key_for
from tidyberg.planning.sorting import SortPlanner
from tidyberg.planning.strategies import strategy_for
from tidyberg.planning.strategies.base import RewriteStrategy
from tidyberg.planning.verdicts import left_out_lines, partition_verdicts, sort_order_warnings, verdicts_of

_PRICES, _CALIBRATION, _RESOURCES = Prices(), Calibration(), Resources()


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """A plan is many small objects without cycles. Searching a million of them for cycles takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@garbage_collection_paused()
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
    """Decides what to rewrite in a pinned snapshot, why, and at what cost.

    `statistics` has one entry per partition. A job that plans some of its groups again passes their partitions as
    `only`, by spec id and path, and continues the group numbers with `first_group`.
    """
    pinned = inventory.pinned
    sizes = resolve_sizes(options, pinned.properties)
    selection = selected_partitions(pinned, inventory.partitions, options, now_ms)
    selected = list(selection.chosen)
    if only is not None:
        mine = [(partition.spec_id, partition.path) in only for partition in inventory.partitions]
        selected = [chosen and own for chosen, own in zip(selected, mine, strict=True)]
    pricing = pricing_for(options, pinned.properties, prices, calibration, resources, pinned.location)
    strategy = strategy_for(options, sizes)
    candidates = find_candidates(inventory, statistics, strategy, now_ms)
    move = move_to_current_spec(inventory) if options.rewrite_to_current_spec else None
    builder = DraftBuilder(candidates, sizes, pricing, mode_rule(options, target=sizes.target), move)
    judge = Judge(candidates, strategy, builder, now_ms)

    sorting = _sorting(inventory, candidates, strategy, builder, judge)
    merging = DeleteMerging(inventory, builder, judge.score)
    refusal = unsupported_table(pinned)
    if refusal is None and not options.ignore_wap_branches:
        refusal = waiting_to_be_published(pinned)
    outcomes: list[Skip | Proposal] = []
    merge = merging.plan(selected) if strategy.keeps_data else None
    for number, (chosen, numbers) in enumerate(zip(selected, statistics, strict=True)):
        if refusal is not None:
            outcomes.append(refusal)
        elif not chosen:
            outcomes.append(Skip("filtered", selection.undecided.get(number, "not selected by the filter")))
        elif merge is not None:
            outcomes.append(merging.propose(merge, numbers))
        elif sorting is not None and strategy.sorts:
            outcomes.append(sorting.propose(numbers))
        else:
            deep = sorting.propose_if_deep(numbers) if sorting is not None else None
            outcomes.append(deep or judge.judge(numbers))

    outcomes = with_cheaper_merges(
        outcomes,
        statistics,
        candidates,
        merging,
        strategy,
        lambda drafts: _job_estimate(drafts, inventory, options, candidates, pricing),
    )
    taken = _take(inventory, statistics, strategy, builder, outcomes)
    used = deletes_of(taken.drafts)
    groups = numbered_groups(taken.drafts, inventory, candidates.files, used, pricing, first_group)
    estimate = _job_estimate(taken.drafts, inventory, options, candidates, pricing)
    layouts = {} if sorting is None else _layouts(sorting, taken.drafts, outcomes)
    dollars = estimate.dollars + estimate.storage_dollars
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
        health=assess(statistics, options, sizes.target, now_ms, overhead_of(inventory)).score,
        partitions=partition_verdicts(inventory, statistics, judge, verdicts_of(outcomes, groups, taken), layouts),
        groups=tuple(groups),
        estimate=estimate,
        deletes=plan_deletes(candidates.deletes.rows.take(pa.array(used)), inventory),
        left_out=left_out_lines(taken.left, inventory),
        better_inline=resources.name != INLINE and pricing.starts_longer_than_it_runs(_work_of(taken.drafts)),
        warnings=sort_order_warnings(taken.drafts, inventory, candidates),
        full_rewrite=_full_rewrite(taken.drafts, inventory, options, candidates, pricing, merging),
        sort_order=None if sorting is None else sorting.name,
        layout=None if sorting is None else _total_layout(sorting, taken.drafts, layouts, dollars),
        boundaries=sorting.queries(taken.drafts, dollars) if isinstance(sorting, BoundaryPlanner) else None,
    )
    return replace(plan, hash=plan_hash(plan))


def _sorting(
    inventory: Inventory, candidates: Candidates, strategy: RewriteStrategy, builder: DraftBuilder, judge: Judge
) -> SortPlanner | None:
    if not strategy.sorts and not (strategy.sorts_deep_overlaps and inventory.key_bounds is not None):
        return None
    key = sort_key_for(strategy.options, inventory.pinned)
    if key is None:
        return None
    if strategy.options.boundaries is None:
        return SortPlanner(inventory, candidates, strategy, builder, judge, key)
    boundaries = parse_boundaries(strategy.options.boundaries, key, inventory.pinned.schema)
    return BoundaryPlanner(inventory, candidates, strategy, builder, judge, key, boundaries=boundaries)


def _layouts(
    sorting: SortPlanner, drafts: Sequence[GroupDraft], outcomes: Sequence[Skip | Proposal]
) -> dict[int, LayoutForecast]:
    """Returns the forecast of each partition that the plan may sort."""
    drafts_of: defaultdict[int, list[GroupDraft]] = defaultdict(list)
    for draft in drafts:
        drafts_of[draft.partition].append(draft)
    found = {}
    for partition, outcome in enumerate(outcomes):
        sorts = any(draft.sort_key is not None for draft in drafts_of.get(partition, ()))
        is_looked_at = sorting.strategy.sorts and not (isinstance(outcome, Skip) and outcome.code == "filtered")
        if not sorts and not is_looked_at:
            continue
        forecast = sorting.forecast(partition, drafts_of.get(partition, ()))
        if forecast is not None:
            found[partition] = forecast
    return found


def _total_layout(
    sorting: SortPlanner, drafts: Sequence[GroupDraft], layouts: Mapping[int, LayoutForecast], dollars: float
) -> LayoutForecast | None:
    partitions = sorted({draft.partition for draft in drafts if draft.sort_key is not None})
    return sorting.total([layouts[partition] for partition in partitions], dollars)


def _take(
    inventory: Inventory,
    statistics: Sequence[PartitionStatistics],
    strategy: RewriteStrategy,
    builder: DraftBuilder,
    outcomes: Sequence[Skip | Proposal],
) -> WithinLimits:
    options = strategy.options
    drafts = [draft for outcome in outcomes if isinstance(outcome, Proposal) for draft in outcome.drafts]
    in_order = ranked(drafts, statistics, inventory.partitions, strategy)
    if strategy.keeps_data:
        return take_all_or_nothing(
            in_order,
            options,
            lambda: _job_estimate(in_order, inventory, options, builder.candidates, builder.pricing).dollars,
        )
    return take_within_limits(
        in_order,
        options,
        builder.pricing,
        manifests_of=lambda draft: touched_manifests([draft], builder.candidates),
        manifests=inventory.manifests,
        specs=[_output_spec(inventory, partition, options) for partition in range(len(inventory.partitions))],
        cut_down=builder.smallest_files,
    )


def _output_spec(inventory: Inventory, partition: int, options: PlanOptions) -> int:
    if options.rewrite_to_current_spec:
        return inventory.pinned.default_spec_id
    return inventory.partitions[partition].spec_id


def _job_estimate(
    drafts: Sequence[GroupDraft], inventory: Inventory, options: PlanOptions, candidates: Candidates, pricing: Pricing
) -> Estimate:
    specs = len({_output_spec(inventory, draft.partition, options) for draft in drafts})
    manifests = [inventory.manifests[number] for number in touched_manifests(drafts, candidates)]
    return pricing.price_job(_work_of(drafts), manifests, specs)


def _full_rewrite(
    drafts: Sequence[GroupDraft],
    inventory: Inventory,
    options: PlanOptions,
    candidates: Candidates,
    pricing: Pricing,
    merging: DeleteMerging,
) -> Estimate | None:
    """Prices the rewrite of the data files whose deletes are merged, for comparison."""
    merged = [draft for draft in drafts if draft.keeps_data and len(draft.members)]
    if not merged:
        return None
    specs = len({_output_spec(inventory, draft.partition, options) for draft in merged})
    manifests = [inventory.manifests[number] for number in touched_manifests(merged, candidates, with_data=True)]
    return pricing.price_job(merging.full_rewrite(merged), manifests, specs)


def _work_of(drafts: Sequence[GroupDraft]) -> Work:
    work = Work()
    for draft in drafts:
        work += draft.work
    return work


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
