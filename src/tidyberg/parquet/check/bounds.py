"""Compares bounds and counts in the statistics of chunks, pages and column indexes with the decoded values."""

from dataclasses import dataclass

from tidyberg.parquet.check.order import Order, Value
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.fields import StatisticsField
from tidyberg.parquet.footer import FIXED_BYTE_ARRAY
from tidyberg.parquet.thrift import Struct

_OLD_UPPER, _OLD_LOWER, _DISTINCT, _UPPER, _LOWER = 1, 2, 4, 5, 6


@dataclass(frozen=True, slots=True)
class TrueStatistics:
    """The true statistics of some decoded values."""

    values: int  # including nulls
    nulls: int
    nans: int
    lower: Value | None  # of the values that are neither null nor NaN
    upper: Value | None
    value_bytes: int | None = None  # the size of every value; None if sizes differ
    # Counted only if the file has a distinct count. First with -0.0 = 0.0 and all NaN equal, then by bit pattern.
    distinct: tuple[int, int] | None = None


def check_statistics(
    said: Struct, truth: TrueStatistics, order: Order | None, findings: Findings, page: int | None = None
) -> None:
    nulls = said.get(StatisticsField.NULLS)
    if nulls is not None:
        findings.equal("null-count", "the number of nulls", nulls[1], truth.nulls, page)
    if _DISTINCT in said and truth.distinct is not None and said[_DISTINCT][1] not in truth.distinct:
        findings.equal("distinct-count", "the number of distinct values", said[_DISTINCT][1], truth.distinct[0], page)
    if order is None:
        return
    _check_pair(said, (_LOWER, _UPPER), truth, order, findings, page)
    if order.signed_is_same:
        _check_pair(said, (_OLD_LOWER, _OLD_UPPER), truth, order, findings, page)


def _check_pair(
    said: Struct, fields: tuple[int, int], truth: TrueStatistics, order: Order, findings: Findings, page: int | None
) -> None:
    old = "deprecated " if fields[0] == _OLD_LOWER else ""
    for field, is_lower, exact_field in (
        (fields[0], True, StatisticsField.LOWER_IS_EXACT),
        (fields[1], False, StatisticsField.UPPER_IS_EXACT),
    ):
        if field not in said:
            continue
        exact = said[exact_field][1] if exact_field in said and not old else None
        name = f"{old}{'lower' if is_lower else 'upper'} bound"
        problem = bound_problem(said[field][1], is_lower, truth, order, exact)
        if problem:
            findings.add(f"statistics-{problem.kind}", f"the {name} {problem.words}", page)


@dataclass(frozen=True, slots=True)
class BoundProblem:
    words: str
    kind: str = "bound"  # "loose": no value is outside, but the bound should be exact


def bound_problem(
    bound: bytes, is_lower: bool, truth: TrueStatistics, order: Order, exact: bool | None
) -> BoundProblem | None:
    """Returns what is wrong with a bound, or None. Bounds of bytes may be truncated unless they are marked as exact."""
    value = order.parse(bound)
    if value is None or (order.type == FIXED_BYTE_ARRAY and order.is_decimal and len(bound) != truth.value_bytes):
        return BoundProblem(f"has {len(bound)} bytes, but no value of the column has this length")
    if value != value:
        return BoundProblem("is NaN")
    true = truth.lower if is_lower else truth.upper
    if true is None:
        # Writers disagree on the bounds of columns with only NaN. Any bound is true, because there is no number.
        return None if truth.nans else BoundProblem(f"is {_shown(value)}, but there is no value")
    if (value > true) if is_lower else (value < true):
        return BoundProblem(
            f"is {_shown(value)}, but the {'lowest' if is_lower else 'highest'} value is {_shown(true)}"
        )
    may_be_loose = order.is_bytes if exact is None else not exact
    if value != true and not may_be_loose:
        return BoundProblem(f"is {_shown(value)} and should be {_shown(true)} exactly", "loose")
    if order.is_text and not _is_utf8(bound) and _is_utf8(true):
        return BoundProblem("is cut in the middle of a character", "cut")
    return None


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(value: Value) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."
