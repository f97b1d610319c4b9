"""Measures the layout of a table along a sort key: which files are in order, and how deep they overlap."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema

from tidyberg.model.plan import SORT_KEY
from tidyberg.model.sort_key import SortField, SortKey, sort_key_text
from tidyberg.model.table import SnapshotInfo
from tidyberg.planning.key_values import FieldRanges, Floats, Ints, KeyColumnMetrics, Mask, column_bounds, ranges_of
from tidyberg.planning.overlap import KeySpans, Reads, expected_reads, lookup_shares, spans_of

RANGE_SHARE = 0.01  # of the rows, for the range that forecasts are made for
_NO_RUN = -1
# The files of a curve that no commit vouches for any more count as clustered up to this many times the ideal.
_LOOSELY_CLUSTERED = 2.0


@dataclass(frozen=True)
class KeyLayout:
    """The layout of some files along a key. Arrays have one entry per file."""

    key: SortKey
    partition: Ints
    sizes: Ints
    records: Ints
    spans: KeySpans
    bounds: tuple[KeyColumnMetrics, ...]  # of each key column
    columns: tuple[FieldRanges, ...]  # the range of each key column, without transforms
    values: tuple[FieldRanges, ...]  # the same without the nulls and NaNs of files that have other values, too
    in_order: Mask  # written in this order, as far as its manifest or the snapshot that added it says
    runs: Ints  # files of one partition with the same number were sorted together, so they do not overlap; -1: alone

    def depths(self, taken: Mask) -> Ints:
        """Returns the depths if the files in the mask were sorted together.

        Nobody knows yet where their outputs will end, so these count as reaching from the first key to the last. Files
        that are sorted already say where they lie. Other files may lie between those of one run.
        """
        starts, ends = self.spans.joined(self.partition, taken)
        is_left = ~taken
        alone = is_left & (self.runs == _NO_RUN)
        together = is_left & ~alone
        of_runs = self.spans.united(self.runs, together)
        return self.spans.depths_of(
            np.concatenate((self.spans.starts[alone], of_runs[0], starts)),
            np.concatenate((self.spans.ends[alone], of_runs[1], ends)),
        )

    def deepest(self, taken: Mask) -> Ints:
        """Returns the largest depth within each file. Those of one run count once."""
        return self.spans.deepest(self.depths(taken))

    def shares(self, files: Ints) -> list[Floats]:
        """Returns for each key column the chance that a lookup among these files reads each of them."""
        columns = self.values if self.key.curve is not None else self.values[:1]
        return [lookup_shares(_of_files(column, files), self.records[files]) for column in columns]

    def shares_together(self, files: Ints, members: Ints) -> list[float]:
        """Returns for each key column the chance that a lookup among `files` asks for a value that members cover."""
        found = []
        for column in self.values if self.key.curve is not None else self.values[:1]:
            known = members[column.known[members]]
            if len(known) < len(members):
                found.append(1.0)
                continue
            # A file without rows that covers them all adds nothing to the distribution of rows.
            lower = np.append(column.lower[files], column.lower[known].min())
            upper = np.append(column.upper[files], column.upper[known].max())
            extended = FieldRanges(lower, upper, np.append(column.known[files], True), column.positions)
            found.append(float(lookup_shares(extended, np.append(self.records[files], 0))[-1]))
        return found

    def reads(self, files: Ints, range_share: float = 0.0) -> Reads:
        """Returns what a lookup on a key column reads of these files; on a curve, the mean of its columns."""
        found = [expected_reads(shares, self.sizes[files], range_share) for shares in self.shares(files)]
        return Reads(*(float(np.mean([getattr(reads, name) for reads in found])) for name in ("files", "bytes")))

    def is_one_value(self, files: Ints) -> bool:
        """Returns True if bounds prove that all rows of these files have the same key."""
        return all(
            bool(column.constant[files].all()) and len(np.unique(column.lower[files])) == 1 for column in self.columns
        )

    def is_all_null(self, files: Ints) -> bool:
        return all(bool(column.all_null[files].all()) for column in self.bounds)


def measure_layout(
    files: pa.Table,
    key_bounds: pa.Table | None,
    key: SortKey,
    schema: Schema,
    snapshots: Mapping[int, SnapshotInfo],
) -> KeyLayout:
    """Measures data files, which have the columns of `Inventory.data_files`. `key_bounds` has a row for each."""
    partition, sizes, records = (
        files.column(name).to_numpy().astype(np.int64) for name in ("partition", "size", "records")
    )
    bounds = [_column(key_bounds, field, records) for field in key.fields]
    kinds = [schema.find_type(field.source_id) for field in key.fields]
    ranges = [ranges_of(*each) for each in zip(bounds, key.fields, kinds, strict=True)]
    # Files are skipped by bounds, which leave nulls and NaN out.
    plain, values = (
        tuple(
            ranges_of(column, SortField(field.source_id), kind)
            for column, field, kind in zip(columns, key.fields, kinds, strict=True)
        )
        for columns in (bounds, [column.without_nulls for column in bounds])
    )
    in_order, runs = _orders(files, key, snapshots)
    layout = KeyLayout(
        key,
        partition,
        sizes,
        records,
        spans_of(partition, ranges[:1] if key.curve is not None else ranges),
        tuple(bounds),
        plain,
        values,
        in_order,
        runs,
    )
    return layout if key.curve is None else _with_older_runs(layout, files, snapshots)


def _orders(files: pa.Table, key: SortKey, snapshots: Mapping[int, SnapshotInfo]) -> tuple[Mask, Ints]:
    """Returns the files that are in order, and the run of each.

    A file says itself that it follows an order of the table. For other orders, the snapshot that added it says so. If
    that snapshot has expired, the overlap of its files decides: the caller takes files that overlap too deep.
    """
    added, run = np.unique(files.column("snapshot_id").to_numpy(), return_inverse=True)
    text = sort_key_text(key)
    sorted_by_us = np.array(
        [one in snapshots and snapshots[one].summary.get(SORT_KEY) == text for one in added.tolist()], np.bool_
    )
    expired = np.array([one not in snapshots for one in added.tolist()], np.bool_)
    if key.order_id is not None:
        in_order = files.column("sort_order_id").fill_null(0).to_numpy() == key.order_id
    else:
        in_order = (sorted_by_us | expired)[run]
    runs = np.where(in_order & sorted_by_us[run], run, _NO_RUN).astype(np.int64)
    return in_order, runs


def _with_older_runs(layout: KeyLayout, files: pa.Table, snapshots: Mapping[int, SnapshotInfo]) -> KeyLayout:
    """Decides by bounds whether files of expired snapshots are clustered along a curve."""
    added = files.column("snapshot_id").to_numpy()
    expired = ~np.isin(added, np.array(sorted(snapshots), np.int64))
    if not expired.any():
        return layout
    in_order, runs = layout.in_order.copy(), layout.runs.copy()
    together = np.column_stack((layout.partition, added))[expired]
    rows = np.flatnonzero(expired)
    _, group = np.unique(together, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    for members in np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1):
        ideal = lookups_on_curve(len(members), len(layout.key.fields))
        is_clustered = layout.reads(members).files <= _LOOSELY_CLUSTERED * ideal
        in_order[members] = is_clustered
        runs[members] = members[0] + 2**40 if is_clustered else _NO_RUN
    return replace(layout, in_order=in_order, runs=runs)


def lookups_on_curve(files: float, columns: int) -> float:
    """Returns how many of the files along a curve a lookup on one of its columns reads at best."""
    return float(files ** ((columns - 1) / columns))


def _column(key_bounds: pa.Table | None, field: SortField, records: Ints) -> KeyColumnMetrics:
    if key_bounds is not None and f"lower_{field.source_id}" in key_bounds.column_names:
        return column_bounds(key_bounds, field.source_id, records)
    unknown = pa.nulls(len(records), pa.binary())
    none: npt.NDArray[np.int64] = np.zeros(len(records), np.int64)
    return KeyColumnMetrics(unknown, unknown, none, none, records)


def _of_files(column: FieldRanges, files: Ints) -> FieldRanges:
    return FieldRanges(column.lower[files], column.upper[files], column.known[files], column.positions)
