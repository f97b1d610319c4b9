"""Predicts what queries read before and after a sort, and how many of them pay for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tidyberg.model.plan import LayoutForecast
from tidyberg.model.sizes import MB
from tidyberg.planning.drafts import GroupDraft
from tidyberg.planning.key_values import FieldRanges, Floats, Ints
from tidyberg.planning.layout import RANGE_SHARE, KeyLayout, lookups_on_curve
from tidyberg.planning.overlap import Reads, expected_reads
from tidyberg.planning.price import Pricing

_IN_MEMORY_BYTES = 128 * MB  # of input files; rows of larger groups pass through scratch space
_SCRATCH_RATIO = 2.0  # rows in Arrow batches take about twice the space of Parquet files


@dataclass(frozen=True)
class Forecaster:
    """Makes forecasts for the files of one layout."""

    layout: KeyLayout
    pricing: Pricing
    max_depths: Ints  # of each partition

    def of_partition(self, partition: int, files: Ints, draft: GroupDraft | None) -> LayoutForecast:
        """Says what a lookup reads of the files of a partition, now and after the draft. None: nothing is sorted."""
        shares = self.layout.shares(files)
        sizes = self.layout.sizes[files]
        before, range_before = (
            _mean([expected_reads(share, sizes, range_share) for share in shares]) for range_share in (0.0, RANGE_SHARE)
        )
        after, range_after, dollars, scratch = before, range_before, 0.0, 0
        if draft is not None:
            after, range_after = self._after(files, draft, shares)
            estimate = self.pricing.price_group(draft.work)
            dollars = estimate.dollars + estimate.storage_dollars
            scratch = scratch_bytes(draft.work.bytes_read)
        return LayoutForecast(
            max_depth=int(self.max_depths[partition]),
            unknown_files=int((~self.layout.columns[0].known[files]).sum()),
            lookup_files_before=round(before.files, 2),
            lookup_files_after=round(after.files, 2),
            lookup_bytes_before=round(before.bytes),
            lookup_bytes_after=round(after.bytes),
            range_files_before=round(range_before.files, 2),
            range_files_after=round(range_after.files, 2),
            scratch_bytes=scratch,
            payback_queries=self._payback(before, after, dollars),
        )

    def total(self, forecasts: Sequence[LayoutForecast], dollars: float) -> LayoutForecast | None:
        """Adds up the forecasts of the partitions that are sorted. A lookup looks into each of them."""
        if not forecasts:
            return None
        before = after = Reads(0.0, 0.0)
        for each in forecasts:
            before += Reads(each.lookup_files_before, each.lookup_bytes_before)
            after += Reads(each.lookup_files_after, each.lookup_bytes_after)
        return LayoutForecast(
            max_depth=max(each.max_depth for each in forecasts),
            unknown_files=sum(each.unknown_files for each in forecasts),
            lookup_files_before=round(before.files, 2),
            lookup_files_after=round(after.files, 2),
            lookup_bytes_before=round(before.bytes),
            lookup_bytes_after=round(after.bytes),
            range_files_before=round(sum(each.range_files_before for each in forecasts), 2),
            range_files_after=round(sum(each.range_files_after for each in forecasts), 2),
            scratch_bytes=sum(each.scratch_bytes for each in forecasts),
            payback_queries=self._payback(before, after, dollars),
        )

    def _after(self, files: Ints, draft: GroupDraft, shares: Sequence[Floats]) -> tuple[Reads, Reads]:
        """Returns what a lookup and a range read once the outputs of the draft are in place of its files."""
        layout = self.layout
        is_left = ~np.isin(files, draft.members)
        together = layout.shares_together(files, draft.members)
        output_bytes = float(layout.sizes[draft.members].sum()) / draft.outputs
        found: list[Reads] = []
        for range_share in (0.0, RANGE_SHARE):
            of_columns = []
            for column, share, covered in zip(layout.columns, shares, together, strict=False):
                left = expected_reads(share[is_left], layout.sizes[files[is_left]], range_share)
                # The outputs together cover what their inputs cover together.
                hit = min(1.0, covered + range_share) * self._outputs_read(column, draft, range_share)
                of_columns.append(left + Reads(hit, hit * output_bytes))
            found.append(_mean(of_columns))
        return found[0], found[1]

    def _outputs_read(self, column: FieldRanges, draft: GroupDraft, range_share: float) -> float:
        """Returns how many of the outputs hold a value that one of them holds."""
        key, outputs, members = self.layout.key, float(draft.outputs), draft.members
        is_constant = bool(column.constant[members].all()) and len(np.unique(column.lower[members])) == 1
        if is_constant or key.fields[0].transform.startswith("bucket"):
            return outputs  # the bounds of this column are the same in every output
        read = 1.0 if key.curve is None else lookups_on_curve(outputs, len(key.fields))
        return min(outputs, read + range_share * outputs)

    def _payback(self, before: Reads, after: Reads, dollars: float) -> int | None:
        saved = self.pricing.saved_by_lookup(before.files - after.files, before.bytes - after.bytes)
        return ceil(dollars / saved) if saved > 0 and dollars > 0 else None


def scratch_bytes(group_bytes: int) -> int:
    """Returns the bytes that a sorted group writes to scratch space and reads again."""
    return 0 if group_bytes <= _IN_MEMORY_BYTES else round(group_bytes * _SCRATCH_RATIO)


def _mean(reads: Sequence[Reads]) -> Reads:
    total = sum(reads, Reads(0.0, 0.0))
    return Reads(total.files / len(reads), total.bytes / len(reads))
