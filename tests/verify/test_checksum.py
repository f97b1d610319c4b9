"""The row checksum: what changes it and what must not."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.timing import cpu_of
from tidyberg.execute.kernel.columns.checksum import RowChecksum
from tidyberg.testing import sample_rows

Drawn = tuple[pa.Table, list[st.SearchStrategy[Any]]]
LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=40),
    pa.large_string(): st.text(max_size=4).map(lambda text: text * 70),  # around the length where the method changes
    pa.binary(): st.binary(max_size=20),
    pa.binary(7): st.binary(min_size=7, max_size=7),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),  # noqa: DTZ001
}


def nested(kind: pa.DataType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[pa.DataType, Any]]:
    optional = st.none() | values
    return st.sampled_from(
        [
            (kind, optional),
            (pa.list_(kind), st.none() | st.lists(optional, max_size=3)),
            (pa.list_(pa.list_(kind)), st.none() | st.lists(st.none() | st.lists(optional, max_size=2), max_size=2)),
            (pa.struct([("a", kind), ("b", kind)]), st.none() | st.fixed_dictionaries({"a": optional, "b": optional})),
            (pa.map_(pa.int32(), kind), st.none() | st.lists(st.tuples(st.integers(0, 9), optional), max_size=3)),
        ]
    )  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, min_rows: int = 0) -> Drawn:
    """A table and, per column, where its values came from."""
    column = st.sampled_from(list(LEAVES)).flatmap(lambda kind: nested(kind, LEAVES[kind]))
    columns = draw(st.lists(column, min_size=1, max_size=4))
    rows = draw(st.integers(min_rows, 8))
    arrays = [pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind) for kind, values in columns]
    table = pa.table(arrays, names=[f"c{position}" for position in range(len(arrays))])
    return table, [values for _, values in columns]


def digest(*parts: pa.Table | pa.RecordBatch) -> str:
    checksum = RowChecksum()
    for part in parts:
        checksum.update(part)
    return checksum.hexdigest()


def canonical(value: Any) -> Any:
    """Python's equality calls 0.0 and -0.0 equal, and NaN unlike itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


def row_list(table: pa.Table) -> list[Any]:
    return [canonical(row) for row in table.to_pylist()]


@given(drawn=tables(), data=st.data())
def test_order_and_batches_do_not_matter(drawn: Drawn, data: st.DataObject) -> None:
    table, _strategies = drawn
    order = data.draw(st.permutations(range(table.num_rows)))
    cut = data.draw(st.integers(0, table.num_rows))
    shuffled = table.take(pa.array(order, pa.int64()))
    assert digest(shuffled.slice(cut), shuffled.slice(0, cut)) == digest(table)


@given(drawn=tables(min_rows=1), data=st.data())
def test_one_changed_value_is_noticed(drawn: Drawn, data: st.DataObject) -> None:
    table, strategies = drawn
    position = data.draw(st.integers(0, table.num_columns - 1))
    row = data.draw(st.integers(0, table.num_rows - 1))
    values = table.column(position).to_pylist()
    replacement = pa.array([data.draw(strategies[position])], table.schema.field(position).type)[0].as_py()
    assume(canonical(values[row]) != canonical(replacement))
    values[row] = replacement
    field = table.schema.field(position)
    assert digest(table.set_column(position, field, pa.array(values, field.type))) != digest(table)


@given(drawn=tables(min_rows=1), data=st.data())
def test_lost_and_duplicated_rows_are_noticed(drawn: Drawn, data: st.DataObject) -> None:
    table, _strategies = drawn
    row = data.draw(st.integers(0, table.num_rows - 1))
    without = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
    assert digest(without) != digest(table)
    assert digest(table, table.slice(row, 1)) != digest(table)
    assert digest(table, table.slice(row, 1), table.slice(row, 1)) != digest(table)


