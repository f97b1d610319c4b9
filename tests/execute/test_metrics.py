"""Column metrics of outputs, compared with PyIceberg's encoding and with the values themselves [I9]."""

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Context, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.builders.tasks import STORAGE, field, make_task, write_file
from tidyberg.execute.kernel.columns.metrics import split_offsets
from tidyberg.execute.kernel.columns.single_values import encode, normalised, truncate_lower, truncate_upper
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.tasks.schemas import arrow_schema
from tidyberg.model.task import TaskResult, WriteSettings, WrittenFile

VALUES: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()),
    (DateType(), st.dates()),
    (TimeType(), st.times()),
    (TimestampType(), st.datetimes()),
    (TimestamptzType(), st.datetimes(timezones=st.just(dt.UTC))),
    (StringType(), st.text(max_size=24)),
    (BinaryType(), st.binary(max_size=24)),
    (FixedType(5), st.binary(min_size=5, max_size=5)),
    (UUIDType(), st.uuids()),
    (DecimalType(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (DecimalType(18, 3), st.decimals(-(10**14), 10**14, places=3)),
    (DecimalType(38, 4), st.decimals(-(10**33), 10**33, places=4)),
]


@pytest.fixture(name="directory")
def _directory() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def rewrite(table: pa.Table, directory: Path, mode: str = "full") -> TaskResult:
    file = write_file(directory / "in.parquet", table, store_decimal_as_integer=True)
    task = make_task([file], table.schema, directory / "out")
    modes = dict.fromkeys(task.write.metrics_modes, mode)
    # Several row groups, so that bounds are merged.
    settings = WriteSettings(metrics_modes=modes, row_group_rows=3)
    result = run_task(make_task([file], table.schema, directory / "out", write=settings), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result


def rewritten(table: pa.Table, directory: Path, mode: str = "full") -> WrittenFile:
    (output,) = rewrite(table, directory, mode).outputs
    return output


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@settings(max_examples=60)
@given(st.data())
def test_full_bounds_and_counts_are_those_of_the_values(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 8))
    columns = {
        identifier: (kind, data.draw(st.lists(st.none() | strategy, min_size=rows, max_size=rows)))
        for identifier, (kind, strategy) in enumerate(VALUES, start=1)
    }
    schema = Schema(
        *(NestedField(identifier, f"c{identifier}", kind, required=False) for identifier, (kind, _) in columns.items())
    )
    arrow = arrow_schema(schema)
    table = pa.table(
        [pa.array(values, arrow.field(i).type) for i, (_, values) in enumerate(columns.values())], schema=arrow
    )
    with TemporaryDirectory() as name:
        result = rewrite(table, Path(name))
        (output,) = result.outputs
        assert pq.ParquetFile(output.path).read().schema.types == arrow.types
    for identifier, (kind, values) in columns.items():
        present = [value for value in values if value is not None and not is_nan(value)]
        assert output.value_counts[identifier] == rows
        assert output.null_value_counts[identifier] == values.count(None)
        assert output.nan_value_counts.get(identifier, 0) == sum(map(is_nan, values))
        assert output.column_sizes[identifier] > 0
        if not present or any(map(is_nan, values)):  # to Spark NaN lies above every upper bound
            assert identifier not in output.lower_bounds
            assert identifier not in output.upper_bounds
            continue
        low, high = min(present, key=sort_key), max(present, key=sort_key)
        if isinstance(low, float):
            low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
        if isinstance(kind, DecimalType):
            low, high = (of_scale(value, kind.scale) for value in (low, high))
        assert output.lower_bounds[identifier] == to_bytes(kind, low)
        assert output.upper_bounds[identifier] == to_bytes(kind, high)
        facts = result.output_facts[identifier]
        assert (facts.values, facts.nulls) == (rows, values.count(None))
        assert (facts.lower, facts.upper) == (output.lower_bounds[identifier], output.upper_bounds[identifier])
        assert result.input_facts[identifier] == facts


def of_scale(value: Decimal, scale: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=40))


def sort_key(value: Any) -> Any:
    """Iceberg's order: text by code points is text by UTF-8 bytes, uuids by their bytes."""
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, UUID) else value


@given(st.text(min_size=1), st.integers(1, 8))
def test_truncated_text_bounds_enclose_the_value(text: str, length: int) -> None:
    value = text.encode()
    lower = truncate_lower(value, pa.string(), length)
    upper = truncate_upper(value, pa.string(), length)
    assert lower <= value
    assert text.startswith(lower.decode())
    assert len(lower.decode()) <= length
    if upper is not None:
        assert value <= upper
        assert len(upper.decode()) <= length
        if len(text) > length:
            assert upper > value[: len(upper)]
    else:
        assert set(text[:length]) == {"\U0010ffff"}


@given(st.binary(min_size=1), st.integers(1, 8))
def test_truncated_binary_bounds_enclose_the_value(value: bytes, length: int) -> None:
    assert truncate_lower(value, pa.binary(), length) == value[:length]
    upper = truncate_upper(value, pa.binary(), length)
    if upper is None:
        assert set(value[:length]) == {0xFF}
    else:
        assert value <= upper
        assert len(upper) <= length


def test_increment_skips_surrogates_and_carries() -> None:
    assert truncate_upper("a\ud7ffx".encode(), pa.string(), 2) == "a\ue000".encode()
    assert truncate_upper("a\U0010ffffx".encode(), pa.string(), 2) == b"b"
    assert truncate_upper("\U0010ffffx".encode(), pa.string(), 1) is None
    assert truncate_upper(b"a\xffx", pa.binary(), 2) == b"b"


