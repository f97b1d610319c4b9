"""Equality deletes against a plain model: a row is deleted if a later delete has its key. Null equals null."""

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidyberg.execute.kernel.deletes.equality import EqualityDeletes

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-3, 3),
    pa.string(): st.sampled_from(["", "a", "b", "ä", "aa"]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates().map(lambda day: day.replace(year=2020, month=1, day=1 + day.day % 3)),
    pa.binary(2): st.sampled_from([b"ab", b"\x00\x00"]),
    pa.uuid(): st.sampled_from([b"0123456789abcdef", b"\x00" * 16]),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[int, list[tuple[Any, ...]]]], list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | COLUMNS[kind] for kind in types))
    deletes = draw(st.lists(st.tuples(st.integers(1, 5), st.lists(row, max_size=8)), min_size=1, max_size=4))
    return types, deletes, draw(st.lists(row, max_size=30))


def column(rows: list[tuple[Any, ...]], number: int, kind: pa.DataType) -> pa.ChunkedArray:
    values = [row[number] for row in rows]
    if isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    else:
        array = pa.array(values, kind)
    middle = len(values) // 2
    return pa.chunked_array([array[:middle], array[middle:]], kind)


def same(left: Any, right: Any) -> bool:
    """Compares like Java's boxed values: NaN equals NaN, and minus zero does not equal zero."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return bool(left == right) and (left is None) == (right is None)


@given(cases(), st.integers(0, 5))
def test_a_row_is_deleted_exactly_if_a_later_delete_has_its_key(
    case: tuple[list[pa.DataType], list[tuple[int, list[tuple[Any, ...]]]], list[tuple[Any, ...]]], data_sequence: int
) -> None:
    types, deletes, rows = case
    keys = [[column(file, number, kind) for number, kind in enumerate(types)] for _, file in deletes]
    matcher = EqualityDeletes(keys, [sequence for sequence, _ in deletes])

    found = matcher.positions([column(rows, number, kind) for number, kind in enumerate(types)], data_sequence)

    expected = [
        position
        for position, row in enumerate(rows)
        if any(data_sequence < sequence and any(all(map(same, row, key)) for key in file) for sequence, file in deletes)
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_all_nans_are_equal_whatever_their_bits(kind: pa.DataType) -> None:
    numbers = [0x7FC00000, 0x7FC00001, 0xFFC00000] if kind == pa.float32() else [0x7FF8 << 48, (0x7FF8 << 48) + 1]
    integers = pa.uint32() if kind == pa.float32() else pa.uint64()
    nans = pa.chunked_array([pa.array(numbers, integers).view(kind)])
    assert EqualityDeletes([[nans[:1]]], [2]).positions([nans], 1).tolist() == list(range(len(nans)))


def test_a_row_that_shares_one_column_with_a_key_stays() -> None:
    """That holds even if its other value occurs in no delete."""
    keys = [(1, "a"), (1, "b"), (2, "a")]
    rows = [(2, "unknown"), (1, "unknown"), (3, "a"), (2, "b"), (1, "b")]
    kinds = [pa.int64(), pa.string()]
    matcher = EqualityDeletes([[column(keys, number, kind) for number, kind in enumerate(kinds)]], [2])
    assert matcher.positions([column(rows, number, kind) for number, kind in enumerate(kinds)], 1).tolist() == [4]
