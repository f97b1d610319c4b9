"""Boundaries as users write them: any value of the first column of the order, each once, in order."""

import struct
from typing import Any

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, FloatType, NestedField, TimestampNanoType

from tests.builders.scenes import SCHEMA
from tidyberg.errors import BadInput, BadSortOrder
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.sort_key import SortField, SortKey
from tidyberg.planning.boundary_text import MOST_BOUNDARIES, parse_boundaries

MORE = Schema(
    NestedField(1, "half", FloatType()),
    NestedField(2, "raw", BinaryType()),
    NestedField(3, "fine", TimestampNanoType()),
)


def key(column: int, transform: str = "identity", **direction: bool) -> SortKey:
    return SortKey((SortField(column, transform, **direction),))


def texts(text: str, column: int) -> list[str]:
    return [boundary.text for boundary in parse_boundaries(text, key(column), SCHEMA)]


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        (1, "30, 4 ,+4, -7", ["-7", "4", "30"]),
        (2, "2026-11-12, '2026-11-09'", ["'2026-11-09'", "'2026-11-12'"]),
        (3, "'it''s', a, 'b, c', d e", ["'a'", "'b, c'", "'d e'", "'it''s'"]),
        (4, "2026-11-09 12:30, 2026-11-09", ["'2026-11-09 00:00:00'", "'2026-11-09 12:30:00'"]),
        (5, "2026-11-09 02:00:00+02:00, 2026-11-09", ["'2026-11-09 00:00:00+00:00'"]),
        (6, "TRUE", ["true"]),
        (7, "1.5, 1.50, -0.25", ["-0.25", "1.50"]),
        (9, "Bern", ["'Bern'"]),
        (12, "f79c3e09-677c-4bbd-a479-3f349cb785e7", ["'f79c3e09-677c-4bbd-a479-3f349cb785e7'"]),
        (13, "1e3, 0, -0.0", ["0.0", "1000.0"]),
        (16, "'08:30'", ["'08:30:00'"]),
    ],
)
def test_values_of_every_type_are_read_once_and_in_order(column: int, given: str, expected: list[str]) -> None:
    assert texts(given, column) == expected
    assert texts(", ".join(expected), column) == expected


def test_boundaries_are_single_values_of_the_specification() -> None:
    (day,) = parse_boundaries("1970-01-03", key(2), SCHEMA)
    assert day.value == (2).to_bytes(4, "little")
    (text,) = parse_boundaries("été", key(3), SCHEMA)
    assert (text.value, text.characters) == ("été".encode(), 3)


def test_a_boundary_at_zero_is_the_lesser_of_the_two_zeros() -> None:
    """Both of them are then on the same side."""
    for given in ("0", "-0.0"):
        (boundary,) = parse_boundaries(given, key(13), SCHEMA)
        assert boundary.value == struct.pack("<d", -0.0)


def test_a_number_that_single_precision_lacks_divides_at_the_next_one() -> None:
    """0.1 lies between two numbers of single precision, so it divides at the upper one."""
    (boundary,) = parse_boundaries("0.1", key(1), MORE)
    value = struct.unpack("<f", boundary.value)[0]
    assert value >= 0.1
    assert float(np.nextafter(np.float32(value), np.float32(-1))) < 0.1


@pytest.mark.parametrize(
    ("wrong", "column", "transform", "problem"),
    [
        ("x", 1, "identity", r"Not a boundary: 'x' is not a value of column id, which is of type long"),
        ("1.5", 1, "identity", "is not a value of column id"),
        ("9223372036854775808", 1, "identity", "is not a value of column id"),
        ("2026-13-01", 2, "identity", "is not a value of column day"),
        ("1.555", 7, "identity", "is not a value of column price"),
        ("nan", 13, "identity", "is not a value of column ratio"),
        ("maybe", 6, "identity", "is not a value of column flag"),
        ("", 1, "identity", "There are no boundaries"),
        ("1,,2", 1, "identity", r"'1,,2' cannot be read from character 3 on"),
        ("1, 2,", 1, "identity", "cannot be read from character 6 on"),
        ("'a' b", 3, "identity", "cannot be read from character 1 on"),
        ("'a", 3, "identity", "cannot be read from character 1 on"),
        ("1" * 10_001, 1, "identity", "10,001 characters long"),
        (", ".join(map(str, range(MOST_BOUNDARIES + 1))), 1, "identity", "65 boundaries are too many: at most 64"),
        ("2026-11-09", 4, "day", "the sort order begins with day of ts"),
    ],
)
def test_what_is_not_a_boundary_is_refused(wrong: str, column: int, transform: str, problem: str) -> None:
    with pytest.raises(BadSortOrder, match=problem):
        parse_boundaries(wrong, key(column, transform), SCHEMA)


@pytest.mark.parametrize("column", [2, 3])
def test_columns_whose_values_cannot_be_written_have_no_boundaries(column: int) -> None:
    with pytest.raises(BadSortOrder, match="no way to write values of type"):
        parse_boundaries("1", key(column), MORE)


def test_64_boundaries_may_be_given_many_times() -> None:
    given = ", ".join(map(str, range(MOST_BOUNDARIES)))
    assert len(texts(f"{given}, {given}", 1)) == MOST_BOUNDARIES


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"zorder": "id, day"}, "boundaries do not go with zorder"),
        ({"hilbert": "id, day"}, "boundaries do not go with hilbert"),
        ({}, "boundaries need a sort order"),
        ({"strategy": Strategy.FULL}, "boundaries need a sort order"),
    ],
)
def test_boundaries_need_an_order_that_is_no_curve(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        PlanOptions(boundaries="1", **options)


def test_boundaries_go_with_the_order_of_the_table() -> None:
    assert PlanOptions(strategy=Strategy.SORT, boundaries="1").sort == "table"
