"""Finds the places of rows among sorted bounds, exactly and for every type.

A word of a row is compared with the distinct words of the bounds at the same level. Only rows that equal some bound
there look at the next level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.execute.kernel.order.byte_strings import WORD_BYTES, ByteStrings, Words
from tidyberg.execute.kernel.order.keys import (
    Level,
    NullLevel,
    Positions,
    StringLayout,
    ValueLevel,
    field_levels,
    is_bytes,
)
from tidyberg.model.sort_key import SortField


class KeyBounds:
    """Sorted keys, some of which may be equal."""

    def __init__(self, values: Sequence[pa.Array], fields: Sequence[SortField]) -> None:
        """`values` are the values of each field, plain and transformed, in the order of the key."""
        self.count = len(values[0])
        self._columns = [_BoundedField.of(array, field) for array, field in zip(values, fields, strict=True)]
        self._steps: list[_Step] = []
        groups = np.zeros(self.count, np.int64)
        for column, array in zip(self._columns, values, strict=True):
            for level in column.levels(array):
                step, groups = _step(level(), groups)
                self._steps.append(step)

    def places(self, values: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """Returns how many bounds are less than each row, and how many are less or equal."""
        rows: Positions | None = None
        groups: Positions | None = None
        less = np.zeros(len(values[0]), np.int64)
        not_greater = np.zeros(len(values[0]), np.int64)
        if not self.count or not len(less):
            return less, not_greater
        not_greater[:] = self.count
        levels = [level for column, array in zip(self._columns, values, strict=True) for level in column.levels(array)]
        for step, level in zip(self._steps, levels, strict=True):
            if _is_constant(level) and len(step.distinct) == 1 and level(rows)[0] == step.distinct[0]:
                continue
            place, equal = step.places(level(rows), groups)
            is_last = step is self._steps[-1]
            if rows is None:
                less, not_greater = step.bounds_before(place, equal)
                rows = None if is_last else np.flatnonzero(equal)
            else:
                less[rows], not_greater[rows] = step.bounds_before(place, equal)
                rows = rows[equal]
            if rows is None or not len(rows):
                break
            groups = place[equal]
        return less, not_greater


@dataclass(frozen=True)
class _BoundedField:
    """A field of the bounds. The layout of its strings is that of the bounds, for bounds and rows alike."""

    field: SortField
    prefix: bytes = b""  # of all bounds
    layout: StringLayout | None = None

    @classmethod
    def of(cls, values: pa.Array, field: SortField) -> "_BoundedField":
        if not is_bytes(values.type):
            return cls(field)
        strings = ByteStrings.of(values)
        prefix = strings.common_prefix()
        words = -(-(strings.longest() - len(prefix)) // WORD_BYTES)
        return cls(field, prefix, StringLayout(len(prefix), words, ranked=False))

    def levels(self, values: pa.Array) -> list[Level]:
        first, *others = field_levels(values, self.field, with_nulls=True, layout=self.layout)
        if not self.prefix:
            return [first, *others]
        assert isinstance(first, NullLevel)
        prefix = _PrefixLevel(ByteStrings.of(values).values, self.prefix)
        return [first, ValueLevel(prefix, first.is_null, self.field.descending), *others]


@dataclass(frozen=True)
class _PrefixLevel:
    """Compares strings with the prefix of all bounds: less, equal or greater."""

    values: pa.Array
    prefix: bytes

    def __call__(self, rows: Positions | None = None) -> Words:
        values = self.values if rows is None else self.values.take(pa.array(rows))
        has_prefix = _flags(pc.starts_with(values, self.prefix))
        if has_prefix.all():
            return np.ones(len(values), np.uint64)
        is_less = _flags(pc.less(values, pa.scalar(self.prefix, values.type)))
        return np.where(has_prefix, np.uint64(1), np.where(is_less, np.uint64(0), np.uint64(2)))


@dataclass(frozen=True)
class _Step:
    """One level of the bounds. A group is a set of bounds whose words are equal at all levels before."""

    distinct: Words
    combined: Positions  # distinct pairs of group and place among `distinct`, as numbers
    first: Positions  # the first bound of each pair; then the number of bounds

    def places(self, words: Words, groups: Positions | None) -> tuple[Positions, npt.NDArray[np.bool_]]:
        """Returns the place of each row among the pairs, and whether the row equals the pair at this place."""
        place = np.searchsorted(self.distinct, words)
        equal = self.distinct[np.minimum(place, len(self.distinct) - 1)] == words
        if groups is None:
            return place, equal
        numbers = groups * (2 * len(self.distinct) + 1) + 2 * place + equal
        place = np.searchsorted(self.combined, numbers)
        return place, self.combined[np.minimum(place, len(self.combined) - 1)] == numbers

    def bounds_before(self, place: Positions, equal: npt.NDArray[np.bool_]) -> tuple[Positions, Positions]:
        """Returns how many bounds are less than each row, and how many are less or equal as far as words say."""
        if len(self.first) == int(self.first[-1]) + 1:  # every bound is a pair of its own
            return place, place + equal
        return self.first[place], self.first[place + equal]


def _step(words: Words, groups: Positions) -> tuple[_Step, Positions]:
    """Returns the step for the bounds' words, and the groups after it."""
    distinct = np.unique(words)
    numbers = groups * (2 * len(distinct) + 1) + 2 * np.searchsorted(distinct, words) + 1
    combined, first, groups = np.unique(numbers, return_index=True, return_inverse=True)
    return _Step(distinct, combined, np.append(first, len(words))), groups


def _is_constant(level: Level) -> bool:
    return isinstance(level, NullLevel) and level.is_null is None


def _flags(flags: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return found
