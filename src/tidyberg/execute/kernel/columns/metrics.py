"""Column metrics and verification facts, from Parquet footers."""

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
    """How to take the bounds of a column chunk; the same for all chunks of one column."""

    to_table_type: Callable[[Any], Any]
    may_be_absent: bool

    @classmethod
    def of(cls, target: pa.DataType, source: pa.DataType, *, own: bool) -> "_BoundConversion":
        # Our own writer leaves bounds out for a chunk of nothing but NaN: they are truly absent there.
        return cls(_to_table_type(source, target), own and bool(pa.types.is_floating(target)))


@dataclass
class _LeafStatistics:
    """What the chunks of one leaf say together; None once a chunk did not tell."""

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
        """A chunk whose statistics cannot be looked at."""
        self.values += values
        self.nulls, self.known = None, False

    def add_constant(self, rows: int, value: Any, *, nested: bool) -> None:
        """A column the file does not have: the same value, mostly null, in every row that has a struct around it."""
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
    """Sums up footers per field id of the table; leaves inside lists and maps are left out."""

    def __init__(self, leaves: Iterable[Leaf], constants: Mapping[int, Any], *, own: bool) -> None:
        self._leaves = [leaf for leaf in leaves if leaf.field_id is not None and not leaf.repeated]
        self._constants = constants
        self._own = own  # written by this kernel, whose habits are known
        self._ranges = {leaf.field_id: _LeafStatistics() for leaf in self._leaves}
        self._file_leaves: list[Leaf] | None = None
        self._present: list[tuple[_LeafStatistics, int, _BoundConversion]] = []
        self._absent: list[tuple[_LeafStatistics, Any, bool]] = []
        self._fixed: list[int] = []  # columns of fixed bytes

    def add(
        self,
        footer: pq.FileMetaData,
        selection: Selection,
        file_leaves: list[Leaf],
        row_groups: Sequence[int] | None = None,
    ) -> None:
        """All row groups of the footer, or only these."""
        numbers = range(footer.num_row_groups) if row_groups is None else row_groups
        rows = footer.num_rows if row_groups is None else sum(footer.row_group(number).num_rows for number in numbers)
        if file_leaves is not self._file_leaves:  # files of one schema share theirs
            self._match(selection, file_leaves)
            self._fixed = [index for _, index, _ in self._present if not self._own and _is_fixed(footer, index)]
        cut = chunks_with_cut_bounds(footer, self._fixed)
        for found, value, nested in self._absent:
            found.add_constant(rows, value, nested=nested)
        for number in numbers:
            group = footer.row_group(number)
            for found, index, bounds in self._present:
                if (number, index) in cut:
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
    """What the manifest will say of an output that this kernel has encoded."""
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
    """What the manifest will say of a file of these row groups, in the metrics modes of the table [I9]."""
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
            return  # a null there stands for an inherited value, which bounds would have to cover
        if found.nulls is None or (pa.types.is_floating(leaf.type) and leaf.field_id not in self.nans):
            # Where they are not counted, Java takes nulls and NaN for absent: with bounds it would say that all rows
            # match a filter, and a DELETE would drop the file with them.
            return
        if self.nans.get(leaf.field_id):
            return  # to Spark NaN is above every bound, and Iceberg's readers would pass over the file (`nan_bounds`)
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
    """Where row groups start: at the first page, dictionary or data, of their first column."""
    return tuple(sorted(first_page(footer.row_group(index).column(0)) for index in range(footer.num_row_groups)))


def first_page(chunk: pq.ColumnChunkMetaData) -> int:
    """Where a column chunk begins."""
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
    """Some writers cut statistics in the middle of a character."""
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
    """Makes a statistic of the file's type a value of the table's type; None where that is not certain."""
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
    return _only_numbers  # a type that cannot become the target's is refused with the rows
