"""Decides which statistics and indexes a file may have. Readers fail if only some of its row groups have them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidyberg.parquet.fields import (
    ChunkField,
    FileField,
    GroupField,
    MetadataField,
    StatisticsField,
    changed,
    structs,
    substruct,
)
from tidyberg.parquet.thrift import LIST, STRUCT, Struct, ThriftList

_UPPER, _LOWER, _NULLS, _DISTINCT, _UPPER_VALUE, _LOWER_VALUE = range(1, 7)  # of statistics
_ALL = frozenset(range(1, 9))
BOUNDS = _ALL - {_NULLS}  # and distinct counts, which are useless without bounds
_IS_EXACT = {_UPPER_VALUE: StatisticsField.UPPER_IS_EXACT, _LOWER_VALUE: StatisticsField.LOWER_IS_EXACT}


class _HasPageIndexes(Protocol):
    """A column chunk with its page indexes."""

    @property
    def column_index(self) -> object | None: ...

    @property
    def offset_index(self) -> object | None: ...


@dataclass(frozen=True)
class PageIndexes:
    """Which page indexes an output may have if some of its chunks lack them.

    Older arrow-rs rejects a file if only some chunks have an offset index. Once it has found one column index, it
    expects one in every row group. A column index is useless without the offset index.
    """

    offsets: bool
    bounds: bool

    @classmethod
    def of(cls, row_groups: Sequence[Sequence[_HasPageIndexes]]) -> "PageIndexes":
        offsets = all(chunk.offset_index is not None for group in row_groups for chunk in group)
        bounded = [any(chunk.column_index is not None for chunk in group) for group in row_groups]
        return cls(offsets, offsets and all(bounded))


def partial_statistics(row_groups: Sequence[Sequence[Struct]]) -> list[frozenset[int]]:
    """Returns for each column the statistics that only some row groups have.

    `row_groups` hold the metadata of their chunks. If only some row groups have bounds, DataFusion up to version 55
    applies these bounds to the whole file, and skips rows of the other row groups. It also treats a missing null count
    as zero. A chunk with only nulls has no bounds and needs none.
    """
    return [_partial(column) for column in zip(*row_groups, strict=True)]


def without_statistics(metadata: Struct, left_out: frozenset[int]) -> tuple[int, Any] | None:
    """Returns the statistics of a chunk without these fields, or None if nothing is left."""
    found = substruct(metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    left = changed(found, dict.fromkeys(left_out))
    return (STRUCT, left) if left else None


def with_whole_statistics(footer: Struct) -> Struct:
    """Returns the footer without statistics that only some row groups have. Arrow omits bounds that are long."""
    groups = structs(footer, FileField.ROW_GROUPS, "the list of row groups")
    chunks = [structs(group, GroupField.COLUMNS, "the list of columns") for group in groups]
    left_out = partial_statistics([[chunk[ChunkField.METADATA][1] for chunk in group] for group in chunks])
    if not any(left_out):
        return footer
    whole = [
        changed(group, {GroupField.COLUMNS: (LIST, ThriftList(STRUCT, list(map(_without, columns, left_out))))})
        for group, columns in zip(groups, chunks, strict=True)
    ]
    return changed(footer, {FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, whole))})


def _without(chunk: Struct, left_out: frozenset[int]) -> Struct:
    if not left_out:
        return chunk
    metadata = chunk[ChunkField.METADATA][1]
    left = without_statistics(metadata, left_out)
    return changed(chunk, {ChunkField.METADATA: (STRUCT, changed(metadata, {MetadataField.STATISTICS: left}))})


def _partial(chunks: Sequence[Struct]) -> frozenset[int]:
    known = [
        (substruct(chunk, MetadataField.STATISTICS, "the statistics of a column") or {}, chunk[MetadataField.VALUES][1])
        for chunk in chunks
    ]
    if len({_NULLS in statistics for statistics, _ in known}) > 1:
        return _ALL
    with_values = [statistics for statistics, values in known if statistics.get(_NULLS, (0, None))[1] != values]
    partial: set[int] = set()
    for field in (_UPPER, _LOWER, _DISTINCT, _UPPER_VALUE, _LOWER_VALUE):
        if len({field in statistics for statistics in with_values}) > 1:
            partial |= {field, _IS_EXACT.get(field, field)}
    return frozenset(partial)
