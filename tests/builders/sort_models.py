"""A slow, obvious model of the order of rows, and columns of every type to try it on."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import total_ordering
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.builders.tasks import field
from tidyberg.model.sort_key import SortField


@dataclass(frozen=True)
class Ordered:
    """A type with an order, values to draw from, and its transforms other than identity."""

    iceberg: IcebergType
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    transforms: tuple[str, ...] = ()

    def array(self, values: Sequence[Any]) -> pa.Array:
        kind = self.arrow
        if isinstance(kind, pa.BaseExtensionType):
            return pa.array([None if value is None else value.bytes for value in values], pa.binary(16)).cast(kind)
        if pa.types.is_date32(kind):
            return pa.array(values, pa.int32()).view(kind)
        if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
            return pa.array(values, pa.int64()).view(kind)
        return pa.array(values, kind)

    def transformed(self, value: Any, transform: str) -> Any:
        return value if transform == "identity" else parse_transform(transform).transform(self.iceberg)(value)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-3, 3)


def _floats(width: Literal[32, 64]) -> st.SearchStrategy[float]:
    special = st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1.0, -1.0])
    return special | st.floats(width=width)


# Bytes and strings that share long prefixes, differ late, or differ only in zero bytes at the end.
_BYTES = st.binary(max_size=20) | st.builds(
    lambda prefix, end: prefix * 9 + end, st.sampled_from([b"", b"https://", b"\x00\xff"]), st.binary(max_size=3)
)
_TEXTS = st.text(max_size=12) | st.builds(
    lambda prefix, end: prefix * 5 + end, st.sampled_from(["", "https://a.b/", "é"]), st.sampled_from("ab\x00€😀")
)
_TIMES = ("bucket[16]", "year", "month", "day", "hour")
_MICROS = st.integers(-(10**16), 10**16) | st.integers(-1, 1)

ORDERED: dict[str, Ordered] = {
    "boolean": Ordered(BooleanType(), pa.bool_(), st.booleans()),
    "int": Ordered(IntegerType(), pa.int32(), _integers(32), ("bucket[16]", "truncate[10]")),
    "long": Ordered(LongType(), pa.int64(), _integers(64), ("bucket[16]",)),
    "float": Ordered(FloatType(), pa.float32(), _floats(32)),
    "double": Ordered(DoubleType(), pa.float64(), _floats(64)),
    "decimal(9,2)": Ordered(
        DecimalType(9, 2), pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2), ("truncate[50]",)
    ),
    "decimal(38,10)": Ordered(
        DecimalType(38, 10),
        pa.decimal128(38, 10),
        st.decimals(Decimal("-9e26"), Decimal("9e26"), places=10)
        | st.sampled_from([Decimal("0E-10"), Decimal("-1.0000000000")]),
        ("bucket[8]",),
    ),
    "date": Ordered(DateType(), pa.date32(), st.integers(-700_000, 700_000), ("year", "month", "day")),
    "time": Ordered(TimeType(), pa.time64("us"), st.integers(0, 86_399_999_999), ("bucket[4]",)),
    "timestamp": Ordered(TimestampType(), pa.timestamp("us"), _MICROS, _TIMES),
    "timestamptz": Ordered(TimestamptzType(), pa.timestamp("us", tz="UTC"), _MICROS, _TIMES),
    "timestamp_ns": Ordered(TimestampNanoType(), pa.timestamp("ns"), _MICROS.map(lambda n: n * 900)),
    "string": Ordered(StringType(), pa.string(), _TEXTS, ("bucket[16]", "truncate[2]")),
    "binary": Ordered(BinaryType(), pa.binary(), _BYTES, ("truncate[2]",)),
    "fixed": Ordered(FixedType(3), pa.binary(3), st.binary(min_size=3, max_size=3)),
    "uuid": Ordered(UUIDType(), pa.uuid(), st.uuids() | st.just(UUID(int=0))),
}


@total_ordering
class _Reversed:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __lt__(self, other: "_Reversed") -> bool:
        return bool(other.value < self.value)


def model_key(kinds: Sequence[Ordered], fields: Sequence[SortField]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Returns the key function for `sorted`, of rows that are sequences of values."""

    def key(row: Sequence[Any]) -> tuple[Any, ...]:
        parts: list[tuple[int, Any]] = []
        for kind, one, value in zip(kinds, fields, row, strict=True):
            result = None if value is None else kind.transformed(value, one.transform)
            if result is None:
                parts.append((1 if one.nulls_last else 0, 0))
            else:
                found = _comparable(result)
                parts.append((0 if one.nulls_last else 1, _Reversed(found) if one.descending else found))
        return tuple(parts)

    return key


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1.0, value))
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, UUID) else value


@st.composite
def sort_fields(draw: st.DrawFn, kinds: Sequence[Ordered], first_id: int = 1) -> tuple[SortField, ...]:
    """Draws a direction, an order of nulls and a transform for each column."""
    return tuple(
        SortField(
            first_id + number,
            draw(st.sampled_from(("identity", *kind.transforms))),
            draw(st.booleans()),
            draw(st.booleans()),
        )
        for number, kind in enumerate(kinds)
    )


@st.composite
def rows_of(draw: st.DrawFn, kinds: Sequence[Ordered], max_size: int = 30) -> list[tuple[Any, ...]]:
    """Draws rows. Each column has few different values, so that there are ties, and may have nulls."""
    pools = [draw(st.lists(st.none() | kind.values, min_size=1, max_size=12)) for kind in kinds]
    return draw(st.lists(st.tuples(*map(st.sampled_from, pools)), max_size=max_size))


def table_of(rows: Sequence[Sequence[Any]], kinds: Sequence[Ordered], chunks: int = 1) -> pa.Table:
    """Returns the rows as a table with field ids from 1, in several chunks, each with an offset into its buffers."""
    schema = pa.schema([field(f"c{number}", kind.arrow, number + 1) for number, kind in enumerate(kinds)])
    columns = [kind.array([row[number] for row in rows]) for number, kind in enumerate(kinds)]
    table = pa.table(columns, schema=schema) if rows else schema.empty_table()
    size = max(1, -(-len(rows) // chunks))
    return pa.concat_tables([table.slice(start, size) for start in range(0, max(1, len(rows)), size)])
