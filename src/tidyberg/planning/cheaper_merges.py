"""Replaces rewrites by minor compactions where these are the cheaper way to get rid of deletes, for `auto`.

A minor compaction does not make files smaller, so partitions with small files, or with many rows known to be deleted,
are rewritten as before. It must also free the partition of all its loose deletes. Otherwise the rewrite would come
anyway, and the merge would have been for nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidyberg.model.inventory import PartitionStatistics
from tidyberg.model.plan import Estimate, Skip
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.drafts import GroupDraft
from tidyberg.planning.judge import Proposal
from tidyberg.planning.merged_deletes import DeleteMerging, Merge
from tidyberg.planning.strategies.base import RewriteStrategy

WORTH_A_MERGE = 2  # a rewrite, which also makes files smaller, must cost at least so many times as much

Outcomes = Sequence[Skip | Proposal]
PriceOf = Callable[[Sequence[GroupDraft]], Estimate]


def with_cheaper_merges(
    outcomes: Outcomes,
    statistics: Sequence[PartitionStatistics],
    candidates: Candidates,
    merging: DeleteMerging,
    strategy: RewriteStrategy,
    price_of: PriceOf,
) -> list[Skip | Proposal]:
    """Returns the outcomes, with a minor compaction in place of each rewrite that costs more for the same gain."""
    options = strategy.options
    if not strategy.may_keep_data or options.max_files is not None or options.max_cost is not None:
        return list(outcomes)  # a limit may leave out a part, and then deletes cannot leave
    chosen = {
        number for number, outcome in enumerate(outcomes) if _is_for_deletes_only(outcome, candidates, number, strategy)
    }
    while chosen:
        merge = merging.plan([number in chosen for number in range(len(outcomes))])
        better = {
            number: proposal
            for number in chosen
            if (proposal := _cheaper(outcomes[number], merge, statistics[number], merging, price_of)) is not None
        }
        if better.keys() == chosen:
            return [better.get(number, outcome) for number, outcome in enumerate(outcomes)]
        chosen = set(better)  # deletes for several partitions leave only with all of them, so ask again
    return list(outcomes)


def _is_for_deletes_only(
    outcome: Skip | Proposal, candidates: Candidates, partition: int, strategy: RewriteStrategy
) -> bool:
    if isinstance(outcome, Skip):
        return False
    ratios = candidates.delete_ratios
    if ratios.exact[partition] and ratios.deleted_rows[partition] > strategy.options.max_delete_ratio:
        return False  # a rewrite would make the files smaller
    other_reasons = candidates.for_size | candidates.oversized | candidates.moved
    return not any(other_reasons[draft.members].any() for draft in outcome.drafts)


def _cheaper(
    outcome: Skip | Proposal,
    merge: Merge,
    statistics: PartitionStatistics,
    merging: DeleteMerging,
    price_of: PriceOf,
) -> Proposal | None:
    """Returns the minor compaction if it pays back, and costs so little that a later rewrite may follow it."""
    assert isinstance(outcome, Proposal)
    if not merging.frees(merge, statistics.partition):
        return None
    proposal = merging.propose(merge, statistics)
    if isinstance(proposal, Skip):
        return None
    minor, full = price_of(proposal.drafts), price_of(outcome.drafts)
    if minor.payback_scans is None or _dollars(minor) * WORTH_A_MERGE > _dollars(full):
        return None
    return replace(proposal, reason=f"{proposal.reason}, for ${minor.dollars:.4f}; a rewrite costs ${full.dollars:.4f}")


def _dollars(estimate: Estimate) -> float:
    return estimate.dollars + estimate.storage_dollars
