"""Computes column metrics for manifests, and facts for verification, from Parquet footers."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import LAST_UPDATED, ROW_ID, Leaf, Selection
from tidyberg.execute.kernel.columns.single_values import (
    encode,
    is_text,
    is_truncatable,
    normalised,
    truncate_lower,
    truncate_upper,
)
from tidyberg.model.task import ColumnFacts, WrittenFile
from tidyberg.parquet.short_bounds import chunks_with_cut_bounds

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class _BoundConversion:
    """Converts the bounds of column chunks; one object serves all chunks of a column."""

    to_table_type: Callable[[Any], Any]
    may_be_absent: bool

    @classmethod
    def of(cls, target: pa.DataType, source: pa.DataType, *, own: bool) -> "_BoundConversion":
        # Our own writer omits bounds only if a chunk holds nothing but NaN, so there are none.
        return cls(_to_table_type(source, target), own and bool(pa.types.is_floating(target)))


@dataclass
class _LeafStatistics:
    """The combined statistics of a leaf's chunks. A value that one chunk lacks is unknown for all."""

    values: int = 0
    nulls: int | None = 0
    known: bool = True
    lower: Any = None
    upper: Any = None

    def add(self, chunk: pq.ColumnChunkMetaData, bounds: "_BoundConversion") -> None:
        self.values += chunk.num_values
        statistics = chunk.statistics if chunk.is_stats_set else None
        nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
        self.nulls = None if nulls is None or self.nulls is None else self.nulls + nulls
        if nulls == chunk.num_values:
            return
        if statistics is None or not statistics.has_min_max:
            self.known = self.known and bounds.may_be_absent
            return
        lower = normalised(bounds.to_table_type(statistics.min_raw), lower=True)
        upper = normalised(bounds.to_table_type(statistics.max_raw), lower=False)
        if lower is None or upper is None or lower > upper:
            self.known = False
            return
        self.lower = lower if self.lower is None else min(self.lower, lower)
        self.upper = upper if self.upper is None else max(self.upper, upper)

    def add_unreliable(self, values: int) -> None:
        """Adds a chunk whose statistics must not be read."""
        self.values += values
        self.nulls, self.known = None, False

    def add_constant(self, rows: int, value: Any, *, nested: bool) -> None:
        """Adds a column that the file lacks: all rows get one value, usually null. A null struct has none."""
        self.values += rows
        if value is None:
            self.nulls = None if self.nulls is None else self.nulls + rows
        else:
            self.known = False
            self.nulls = None if nested else self.nulls

    def facts(self, kind: pa.DataType) -> ColumnFacts:
        has_bounds = self.known and self.lower is not None
        return ColumnFacts(
            values=self.values,
            nulls=self.nulls,
            lower=encode(self.lower, kind) if has_bounds else None,
            upper=encode(self.upper, kind) if has_bounds else None,
        )


class FactCollector:
    """Sums up footers per field id of the table. Leaves inside lists and maps have no facts."""

    def __init__(self, leaves: Iterable[Leaf], constants: Mapping[int, Any], *, own: bool) -> None:
        self._leaves = [leaf for leaf in leaves if leaf.field_id is not None and not leaf.repeated]
        self._constants = constants
        self._own = own  # whether this kernel wrote the files
        self._ranges = {leaf.field_id: _LeafStatistics() for leaf in self._leaves}
        self._file_leaves: list[Leaf] | None = None
        self._present: list[tuple[_LeafStatistics, int, _BoundConversion]] = []
        self._absent: list[tuple[_LeafStatistics, Any, bool]] = []
        self._fixed: list[int] = []  # columns of type FIXED_LEN_BYTE_ARRAY

    def add(
        self,
        footer: pq.FileMetaData,
        selection: Selection,
        file_leaves: list[Leaf],
        row_groups: Sequence[int] | None = None,
    ) -> None:
        """Adds all row groups of the footer, or only these."""
        numbers = range(footer.num_row_groups) if row_groups is None else row_groups
        rows = footer.num_rows if row_groups is None else sum(footer.row_group(number).num_rows for number in numbers)
        if file_leaves is not self._file_leaves:  # files of one schema share theirs
            self._match(selection, file_leaves)
            self._fixed = [index for _, index, _ in self._present if not self._own and _is_fixed(footer, index)]
        truncated = chunks_with_cut_bounds(footer, self._fixed)
        for found, value, nested in self._absent:
            found.add_constant(rows, value, nested=nested)
        for number in numbers:
            group = footer.row_group(number)
            for found, index, bounds in self._present:
                if (number, index) in truncated:
                    found.add_unreliable(group.column(index).num_values)
                else:
                    found.add(group.column(index), bounds)

    def _match(self, selection: Selection, file_leaves: list[Leaf]) -> None:
        self._file_leaves = file_leaves
        self._present, self._absent = [], []
        for leaf in self._leaves:
            assert leaf.field_id is not None
            found = self._ranges[leaf.field_id]
            index = selection.source_of.get(leaf.field_id)
            if index is None:
                self._absent.append((found, self._constants.get(leaf.field_id), len(leaf.steps) > 1))
            else:
                self._present.append(
                    (found, index, _BoundConversion.of(leaf.type, file_leaves[index].type, own=self._own))
                )

    def facts(self) -> dict[int, ColumnFacts]:
        return {
            leaf.field_id: self._ranges[leaf.field_id].facts(leaf.type)
            for leaf in self._leaves
            if leaf.field_id is not None
        }


def _is_fixed(footer: pq.FileMetaData, index: int) -> bool:
    column = footer.schema.column(index)
    return bool(column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.logical_type.type != "DECIMAL")


