"""Describes the layout of a table along the first column of a sort key, before and after a plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DateType, IcebergType, PrimitiveType, TimestampType, TimestamptzType

from tidyberg.model.inventory import Inventory
from tidyberg.model.layout_report import FileLayout, FileRange, LayoutReport
from tidyberg.model.plan import Plan, Rewrite
from tidyberg.model.sort_key import SortKey
from tidyberg.planning.key_values import FieldRanges, Floats, Ints, Mask
from tidyberg.planning.layout import RANGE_SHARE, KeyLayout, measure_layout
from tidyberg.planning.overlap import expected_reads, lookup_shares, spans_of

_MOST_VERDICTS = 10


def layout_report(inventory: Inventory, key: SortKey, plan: Plan, max_overlap_depth: int) -> LayoutReport:
    """Returns the layout of all files. `plan` sorts some of them by the key, or none."""
    pinned = inventory.pinned
    layout = measure_layout(inventory.data_files, inventory.key_bounds, key, pinned.schema, pinned.snapshots)
    before = _files_now(inventory, layout, key, plan)
    return LayoutReport(
        table=pinned.table,
        order=plan.sort_order or "",
        column=pinned.schema.find_column_name(key.fields[0].source_id) or "",
        before=before.described(),
        after=before.after(inventory, plan).described(),
        verdicts=_verdicts(plan),
        dollars=plan.estimate.dollars + plan.estimate.storage_dollars,
        forecast=plan.layout,
        max_overlap_depth=max_overlap_depth,
    )


@dataclass(frozen=True)
class _PlacedFiles:
    """Files with their places along the column. A place is NaN where it is unknown."""

    partition: Ints
    labels: Sequence[str]  # of partitions
    sizes: Ints
    records: Ints
    lows: Floats
    highs: Floats
    rewritten: Mask
    paths: Sequence[str | None]
    values: Sequence[tuple[str | None, str | None]]

    def described(self) -> FileLayout:
        known = ~np.isnan(self.lows)
        places, ranks = np.unique(np.nan_to_num(np.concatenate((self.lows, self.highs))), return_inverse=True)
        files = len(self.lows)
        lower, upper = ranks[:files].astype(np.int64), ranks[files:].astype(np.int64)
        # `FieldRanges.positions` begins at rank -1.
        positions = np.concatenate(([-1.0], places))
        ranges = FieldRanges(lower, upper, known, positions)
        spans = spans_of(self.partition, [ranges])
        depths = spans.deepest(spans.depths_of(spans.starts, spans.ends)) if files else np.zeros(0, np.int64)
        shares = lookup_shares(ranges, self.records)
        order = np.lexsort((self.highs, np.nan_to_num(self.lows, nan=-1.0), self.partition)).tolist()
        return FileLayout(
            files=tuple(self._file(number, int(depths[number]), bool(known[number])) for number in order),
            max_depth=int(depths.max(initial=0)),
            lookup_files=round(expected_reads(shares, self.sizes).files, 2),
            range_files=round(expected_reads(shares, self.sizes, RANGE_SHARE).files, 2),
        )

    def after(self, inventory: Inventory, plan: Plan) -> "_PlacedFiles":
        """Replaces the files of each group by outputs that divide their range evenly."""
        groups = [group for group in plan.groups if group.sort_key is not None]
        if not groups:
            return self
        number_of = {path: number for number, path in enumerate(self.paths)}
        partition_of = {(each.spec_id, each.path): number for number, each in enumerate(inventory.partitions)}
        kept = ~self.rewritten
        parts = [self._chosen(kept)]
        for group in groups:
            members = np.array([number_of[file.path] for file in group.files], np.int64)
            lows, highs = self.lows[members], self.highs[members]
            low, high = (0.0, 1.0) if np.isnan(lows).any() else (float(lows.min()), float(highs.max()))
            edges = np.linspace(low, high, group.outputs + 1)
            outputs = group.outputs
            parts.append(
                _PlacedFiles(
                    np.full(outputs, partition_of[group.spec_id, group.partition_path], np.int64),
                    self.labels,
                    np.full(outputs, group.estimate.bytes_written // outputs, np.int64),
                    np.full(outputs, max(1, group.records // outputs), np.int64),
                    edges[:-1],
                    edges[1:],
                    np.ones(outputs, np.bool_),
                    [None] * outputs,
                    [(None, None)] * outputs,
                )
            )
        return _joined(parts)

    def _chosen(self, mask: Mask) -> "_PlacedFiles":
        numbers = np.flatnonzero(mask).tolist()
        return _PlacedFiles(
            self.partition[mask],
            self.labels,
            self.sizes[mask],
            self.records[mask],
            self.lows[mask],
            self.highs[mask],
            self.rewritten[mask],
            [self.paths[number] for number in numbers],
            [self.values[number] for number in numbers],
        )

    def _file(self, number: int, depth: int, known: bool) -> FileRange:
        low_value, high_value = self.values[number]
        return FileRange(
            partition=self.labels[int(self.partition[number])],
            size=int(self.sizes[number]),
            low=round(float(self.lows[number]), 6) if known else None,
            high=round(float(self.highs[number]), 6) if known else None,
            depth=depth,
            path=self.paths[number],
            low_value=low_value,
            high_value=high_value,
            is_rewritten=bool(self.rewritten[number]),
        )


def _files_now(inventory: Inventory, layout: KeyLayout, key: SortKey, plan: Plan) -> _PlacedFiles:
    column, bounds = layout.values[0], layout.bounds[0]
    lows, highs = _places(column)
    kind = inventory.pinned.schema.find_type(key.fields[0].source_id)
    paths = inventory.data_files["path"].to_pylist()
    taken = {file.path for group in plan.groups if group.sort_key is not None for file in group.files}
    return _PlacedFiles(
        layout.partition,
        [partition.label for partition in inventory.partitions],
        layout.sizes,
        layout.records,
        lows,
        highs,
        np.array([path in taken for path in paths], np.bool_),
        paths,
        list(zip(_texts(bounds.lower, kind), _texts(bounds.upper, kind), strict=True)),
    )


def _places(column: FieldRanges) -> tuple[Floats, Floats]:
    """Returns the lowest and highest place of each file, from 0 to 1."""
    unknown = np.full(len(column.lower), np.nan)
    if column.positions is None or not column.known.any():
        return unknown, unknown.copy()
    low, high = (column.positions[ranks + 1] for ranks in (column.lower, column.upper))
    start, end = float(low[column.known].min()), float(high[column.known].max())
    width = end - start or 1.0
    return (
        np.where(column.known, (low - start) / width, np.nan),
        np.where(column.known, (high - start) / width, np.nan),
    )


def _texts(bounds: pa.Array, kind: IcebergType) -> list[str | None]:
    assert isinstance(kind, PrimitiveType)
    return [None if raw is None else _text(raw, kind) for raw in bounds.to_pylist()]


def _text(raw: bytes, kind: PrimitiveType) -> str:
    try:
        value: Any = from_bytes(kind, raw)
    except Exception:  # noqa: BLE001  # a bound of a promoted column, or one that was cut within a character
        return raw.hex()
    if isinstance(kind, DateType):
        return str(np.datetime64(int(value), "D"))
    if isinstance(kind, TimestampType | TimestamptzType):
        return str(np.datetime64(int(value), "us"))
    return value.hex() if isinstance(value, bytes) else str(value)


def _joined(parts: Sequence[_PlacedFiles]) -> _PlacedFiles:
    return _PlacedFiles(
        np.concatenate([part.partition for part in parts]),
        parts[0].labels,
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.records for part in parts]),
        np.concatenate([part.lows for part in parts]),
        np.concatenate([part.highs for part in parts]),
        np.concatenate([part.rewritten for part in parts]),
        [path for part in parts for path in part.paths],
        [value for part in parts for value in part.values],
    )


def _verdicts(plan: Plan) -> tuple[str, ...]:
    """Returns what becomes of the partitions, the sorted ones first."""
    ordered = sorted(plan.partitions, key=lambda each: not isinstance(each.verdict, Rewrite))
    words = [
        f"{'sort' if isinstance(each.verdict, Rewrite) else 'leave'}: {each.verdict.reason}"
        if not each.partition_path
        else f"{each.partition_path}: {each.verdict.reason}"
        for each in ordered
    ]
    return tuple(dict.fromkeys(words))[:_MOST_VERDICTS]
