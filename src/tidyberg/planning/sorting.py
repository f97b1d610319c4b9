"""Proposes the sort of a partition: which files, what queries then read, and why it is refused if nothing is gained."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pyiceberg.types import BinaryType, FixedType, StringType

from tidyberg.model.inventory import Inventory, PartitionStatistics
from tidyberg.model.plan import LayoutForecast, Skip
from tidyberg.model.sort_key import SortKey
from tidyberg.model.words import are, plural
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.drafts import DraftBuilder, GroupDraft
from tidyberg.planning.judge import Judge, Proposal
from tidyberg.planning.key_values import Ints, Mask
from tidyberg.planning.layout import KeyLayout, measure_layout
from tidyberg.planning.layout_forecast import Forecaster
from tidyberg.planning.metrics_modes import cut_length, metrics_mode
from tidyberg.planning.overlap import depth_by_partition
from tidyberg.planning.safety import Hazard, explain
from tidyberg.planning.sort_choice import files_to_sort
from tidyberg.planning.sort_orders import describe_key
from tidyberg.planning.strategies.base import RewriteStrategy

# I10: the currency of a sort is files that a lookup does not read. A smaller gain than this is none.
_LEAST_SAVED_FILES = 0.5


@dataclass(frozen=True)
class SortPlanner:
    """Proposes sorts for one snapshot and one key."""

    inventory: Inventory
    candidates: Candidates
    strategy: RewriteStrategy
    builder: DraftBuilder
    judge: Judge
    key: SortKey
    _forecasts: dict[tuple[int, int], LayoutForecast] = field(default_factory=dict)

    @cached_property
    def layout(self) -> KeyLayout:
        pinned = self.inventory.pinned
        return measure_layout(
            self.candidates.files, self.candidates.key_bounds, self.key, pinned.schema, pinned.snapshots
        )

    @cached_property
    def name(self) -> str:
        return describe_key(self.key, self.inventory.pinned.schema)

    @cached_property
    def max_depths(self) -> Ints:
        """The largest overlap in each partition. Files that were sorted together count once."""
        layout = self.layout
        nothing = np.zeros(len(layout.partition), np.bool_)
        return depth_by_partition(layout.partition, layout.deepest(nothing), len(self.inventory.partitions))

    def propose_if_deep(self, statistics: PartitionStatistics) -> Proposal | None:
        """Proposes to sort a partition in which files overlap deeper than the options allow."""
        if self.max_depths[statistics.partition] <= self.strategy.options.max_overlap_depth:
            return None
        outcome = self.propose(statistics)
        return outcome if isinstance(outcome, Proposal) else None

    def propose(self, statistics: PartitionStatistics) -> Skip | Proposal:
        start, end = self._span(statistics.partition)
        if start == end:
            return Skip("empty", "no data files")
        members = start + np.flatnonzero(self._taken[start:end])
        if not len(members):
            return self._nothing_taken(statistics.partition)
        draft = self.builder.build_sorted(statistics.partition, members, self.judge.score(statistics), self.key)
        refusal = None if self.strategy.options.force else self._refusal(statistics.partition, draft)
        if refusal is not None:
            return refusal
        return Proposal(self._reason(statistics.partition, draft), (draft,))

    def forecast(self, partition: int, drafts: Sequence[GroupDraft]) -> LayoutForecast | None:
        """Says what a lookup reads in a partition, before and after its drafts. Others than sorts change nothing."""
        start, end = self._span(partition)
        if start == end:
            return None
        draft = next((draft for draft in drafts if draft.sort_key is not None), None)
        known = (partition, 0 if draft is None else len(draft.members))
        if known not in self._forecasts:
            self._forecasts[known] = self._forecaster.of_partition(partition, np.arange(start, end), draft)
        return self._forecasts[known]

    def total(self, forecasts: Sequence[LayoutForecast], dollars: float) -> LayoutForecast | None:
        return self._forecaster.total(forecasts, dollars)

    @cached_property
    def _forecaster(self) -> Forecaster:
        return Forecaster(self.layout, self.builder.pricing, self.max_depths)

    @cached_property
    def _taken(self) -> Mask:
        candidates, options = self.candidates, self.strategy.options
        able = (candidates.hazards == Hazard.NONE) & ~candidates.waiting
        if options.force:
            everything: Mask = able
            return everything
        return files_to_sort(self.layout, self._first, able, options.max_overlap_depth)

    @cached_property
    def _first(self) -> Mask:
        """The files to sort whatever lies beside them."""
        found: Mask = ~self.layout.in_order | self.candidates.for_deletes | self._of_wrong_size
        return found

    @cached_property
    def _of_wrong_size(self) -> Mask:
        """Files to split, and files to merge where there are enough of them."""
        candidates = self.candidates
        small = candidates.for_size & ~candidates.compacted
        enough = candidates.per_partition(small) >= self.strategy.min_files_to_merge
        wrong: Mask = (candidates.oversized & ~candidates.compacted) | (small & enough[self.layout.partition])
        return wrong

    def _span(self, partition: int) -> tuple[int, int]:
        start, end = self.candidates.starts[partition : partition + 2].tolist()
        return start, end

    def _nothing_taken(self, partition: int) -> Skip:
        start, end = self._span(partition)
        hazards = self.candidates.hazards[start:end]
        unordered = ~self.layout.in_order[start:end]
        if (hazards[unordered] != Hazard.NONE).any():
            return Skip(Hazard(int(hazards[unordered].max())).code, f"cannot be sorted: {explain(hazards[unordered])}")
        depth, limit = int(self.max_depths[partition]), self.strategy.options.max_overlap_depth
        found = "in order" if end - start == 1 else f"in order, and at most {depth:,} of {end - start:,} files overlap"
        return Skip("tidy", f"already {found} (max_overlap_depth is {limit})")

    def _refusal(self, partition: int, draft: GroupDraft) -> Skip | None:
        """I10: a sort that lets queries skip nothing is refused."""
        if self.candidates.for_deletes[draft.members].any():
            return None
        files = np.arange(*self._span(partition))
        layout = self.layout
        if layout.is_all_null(files):
            return Skip("no-gain", f"no gain: {self._columns} {are(len(self.key.fields))} null in every row")
        if layout.is_one_value(files):
            return Skip("no-gain", f"no gain: every row has the same {self._columns}")
        if draft.outputs == 1 and len(files) == 1:
            return Skip("no-gain", "no gain: one file, which every query must read")
        if (why := self._useless_bounds(files)) is not None:
            return Skip("no-gain", f"no gain: {why}")
        forecast = self.forecast(partition, [draft])
        assert forecast is not None
        saved = forecast.lookup_files_before - forecast.lookup_files_after
        if saved >= _LEAST_SAVED_FILES or draft.outputs < len(draft.members) or self._splits(draft):
            return None
        return Skip(
            "no-gain",
            f"no gain: a lookup by {self._columns} reads {files_words(forecast.lookup_files_before)} now, "
            f"and {files_words(forecast.lookup_files_after)} after a sort",
        )

    def _splits(self, draft: GroupDraft) -> bool:
        return bool(self.candidates.oversized[draft.members].any()) and draft.outputs > len(draft.members)

    def _useless_bounds(self, files: Ints) -> str | None:
        """Returns why file bounds cannot tell the outputs of a sort apart, or None if they can."""
        pinned, field = self.inventory.pinned, self.key.fields[0]
        name = pinned.schema.find_column_name(field.source_id) or ""
        mode = metrics_mode(name, field.source_id, pinned.schema, pinned.properties)
        advice = f"set write.metadata.metrics.column.{name} to full"
        if mode in ("none", "counts"):
            return f"the table keeps no bounds of {name} (metrics mode {mode}), so no query can skip a file; {advice}"
        length = cut_length(mode)
        if length is None or not isinstance(
            pinned.schema.find_type(field.source_id), StringType | BinaryType | FixedType
        ):
            return None
        lower, upper = self.layout.bounds[0].lower, self.layout.bounds[0].upper
        lowest = {lower[int(file)].as_py() for file in files}
        if len(lowest) > 1 or len({upper[int(file)].as_py() for file in files}) > 1:
            return None
        (shared,) = lowest
        if shared is None or len(shared.decode(errors="replace")) < length:
            return None
        return f"all values of {name} begin with the same {length} characters, which is all that bounds keep; {advice}"

    def _reason(self, partition: int, draft: GroupDraft) -> str:
        start, end = self._span(partition)
        unordered = int((~self.layout.in_order[draft.members]).sum())
        depth, limit = int(self.max_depths[partition]), self.strategy.options.max_overlap_depth
        parts = []
        if unordered:
            parts.append(f"{unordered:,} of {plural(end - start, 'file')} not in order")
        if depth > limit:
            parts.append(f"up to {depth:,} files overlap (max_overlap_depth is {limit})")
        elif self.key.curve is not None and (others := self._taken_with_others(draft)):
            parts.append(
                f"with {plural(others, 'file')} of earlier sorts, which may overlap them (max_overlap_depth is {limit})"
            )
        if not parts:
            parts.append(f"{plural(len(draft.members), 'file')} of the wrong size or with deletes")
        if end - start > len(draft.members):
            left = end - start - len(draft.members)
            parts.append(f"{plural(left, 'file')} in order {'stays' if left == 1 else 'stay'}")
        forecast = self.forecast(partition, [draft])
        assert forecast is not None
        return f"{', '.join(parts)}; {self._gain(forecast)}"

    def _taken_with_others(self, draft: GroupDraft) -> int:
        """Returns how many files are taken because others are: bounds do not show where files lie along a curve."""
        if self.strategy.options.force:
            return 0
        return int((~self._first[draft.members]).sum())

    def _gain(self, forecast: LayoutForecast) -> str:
        before, after = (files_words(each) for each in (forecast.lookup_files_before, forecast.lookup_files_after))
        what = f"a lookup by {self._columns} reads {after} instead of {before.split()[0]}"
        return what if before != after else f"a lookup by {self._columns} reads {after} as before"

    @property
    def _columns(self) -> str:
        """The columns whose lookups the key speeds up: the first of a sort, any of a curve."""
        fields = self.key.fields if self.key.curve is not None else self.key.fields[:1]
        names = [self.inventory.pinned.schema.find_column_name(field.source_id) or "?" for field in fields]
        return " or ".join(names)


def files_words(files: float) -> str:
    text = f"{files:,.0f}" if files >= 10 or abs(files - round(files)) < 0.05 else f"{files:.1f}"
    return f"{text} file" if text == "1" else f"{text} files"
