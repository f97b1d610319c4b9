"""No output may have values on both sides of a boundary. Bounds that are cut accuse nobody who may be right."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders.planned_groups import group
from tests.builders.rewrite_results import SCHEMA, double, long, written
from tidyberg.execute.kernel.columns.single_values import truncate_lower, truncate_upper
from tidyberg.model.plan import FileGroup
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.verify.boundaries import boundary_problems

SHORT = st.text(st.sampled_from("ab\ue000\U0010ffff\ud7ff"), max_size=5)
IDS, NAMES, RATIOS = 1, 2, 3


def cut(column: int, *boundaries: bytes) -> FileGroup:
    key = SortKey((SortField(column, descending=True),))
    return replace(group(0, 0, ""), sort_key=key, boundaries=tuple(each.hex() for each in boundaries))


def problems(of: FileGroup, low: bytes | None, high: bytes | None) -> list[str]:
    column = of.sort_key.fields[0].source_id if of.sort_key is not None else IDS
    bounds = ({} if each is None else {column: each} for each in (low, high))
    lower, upper = bounds
    output = replace(written(0, 50), lower_bounds=lower, upper_bounds=upper)
    return list(boundary_problems(of, [output], SCHEMA))


@pytest.mark.parametrize(
    ("low", "high", "straddles"),
    [(1, 9, False), (1, 10, True), (9, 10, True), (10, 10, False), (10, 19, False), (19, 20, True), (1, 30, True)],
)
def test_an_output_ends_before_a_boundary_or_begins_with_it(low: int, high: int, straddles: bool) -> None:
    found = problems(cut(IDS, long(10), long(20)), long(low), long(high))
    assert bool(found) == straddles
    if straddles:
        assert f"has values of id from {low} to {high}, but outputs end at" in found[0]


def test_zeros_are_on_one_side() -> None:
    of = cut(RATIOS, double(-0.0))
    assert not problems(of, double(-0.0), double(1.0))
    assert problems(of, double(-1.0), double(0.0))


def test_outputs_without_bounds_and_groups_without_boundaries_pass() -> None:
    assert not problems(cut(IDS, long(10)), None, None)
    assert not problems(cut(IDS), long(1), long(99))
    assert not problems(replace(cut(IDS, long(10)), sort_key=None), long(1), long(99))


@given(st.lists(SHORT, min_size=1, max_size=4), SHORT, st.integers(1, 3))
def test_texts_on_one_side_are_never_accused_however_their_bounds_are_cut(
    values: list[str], boundary: str, length: int
) -> None:
    encoded = [value.encode() for value in values]
    assume(all(value < boundary.encode() for value in encoded) or all(value >= boundary.encode() for value in encoded))
    low, high = truncate_lower(min(encoded), pa.string(), length), truncate_upper(max(encoded), pa.string(), length)
    assert not problems(cut(NAMES, boundary.encode()), low, high)


def test_texts_on_both_sides_are_found_as_far_as_bounds_tell() -> None:
    of = cut(NAMES, b"m")
    assert problems(of, b"anna", b"zoe")
    assert not problems(of, b"anna", b"m"), "the bound may be cut from a lesser value"
    assert not problems(of, b"m", b"zoe")