@given(drawn=tables(min_rows=2), data=st.data())
def test_values_that_change_rows_are_noticed(drawn: Drawn, data: st.DataObject) -> None:
    table, _strategies = drawn
    position = data.draw(st.integers(0, table.num_columns - 1))
    first, second = data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=2, max_size=2, unique=True))
    values = table.column(position).to_pylist()
    values[first], values[second] = values[second], values[first]
    field = table.schema.field(position)
    swapped = table.set_column(position, field, pa.array(values, field.type))
    same = sorted(map(repr, row_list(swapped))) == sorted(map(repr, row_list(table)))
    assert (digest(swapped) == digest(table)) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([None], pa.int64()), pa.array([0])),
        (pa.array([None], pa.string()), pa.array([""])),
        (pa.array([""]), pa.array(["\0"])),
        (pa.array(["a"]), pa.array(["a\0"])),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([None], pa.float64()), pa.array([math.nan])),
        (pa.array([False]), pa.array([None], pa.bool_())),
        (pa.array([[]], pa.list_(pa.int32())), pa.array([None], pa.list_(pa.int32()))),
        (pa.array([[]], pa.list_(pa.int32())), pa.array([[None]], pa.list_(pa.int32()))),
        (pa.array([[0]], pa.list_(pa.int32())), pa.array([[0, 0]], pa.list_(pa.int32()))),
        (pa.array([[1, 2]]), pa.array([[2, 1]])),
        (pa.array([[[1], [2]]]), pa.array([[[1, 2], []]])),
        (pa.array([{"a": None}], pa.struct([("a", pa.int32())])), pa.array([None], pa.struct([("a", pa.int32())]))),
        (pa.array([{"a": 1, "b": 2}]), pa.array([{"a": 2, "b": 1}])),
        (pa.array([Decimal("1.00")]), pa.array([Decimal("-1.00")])),
        (pa.array([2**62]), pa.array([-(2**62)])),
    ],
)  # fmt: skip
def test_values_that_are_easily_confused_differ(one: pa.Array, other: pa.Array) -> None:
    assert digest(pa.table({"c": one})) != digest(pa.table({"c": other}))


def test_values_that_change_columns_are_noticed() -> None:
    assert digest(pa.table({"a": [1], "b": [2]})) != digest(pa.table({"a": [2], "b": [1]}))


def test_sign_flips_in_two_columns_do_not_cancel() -> None:
    one, other = pa.table({"a": [1.5], "b": [2.5]}), pa.table({"a": [-1.5], "b": [-2.5]})
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["x", None, "y", "x"]), pa.array(["x", None, "y", "x"]).dictionary_encode()),
        (
            pa.array(["x", None]),
            pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array([None, "x"])),
        ),
        (pa.array(["x", "é" * 300]), pa.array(["x", "é" * 300], pa.large_string())),
        (pa.array(["x", "y"]), pa.array(["x", "y"], pa.string_view())),
        (pa.array(["x"]), pa.array([b"x"])),
        (pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float64())),
        (pa.array([[1]], pa.list_(pa.int32())), pa.array([[1]], pa.large_list(pa.int64()))),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.array([Decimal("1.5")], pa.decimal32(5, 1))),
    ],
)
def test_the_encoding_of_a_value_does_not_matter(one: pa.Array, other: pa.Array) -> None:
    assert digest(pa.table({"c": one})) == digest(pa.table({"c": other}))


def test_all_nans_are_one_value() -> None:
    odd = np.array([0x7FF0000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert digest(pa.table({"c": odd})) == digest(pa.table({"c": [math.nan, math.nan]}))


def test_values_hidden_below_a_null_do_not_count() -> None:
    mask = pa.array([True, False])
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), mask=mask)
    assert digest(pa.table({"c": hidden})) == digest(pa.table({"c": pa.array([None, [3]])}))


@settings(max_examples=20)
@given(start=st.integers(0, 200), length=st.integers(0, 100))
def test_a_slice_equals_its_copy(start: int, length: int) -> None:
    part = sample_rows(300, seed=4).slice(start, length)
    copy = pa.concat_tables([part]).take(pa.array(range(part.num_rows), pa.int64()))
    assert digest(part) == digest(copy)


def test_rows_beyond_one_slice_all_count() -> None:
    table = sample_rows(40_000, seed=7)
    whole, parts = RowChecksum(), RowChecksum()
    whole.update(table.combine_chunks())
    for batch in table.to_batches(max_chunksize=999):
        parts.update(batch)
    assert whole.rows == 40_000
    assert parts.hexdigest() == whole.hexdigest()
    assert digest(table.slice(0, 39_999)) != whole.hexdigest()


def test_a_fixed_size_list_is_cut_at_its_own_offset() -> None:
    kind = pa.list_(pa.int32(), 2)
    table = pa.table({"c": pa.array([[1, 2], None, [3, 4]], kind)})
    assert digest(table.slice(2)) == digest(pa.table({"c": pa.array([[3, 4]], kind)}))


def test_a_type_without_checksum_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="run_end_encoded"):
        digest(pa.table({"c": pa.RunEndEncodedArray.from_arrays(pa.array([2]), pa.array([1]))}))


def test_it_keeps_up_with_reading() -> None:
    table = sample_rows(100_000, seed=1).drop_columns(["tags", "scores", "place"])
    # bytes a second; measured at 500 to 750 million, machines differ
    assert table.nbytes / cpu_of(lambda: digest(table), times=3) > 75e6
