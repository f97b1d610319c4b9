"""What of the proposed work a job takes when files or dollars are limited, and what it leaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tidyberg.model.manifest import ManifestInfo
from tidyberg.model.options import PlanOptions
from tidyberg.planning.judge import Draft
from tidyberg.planning.price import Pricing, Work

LimitCode = Literal["budget", "limit", "outputs"]


@dataclass(frozen=True)
class Left:
    """Files that another job may take, and the limit that left them."""

    partition: int
    files: int
    bytes: int
    code: LimitCode


@dataclass(frozen=True)
class Taken:
    drafts: tuple[Draft, ...]
    left: tuple[Left, ...]


def take_within_limits(
    drafts: Sequence[Draft],
    options: PlanOptions,
    pricing: Pricing,
    *,
    manifests_of: Callable[[Draft], set[int]],
    manifests: Sequence[ManifestInfo],
    specs: Sequence[int],
    smaller: Callable[[Draft, int], Draft],
) -> Taken:
    """The first groups, in the order given, that fit; `smaller` cuts a group down to a number of files.

    `manifests_of` tells which of the `manifests` name a group's files and `specs` the spec of every partition: both
    are written anew at the commit, which is part of the price.
    """
    fits = sum(draft.outputs for draft in drafts) <= options.max_output_files
    if options.max_files is None and options.max_cost is None and fits:
        return Taken(tuple(drafts), ())
    taken: list[Draft] = []
    left: list[Left] = []
    work = Work()
    outputs = 0
    touched: set[int] = set()
    touched_specs: set[int] = set()
    for draft in drafts:
        candidate: Draft | None = draft
        if options.max_files is not None and work.input_files + len(draft.members) > options.max_files:
            candidate = _cut(draft, options.max_files - work.input_files, smaller)
            left.append(_rest(draft, candidate, "limit"))
        if candidate is not None and outputs + candidate.outputs > options.max_output_files:
            left.append(_rest(candidate, None, "outputs"))
            continue
        if candidate is None:
            continue
        now_touched = touched | manifests_of(candidate)
        now_specs = touched_specs | {specs[candidate.partition]}
        rewritten = [manifests[number] for number in now_touched]
        cost = pricing.price_job(work + candidate.work, rewritten, len(now_specs)).dollars
        if options.max_cost is not None and cost > options.max_cost:
            left.append(_rest(candidate, None, "budget"))
            continue
        taken.append(candidate)
        outputs += candidate.outputs
        work, touched, touched_specs = work + candidate.work, now_touched, now_specs
    return Taken(tuple(taken), tuple(left))


def _cut(draft: Draft, files: int, smaller: Callable[[Draft, int], Draft]) -> Draft | None:
    """As much of a group as fits, where that still is a gain."""
    if files < 1:
        return None
    cut = smaller(draft, files)
    return cut if cut.gains else None


def _rest(draft: Draft, taken: Draft | None, code: LimitCode) -> Left:
    files, size = (0, 0) if taken is None else (len(taken.members), taken.work.bytes_read)
    return Left(draft.partition, len(draft.members) - files, draft.work.bytes_read - size, code)