@given(st.integers(-(10**37), 10**37))
def test_decimals_are_minimal_big_endian(unscaled: int) -> None:
    kind = DecimalType(38, 2)
    encoded = encode(unscaled, pa.decimal128(38, 2))
    assert encoded == to_bytes(kind, Decimal(unscaled).scaleb(-2, context=Context(prec=40)))
    assert int.from_bytes(encoded, "big", signed=True) == unscaled


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(3)", "full"])
def test_metrics_modes_are_honoured(mode: str, directory: Path) -> None:
    table = pa.table([pa.array(["abcdef", "abcxyz", None])], schema=pa.schema([field("c", pa.string(), 7)]))
    output = rewritten(table, directory, mode)
    assert (7 in output.column_sizes) == (mode != "none")
    assert output.value_counts == ({} if mode == "none" else {7: 3})
    assert output.null_value_counts == ({} if mode == "none" else {7: 1})
    lower = {"truncate(3)": {7: b"abc"}, "full": {7: b"abcdef"}}
    upper = {"truncate(3)": {7: b"abd"}, "full": {7: b"abcxyz"}}
    assert output.lower_bounds == lower.get(mode, {})
    assert output.upper_bounds == upper.get(mode, {})


def test_leaves_of_lists_have_sizes_only_and_leaves_of_structs_all(directory: Path) -> None:
    schema = arrow_schema(
        Schema(
            NestedField(
                1,
                "s",
                StructType(
                    NestedField(2, "x", DoubleType(), required=False),
                    NestedField(3, "y", IntegerType(), required=False),
                ),
                required=False,
            ),
            NestedField(4, "l", ListType(5, IntegerType(), element_required=False), required=False),
        )
    )
    rows = [{"s": {"x": math.nan, "y": 4}, "l": [1, 2]}, {"s": None, "l": None}, {"s": {"x": 1.5, "y": None}, "l": []}]
    output = rewritten(pa.Table.from_pylist(rows, schema=schema), directory)
    assert set(output.column_sizes) == {2, 3, 5}
    assert output.value_counts == {2: 3, 3: 3}
    assert output.null_value_counts == {2: 1, 3: 2}
    assert output.nan_value_counts == {2: 1}
    assert output.lower_bounds == {3: to_bytes(IntegerType(), 4)}  # none where there is NaN


def test_split_offsets_are_the_row_group_starts(directory: Path) -> None:
    schema = pa.schema([field("c", pa.int64(), 1)])
    output = rewritten(pa.table([pa.array(range(10))], schema=schema), directory)
    footer = pq.read_metadata(output.path)
    assert len(output.split_offsets) == footer.num_row_groups > 1
    assert output.split_offsets[0] == 4
    assert list(output.split_offsets) == sorted(set(output.split_offsets))
    assert output.size == Path(output.path).stat().st_size


def test_input_facts_follow_promotion_and_added_columns(directory: Path) -> None:
    old = pa.schema([field("a", pa.int32(), 1), field("t", pa.timestamp("ms"), 3)])
    new = pa.schema([field("a", pa.int64(), 1), field("b", pa.string(), 2), field("t", pa.timestamp("us"), 3)])
    table = pa.table([pa.array([-5, None, 9], pa.int32()), pa.array([1, 2, 3], pa.timestamp("ms"))], schema=old)
    file = write_file(directory / "in.parquet", table)
    result = run_task(make_task([file], new, directory / "out"), 0, STORAGE)
    assert isinstance(result, TaskResult)
    assert result.input_facts == result.output_facts
    facts = result.input_facts[1]
    assert (facts.values, facts.nulls) == (3, 1)
    assert (facts.lower, facts.upper) == (to_bytes(LongType(), -5), to_bytes(LongType(), 9))
    assert (result.input_facts[2].values, result.input_facts[2].nulls) == (3, 3)
    assert result.input_facts[3].upper == to_bytes(LongType(), 3000)


def test_inputs_without_statistics_have_no_bounds(directory: Path) -> None:
    schema = pa.schema([field("a", pa.int64(), 1)])
    file = write_file(directory / "in.parquet", pa.table([pa.array([1])], schema=schema), write_statistics=False)
    result = run_task(make_task([file], schema, directory / "out"), 0, STORAGE)
    assert isinstance(result, TaskResult)
    facts = result.input_facts[1]
    assert (facts.values, facts.nulls, facts.lower, facts.upper) == (1, None, None, None)


def test_every_iceberg_primitive_has_an_arrow_type() -> None:
    kinds: list[IcebergType] = [kind for kind, _ in VALUES]
    schema = arrow_schema(Schema(*(NestedField(i, f"c{i}", kind, required=True) for i, kind in enumerate(kinds, 1))))
    assert [column.nullable for column in schema] == [False] * len(kinds)


def test_nan_is_no_bound_and_zeros_cover_both_zeros() -> None:
    assert normalised(math.nan, lower=True) is None
    assert [str(normalised(zero, lower=True)) for zero in (0.0, -0.0)] == ["-0.0", "-0.0"]
    assert [str(normalised(zero, lower=False)) for zero in (0.0, -0.0)] == ["0.0", "0.0"]


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_row_group_starts_with_its_dictionary_where_it_has_one(tmp_path: Path, dictionary: bool) -> None:
    table = pa.table({"c": ["a", "b"] * 50})
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=50, use_dictionary=dictionary)
    first, second = split_offsets(pq.read_metadata(tmp_path / "file.parquet"))
    assert first == 4  # right behind the magic bytes
    assert second > first