def written_file(
    path: str,
    size: int,
    footer: pq.FileMetaData,
    leaves: list[Leaf],
    nan_counts: Mapping[int, int],
    modes: Mapping[int, str],
) -> WrittenFile:
    """Returns the manifest's metrics of an output that this kernel encoded."""
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    return described_file(path, size, groups, leaves, nan_counts, modes, split_offsets(footer), own=True)


def described_file(
    path: str,
    size: int,
    row_groups: Sequence[pq.RowGroupMetaData],
    leaves: list[Leaf],
    nan_counts: Mapping[int, int],
    modes: Mapping[int, str],
    split_offsets: tuple[int, ...],
    *,
    own: bool,
) -> WrittenFile:
    """Returns the manifest's metrics of a file with these row groups, in the table's metrics modes [I9]."""
    columns = _ColumnMetrics({}, {}, {}, {}, {}, {})
    for index, leaf in enumerate(leaves):
        mode = modes.get(leaf.field_id, "none") if leaf.field_id is not None else "none"
        if mode == "none" or leaf.field_id is None:
            continue
        chunks = [group.column(index) for group in row_groups]
        columns.sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
        if leaf.repeated:
            continue
        found, bounds = _LeafStatistics(), _BoundConversion.of(leaf.type, leaf.type, own=own)
        for chunk in chunks:
            found.add(chunk, bounds)
        if leaf.field_id in nan_counts:
            columns.nans[leaf.field_id] = nan_counts[leaf.field_id]
        columns.add(leaf, found, mode)
    return WrittenFile(
        path=path,
        size=size,
        records=sum(group.num_rows for group in row_groups),
        column_sizes=columns.sizes,
        value_counts=columns.values,
        null_value_counts=columns.nulls,
        nan_value_counts=columns.nans,
        lower_bounds=columns.lower,
        upper_bounds=columns.upper,
        split_offsets=split_offsets,
    )


@dataclass(frozen=True)
class _ColumnMetrics:
    sizes: dict[int, int]
    values: dict[int, int]
    nulls: dict[int, int]
    nans: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]

    def add(self, leaf: Leaf, found: _LeafStatistics, mode: str) -> None:
        assert leaf.field_id is not None
        self.values[leaf.field_id] = found.values
        if found.nulls is not None:
            self.nulls[leaf.field_id] = found.nulls
        if mode == "counts" or (found.nulls and leaf.field_id in (ROW_ID, LAST_UPDATED)):
            return  # a null stands for an inherited value, which the bounds might not cover
        if found.nulls is None or (pa.types.is_floating(leaf.type) and leaf.field_id not in self.nans):
            # Iceberg's Java code assumes no nulls and no NaN if they are not counted. With bounds it would conclude
            # that all rows match a filter, and a DELETE would drop the whole file.
            return
        if self.nans.get(leaf.field_id):
            return  # Spark sorts NaN above every bound, and Iceberg's readers would skip the file (`nan_bounds`)
        facts = found.facts(leaf.type)
        if facts.lower is None or facts.upper is None:
            return
        lower, upper = facts.lower, truncated_upper(facts.upper, leaf.type, mode)
        self.lower[leaf.field_id] = truncated_lower(lower, leaf.type, mode)
        if upper is not None:
            self.upper[leaf.field_id] = upper


def truncated_lower(value: bytes, kind: pa.DataType, mode: str) -> bytes:
    match = _TRUNCATE.fullmatch(mode)
    return truncate_lower(value, kind, int(match[1])) if match and is_truncatable(kind) else value


def truncated_upper(value: bytes, kind: pa.DataType, mode: str) -> bytes | None:
    match = _TRUNCATE.fullmatch(mode)
    return truncate_upper(value, kind, int(match[1])) if match and is_truncatable(kind) else value


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Returns where row groups start: at the first page, dictionary or data, of their first column."""
    return tuple(sorted(first_page(footer.row_group(index).column(0)) for index in range(footer.num_row_groups)))


def first_page(chunk: pq.ColumnChunkMetaData) -> int:
    """Returns the offset of a column chunk."""
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        return int(min(chunk.data_page_offset, chunk.dictionary_page_offset))
    return int(chunk.data_page_offset)


def _exactly(raw: Any) -> Any:
    return raw


def _only_bytes(raw: Any) -> Any:
    return raw if isinstance(raw, bytes) else None


def _only_text(raw: Any) -> Any:
    return raw if isinstance(raw, bytes) and _is_utf8(raw) else None


def _is_utf8(raw: bytes) -> bool:
    """Some writers truncate statistics in the middle of a character."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _only_numbers(raw: Any) -> Any:
    return None if isinstance(raw, bytes) else raw


def _unscaled(raw: Any) -> Any:
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw


def _unknown(_: Any) -> None:
    return None


def _to_table_type(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    """Returns a function that converts a statistic to the table's type; it returns None if that is not safe."""
    types = pa.types
    if types.is_unsigned_integer(source):
        return _unknown
    if types.is_decimal(target):
        return _unscaled if types.is_decimal(source) and source.scale == target.scale else _unknown
    if types.is_timestamp(target) or types.is_time(target):
        same_family = types.is_timestamp(source) or types.is_time(source)
        if not same_family or (source.unit == "ns") != (target.unit == "ns"):
            return _unknown
        if source.unit == target.unit:
            return _exactly
        return partial(operator.mul, _PER_MICROSECOND[source.unit])
    if isinstance(target, pa.BaseExtensionType) or is_truncatable(target):
        return _only_text if is_text(target) else _only_bytes
    return _only_numbers  # reading the rows refuses a type that cannot become the target's
