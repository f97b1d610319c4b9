"""What one output says of all its row groups or of none, because readers trip over files where only some say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidyberg.parquet.fields import MetadataField, StatisticsField, changed, substruct
from tidyberg.parquet.thrift import STRUCT, Struct

_UPPER, _LOWER, _NULLS, _DISTINCT, _UPPER_VALUE, _LOWER_VALUE = range(1, 7)  # of statistics
_ALL = frozenset(range(1, 9))
BOUNDS = _ALL - {_NULLS}  # and counts of distinct values, which nobody needs without them
_IS_EXACT = {_UPPER_VALUE: StatisticsField.UPPER_IS_EXACT, _LOWER_VALUE: StatisticsField.LOWER_IS_EXACT}


class _HasPageIndexes(Protocol):
    """A column chunk, as far as its page indexes go."""

    @property
    def column_index(self) -> object | None: ...

    @property
    def offset_index(self) -> object | None: ...


@dataclass(frozen=True)
class PageIndexes:
    """Which page indexes an output may have, where some of its chunks lack them.

    Older arrow-rs refuses a file of which some chunks have an offset index and others none, and looks for bounds of
    pages in every row group once it found some. A column index is of no use without the offset index.
    """

    offsets: bool
    bounds: bool

    @classmethod
    def of(cls, row_groups: Sequence[Sequence[_HasPageIndexes]]) -> "PageIndexes":
        offsets = all(chunk.offset_index is not None for group in row_groups for chunk in group)
        bounded = [any(chunk.column_index is not None for chunk in group) for group in row_groups]
        return cls(offsets, offsets and all(bounded))


def partial_statistics(row_groups: Sequence[Sequence[Struct]]) -> list[frozenset[int]]:
    """Of each column the statistics that only some row groups have; `row_groups` hold the metadata of their chunks.

    DataFusion up to version 55 takes the bounds of the row groups that have some for those of the file, and passes
    over the rows of the others. A chunk of nothing but nulls has no bounds and needs none. It also takes statistics
    that do not count nulls to say that there are none.
    """
    return [_partial(column) for column in zip(*row_groups, strict=True)]


def without_statistics(metadata: Struct, left_out: frozenset[int]) -> tuple[int, Any] | None:
    """The statistics of a chunk less these; None where nothing is left."""
    found = substruct(metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    left = changed(found, dict.fromkeys(left_out))
    return (STRUCT, left) if left else None


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
