"""Decides which files a filter must read, from the ranges of their columns. Values are ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidyberg.model.file_bounds import Flags
from tidyberg.model.workload import AllOf, AnyOf, Anything, Comparison, Condition, Operator, all_of, any_of, comparisons
from tidyberg.planning.workload.ranks import NAN, NULL, Boxes, RankedColumn, Ranks, after_prefix

TYPICAL = 16  # filters with values of the sample that stand for one whose values are not known
TYPICAL_RANGE = 0.1  # the part of all rows that a range covers whose bounds are not known
_TYPICAL_VALUES = 3  # of an IN list


def may_match(condition: Condition, boxes: Mapping[str, Boxes], files: int) -> Flags:
    """Returns for each file whether its ranges allow a row that meets the condition."""
    if isinstance(condition, AllOf | AnyOf):
        join = np.logical_and if isinstance(condition, AllOf) else np.logical_or
        return np.asarray(join.reduce([may_match(one, boxes, files) for one in condition.parts]), np.bool_)
    if isinstance(condition, Anything):
        return np.ones(files, np.bool_)
    box = boxes[condition.column]
    if condition.operator is Operator.IS_NULL:
        return box.may_have_nulls
    if condition.operator is Operator.NOT_NULL:
        return box.may_have_values
    return box.may_have_values & _in_range(condition.operator, condition.values or (), box)


def _in_range(operator: Operator, values: Sequence[int], box: Boxes) -> Flags:
    if operator in (Operator.EQ, Operator.IN):
        found = np.zeros(len(box.lows), np.bool_)
        for value in values:
            found |= (box.lows <= value) & (value <= box.highs)
        return found
    (value,) = values
    if operator is Operator.LT:
        return box.lows < value
    if operator is Operator.LE:
        return box.lows <= value
    return box.highs > value if operator is Operator.GT else box.highs >= value


def with_ranks(condition: Condition, columns: Mapping[str, RankedColumn]) -> Condition:
    """Replaces known values by ranks, and prefixes by ranges. Unknown values stay unknown."""
    if isinstance(condition, AllOf | AnyOf):
        join = all_of if isinstance(condition, AllOf) else any_of
        return join(with_ranks(one, columns) for one in condition.parts)
    if isinstance(condition, Anything) or condition.operator.is_unary:
        return condition
    name, ranks = condition.column, columns[condition.column].ranks
    if condition.operator is Operator.STARTS_WITH:
        known = condition.values
        after = None if known is None else after_prefix(known[0])
        low = Comparison(name, Operator.GE, None if known is None else (ranks[known[0]],))
        if known is not None and after is None:
            return low
        return AllOf((low, Comparison(name, Operator.LT, None if after is None else (ranks[after],))))
    if condition.values is None:
        return condition
    return Comparison(name, condition.operator, tuple(ranks[value] for value in condition.values))


def is_known(condition: Condition) -> bool:
    return all(one.values is not None for one in comparisons(condition))


@dataclass(frozen=True)
class TypicalValues:
    """Values of sampled rows that stand for values that are not known. The choice is the same in every run."""

    columns: Mapping[str, RankedColumn]

    def filters(self, condition: Condition) -> list[Condition]:
        """Returns the condition itself, or filters with typical values."""
        if is_known(condition):
            return [condition]
        return [self._filled(condition, (number + 0.5) / TYPICAL) for number in range(TYPICAL)]

    def _filled(self, condition: Condition, place: float) -> Condition:
        if isinstance(condition, AllOf):
            return all_of(self._filled_part(one, condition.parts, place) for one in condition.parts)
        if isinstance(condition, AnyOf):
            return any_of(self._filled(one, place) for one in condition.parts)
        return self._filled_part(condition, (), place)

    def _filled_part(self, condition: Condition, beside: Sequence[Condition], place: float) -> Condition:
        if not isinstance(condition, Comparison):
            return self._filled(condition, place)
        if condition.values is not None:
            return condition
        name, operator = condition.column, condition.operator
        sample = _comparable(self.columns[name].sample)
        if not len(sample):
            return Anything()
        if operator in (Operator.EQ, Operator.IN):
            count = 1 if operator is Operator.EQ else _TYPICAL_VALUES
            at = (place + np.arange(count) / count) % 1.0
            return Comparison(name, operator, tuple(sample[(at * len(sample)).astype(np.int64)].tolist()))
        if _has_other_side(condition, beside):
            start = place * (1 - TYPICAL_RANGE)
            place = start if operator in (Operator.GT, Operator.GE) else start + TYPICAL_RANGE
        ordered = np.sort(sample)
        return Comparison(name, operator, (int(ordered[min(len(ordered) - 1, int(place * len(ordered)))]),))


def _has_other_side(condition: Comparison, beside: Sequence[Condition]) -> bool:
    lower, upper = (Operator.GT, Operator.GE), (Operator.LT, Operator.LE)
    wanted = upper if condition.operator in lower else lower
    return any(
        isinstance(one, Comparison) and one.column == condition.column and one.operator in wanted and one.values is None
        for one in beside
    )


def _comparable(sample: Ranks) -> Ranks:
    return np.asarray(sample[(sample != NULL) & (sample != NAN)], np.int64)
