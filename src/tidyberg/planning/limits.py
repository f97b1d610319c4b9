"""Takes as much of the proposed work as the limits on files, outputs and dollars allow, and lists what is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.options import PlanOptions
from tidyberg.planning.drafts import GroupDraft
from tidyberg.planning.price import Pricing, Work

LimitCode = Literal["budget", "limit", "outputs"]


@dataclass(frozen=True)
class LeftByLimit:
    """Files that a limit left for another job."""

    partition: int
    files: int
    bytes: int
    code: LimitCode


@dataclass(frozen=True)
class WithinLimits:
    drafts: tuple[GroupDraft, ...]
    left: tuple[LeftByLimit, ...]


def take_within_limits(
    drafts: Sequence[GroupDraft],
    options: PlanOptions,
    pricing: Pricing,
    *,
    manifests_of: Callable[[GroupDraft], set[int]],
    manifests: Sequence[ManifestInfo],
    specs: Sequence[int],
    cut_down: Callable[[GroupDraft, int], GroupDraft],
) -> WithinLimits:
    """Takes the groups that fit, in the order given. `cut_down` reduces a group to a number of files.

    The commit is part of the price. It rewrites `manifests_of` each group, which are positions in `manifests`, and
    writes a manifest for each spec; `specs` has the spec of every partition.
    """
    fits = sum(draft.outputs for draft in drafts) <= options.max_output_files
    if options.max_files is None and options.max_cost is None and fits:
        return WithinLimits(tuple(drafts), ())
    taken: list[GroupDraft] = []
    left: list[LeftByLimit] = []
    work = Work()
    outputs = 0
    touched: set[int] = set()
    touched_specs: set[int] = set()
    for draft in drafts:
        candidate: GroupDraft | None = draft
        if options.max_files is not None and work.input_files + len(draft.members) > options.max_files:
            candidate = _cut(draft, options.max_files - work.input_files, cut_down)
            left.append(_left(draft, candidate, "limit"))
        if candidate is not None and outputs + candidate.outputs > options.max_output_files:
            left.append(_left(candidate, None, "outputs"))
            continue
        if candidate is None:
            continue
        now_touched = touched | manifests_of(candidate)
        now_specs = touched_specs | {specs[candidate.partition]}
        rewritten = [manifests[number] for number in now_touched]
        cost = pricing.price_job(work + candidate.work, rewritten, len(now_specs)).dollars
        if options.max_cost is not None and cost > options.max_cost:
            left.append(_left(candidate, None, "budget"))
            continue
        taken.append(candidate)
        outputs += candidate.outputs
        work, touched, touched_specs = work + candidate.work, now_touched, now_specs
    return WithinLimits(tuple(taken), tuple(left))


def take_all_or_nothing(
    drafts: Sequence[GroupDraft], options: PlanOptions, dollars: Callable[[], float]
) -> WithinLimits:
    """Takes all groups, or none. A delete leaves only if all its files are merged, so a part would not be worth it."""
    code: LimitCode | None = None
    if options.max_files is not None and sum(len(draft.members) for draft in drafts) > options.max_files:
        code = "limit"
    elif sum(draft.outputs for draft in drafts) > options.max_output_files:
        code = "outputs"
    elif options.max_cost is not None and dollars() > options.max_cost:
        code = "budget"
    if code is None:
        return WithinLimits(tuple(drafts), ())
    return WithinLimits((), tuple(_left(draft, None, code) for draft in drafts))


def _cut(draft: GroupDraft, files: int, cut_down: Callable[[GroupDraft, int], GroupDraft]) -> GroupDraft | None:
    """Returns as much of a group as fits, or None if that would gain nothing."""
    if files < 1:
        return None
    cut = cut_down(draft, files)
    return cut if cut.gains else None


def _left(draft: GroupDraft, taken: GroupDraft | None, code: LimitCode) -> LeftByLimit:
    files, size = (0, 0) if taken is None else (len(taken.members), taken.work.bytes_read)
    return LeftByLimit(draft.partition, len(draft.members) - files, draft.work.bytes_read - size, code)
