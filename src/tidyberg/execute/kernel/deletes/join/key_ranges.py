"""Ranges of key columns from the footers of files, which show that keys and rows cannot meet.

Only types whose bounds every writer gives exactly or too wide are compared, as in `key_bounds.py`: whole numbers,
dates, times and strings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.columns.metrics import FactCollector
from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.deletes.key_bounds import is_number, is_text
from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.reader import Reader
from tidyberg.model.task import ColumnFacts

_MOST_INTERVALS = 256


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The values of one key column in some files. Every value lies within an interval."""

    nulls: bool = False  # whether null may be among the values
    intervals: tuple[tuple[Any, Any], ...] | None = ()  # sorted and disjoint; None: any value is possible


ANY = KeyRange(True, None)


def file_ranges(
    file: OpenFile, reader: Reader, columns: Sequence[Leaf], constants: Mapping[int, Any]
) -> list[KeyRange]:
    """Returns the range of each key column in a file."""
    file_schema = reader.file_schema(file)
    collector = FactCollector(columns, constants, own=False)
    collector.add(file.footer, file_schema.selection, file_schema.leaves)
    facts = collector.facts()
    return [
        ANY if leaf.field_id is None or leaf.field_id not in facts else _range(facts[leaf.field_id], leaf.type)
        for leaf in columns
    ]


def united(ranges: Iterable[Sequence[KeyRange]], width: int) -> tuple[KeyRange, ...]:
    """Returns the ranges that hold the values of all files. Close intervals are joined, so that there are few."""
    nulls = [False] * width
    intervals: list[list[tuple[Any, Any]] | None] = [[] for _ in range(width)]
    for one in ranges:
        for number, column in enumerate(one):
            nulls[number] = nulls[number] or column.nulls
            known = intervals[number]
            if known is None or column.intervals is None:
                intervals[number] = None
            else:
                known.extend(column.intervals)
                if len(known) > 8 * _MOST_INTERVALS:
                    intervals[number] = _few(known)
    return tuple(
        KeyRange(null, None if some is None else tuple(_few(some))) for null, some in zip(nulls, intervals, strict=True)
    )


def may_meet(some: Sequence[KeyRange], others: Sequence[KeyRange]) -> bool:
    """Returns False if no key of one side can equal a key of the other."""
    return all(_columns_meet(one, other) for one, other in zip(some, others, strict=True))


def may_be_within(columns: Sequence[pa.Array], ranges: Sequence[KeyRange]) -> npt.NDArray[np.bool_] | None:
    """Returns which keys may be within the ranges. None: all of them."""
    kept: npt.NDArray[np.bool_] | None = None
    for column, known in zip(columns, ranges, strict=True):
        if known.intervals is None:
            continue
        within = _within(column, known.intervals)
        if column.null_count:
            within = np.where(np.asarray(column.is_null()), known.nulls, within)
        kept = within if kept is None else kept & within
    return kept


def _range(facts: ColumnFacts, kind: pa.DataType) -> KeyRange:
    nulls = facts.nulls != 0
    if facts.nulls == facts.values:
        return KeyRange(nulls, ())
    if facts.lower is None or facts.upper is None:
        return KeyRange(nulls, None)
    if is_number(kind):
        lower, upper = (int.from_bytes(bound, "little", signed=True) for bound in (facts.lower, facts.upper))
        return KeyRange(nulls, ((lower, upper),))
    if is_text(kind):
        return KeyRange(nulls, ((facts.lower, facts.upper),))
    return KeyRange(nulls, None)


def _few(intervals: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Unites intervals that overlap, then those with the smallest gaps, or all if there is no distance."""
    joined: list[tuple[Any, Any]] = []
    for lower, upper in sorted(intervals):
        if joined and lower <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], upper))
        else:
            joined.append((lower, upper))
    if len(joined) <= _MOST_INTERVALS:
        return joined
    if not isinstance(joined[0][0], int):
        return [(joined[0][0], joined[-1][1])]
    gaps = np.array([float(after[0] - before[1]) for before, after in pairwise(joined)])
    cuts = np.sort(np.argsort(gaps, kind="stable")[-(_MOST_INTERVALS - 1) :]) + 1
    edges = [0, *cuts.tolist(), len(joined)]
    return [(joined[begin][0], joined[end - 1][1]) for begin, end in pairwise(edges)]


def _columns_meet(one: KeyRange, other: KeyRange) -> bool:
    if (one.nulls and other.nulls) or one.intervals is None or other.intervals is None:
        return True  # null equals null
    return any(
        lower <= upper_2 and lower_2 <= upper for lower, upper in one.intervals for lower_2, upper_2 in other.intervals
    )


def _within(column: pa.Array, intervals: Sequence[tuple[Any, Any]]) -> npt.NDArray[np.bool_]:
    if not intervals:
        return np.zeros(len(column), np.bool_)
    if isinstance(intervals[0][0], bytes):
        texts = column.cast(pa.large_binary())
        # One range for all files: a comparison with each of many intervals would cost more than it saves.
        inside = pc.and_(pc.greater_equal(texts, intervals[0][0]), pc.less_equal(texts, intervals[-1][1]))
        return np.asarray(inside.fill_null(False), np.bool_)
    numbers = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).fill_null(0)
    values = np.asarray(numbers, np.int64)
    lowers = np.array([lower for lower, _ in intervals], np.int64)
    uppers = np.array([upper for _, upper in intervals], np.int64)
    place = np.searchsorted(lowers, values, side="right") - 1
    within: npt.NDArray[np.bool_] = (place >= 0) & (values <= uppers[place])
    return within
