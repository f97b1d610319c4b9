"""Compares the offset index and the column index of a column chunk with its pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tidyberg.parquet.check.bounds import TrueStatistics, bound_problem
from tidyberg.parquet.check.order import Order
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.fields import IndexField, LocationField, items, known_only, number, structs
from tidyberg.parquet.thrift import BINARY, FALSE, I64, TRUE, Struct

_NULL_PAGES, _LOWERS, _UPPERS, _BOUNDARY_ORDER, _NULLS, _REPETITIONS, _DEFINITIONS = range(1, 8)
_UNORDERED, _ASCENDING, _DESCENDING = range(3)
_BOOLEAN_TRUE = 1


@dataclass(frozen=True, slots=True)
class TruePage:
    """The true position and statistics of a data page."""

    offset: int
    length: int
    rows: int
    starts_row: bool
    truth: TrueStatistics
    repetitions: tuple[int, ...]  # the number of values of each level
    definitions: tuple[int, ...]
    unencoded: int  # bytes of the values, if their lengths differ


def check_offset_index(index: Struct, pages: Sequence[TruePage], findings: Findings) -> None:
    known_only(index, IndexField.KNOWN, "the offset index")
    locations = structs(index, IndexField.PAGE_LOCATIONS, "the list of pages")
    if len(locations) != len(pages):
        findings.add("offset-index", f"the offset index lists {len(locations)} pages of {len(pages)}")
        return
    first_row = 0
    for at, (location, page) in enumerate(zip(locations, pages, strict=True)):
        offset = number(location, LocationField.OFFSET, "the offset of a page")
        length = number(location, LocationField.LENGTH, "the length of a page")
        findings.equal("offset-index", "the page's offset", offset, page.offset, at)
        findings.equal("offset-index", "the page's length", length, page.length, at)
        row = number(location, LocationField.FIRST_ROW, "the first row of a page")
        findings.equal("offset-index", "the page's first row", row, first_row, at)
        findings.expect(page.starts_row, "offset-index", "the page begins in the middle of a row", at)
        first_row += page.rows
    unencoded = items(index, IndexField.UNENCODED_BYTES, I64, "the sizes of pages")
    if unencoded:
        findings.equal("page-sizes", "the sizes of pages", list(unencoded), [page.unencoded for page in pages])


def check_column_index(index: Struct, pages: Sequence[TruePage], order: Order | None, findings: Findings) -> None:
    known_only(index, frozenset(range(1, 8)), "the column index")
    null_pages = [value == _BOOLEAN_TRUE for value in _booleans(index)]
    lowers = items(index, _LOWERS, BINARY, "the lower bounds of pages")
    uppers = items(index, _UPPERS, BINARY, "the upper bounds of pages")
    if not len(null_pages) == len(lowers) == len(uppers) == len(pages):
        findings.add("column-index", f"the column index does not have an entry for each of {len(pages)} pages")
        return
    for at, page in enumerate(pages):
        truth = page.truth
        # The flag means that the bounds are to be ignored. A page with only nulls may lack it if its bounds are valid.
        is_true = not null_pages[at] or truth.nulls == truth.values
        findings.expect(is_true, "null-page", "the page is marked as all nulls, but it has values", at)
        if not null_pages[at] and order is not None:
            for bound, is_lower in ((lowers[at], True), (uppers[at], False)):
                problem = bound_problem(bound, is_lower, truth, order, None)
                # Page bounds may be wider than the values. If there are no values, any valid bound is true.
                is_true = truth.lower is None and order.parse(bound) is not None
                if problem and problem.kind != "loose" and not is_true:
                    name = "lower" if is_lower else "upper"
                    findings.add(f"column-index-{problem.kind}", f"the {name} bound of the page {problem.words}", at)
    nulls = items(index, _NULLS, I64, "the nulls of pages")
    if nulls:
        findings.equal("column-index-nulls", "the nulls of pages", list(nulls), [page.truth.nulls for page in pages])
    for field, name in ((_REPETITIONS, "repetitions"), (_DEFINITIONS, "definitions")):
        counted = items(index, field, I64, "the levels of pages")
        if counted:
            true = [count for page in pages for count in getattr(page, name)]
            findings.equal("level-histogram", f"the {name[:-1]} levels of pages", list(counted), true)
    if order is not None:
        _check_order(index, null_pages, lowers, uppers, order, findings)


def _booleans(index: Struct) -> list[Any]:
    kind = index[_NULL_PAGES][1].element if _NULL_PAGES in index else TRUE
    return items(index, _NULL_PAGES, kind if kind in (TRUE, FALSE) else TRUE, "the list of null pages")


def _check_order(
    index: Struct, null_pages: list[bool], lowers: list[bytes], uppers: list[bytes], order: Order, findings: Findings
) -> None:
    said = number(index, _BOUNDARY_ORDER, "the order of pages")
    findings.expect(said <= _DESCENDING, "boundary-order", f"the format has no boundary order {said}")
    if said not in (_ASCENDING, _DESCENDING):
        return
    for bounds in (lowers, uppers):
        values = [order.parse(bound) for bound, is_null in zip(bounds, null_pages, strict=True) if not is_null]
        known = [value for value in values if value is not None]
        pairs = pairwise(known if said == _ASCENDING else reversed(known))
        if any(before > after for before, after in pairs):
            name = "ascending" if said == _ASCENDING else "descending"
            findings.add("boundary-order", f"the bounds of pages are marked as {name}, but they are not")
