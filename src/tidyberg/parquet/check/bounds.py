"""Statistics of values: are bounds and counts true, whether a chunk's, a page's or those of a column index?"""

from dataclasses import dataclass

from tidyberg.parquet.check.order import Order, Value
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.fields import StatisticsField
from tidyberg.parquet.footer import FIXED_BYTE_ARRAY
from tidyberg.parquet.thrift import Struct

_OLD_UPPER, _OLD_LOWER, _DISTINCT, _UPPER, _LOWER = 1, 2, 4, 5, 6


@dataclass(frozen=True, slots=True)
class Truth:
    """What some values are, as decoded."""

    values: int  # nulls among them
    nulls: int
    nans: int
    lower: Value | None  # of what is neither null nor NaN
    upper: Value | None
    value_bytes: int | None = None  # of every value; None where they differ
    # Counted only where the file says it: with both zeros and every NaN as one number, and apart where there are some.
    distinct: tuple[int, int] | None = None


def check_statistics(
    said: Struct, truth: Truth, order: Order | None, findings: Findings, page: int | None = None
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
    said: Struct, fields: tuple[int, int], truth: Truth, order: Order, findings: Findings, page: int | None
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
    kind: str = "bound"  # loose: no value is outside, but a closer bound was asked for


def bound_problem(bound: bytes, is_lower: bool, truth: Truth, order: Order, exact: bool | None) -> BoundProblem | None:
    """What is wrong with a bound. Bounds of bytes may be cut unless they are said to be exact."""
    value = order.parse(bound)
    if value is None or (order.type == FIXED_BYTE_ARRAY and order.is_decimal and len(bound) != truth.value_bytes):
        return BoundProblem(f"has {len(bound)} bytes, which no value of the column has")
    if value != value:
        return BoundProblem("is NaN")
    true = truth.lower if is_lower else truth.upper
    if true is None:
        # Writers differ over columns of NaN alone; whatever they say, it bounds no number.
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
