"""Random schemas and rows. Hypothesis draws the schema; the values come from a seed, which is faster."""

import datetime as dt
import decimal
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.builders.tasks import field

Make = Callable[[random.Random], Any]

_WORDS = ["", "a", "b", "näme", "x" * 40, "long " * 30, "\U0010ffff" * 9, "zz", "é", "\x00\x7f"]
_FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e-30, 3.0]


def _decimal(precision: int, scale: int) -> Make:
    def make(rng: random.Random) -> decimal.Decimal:
        digits = 10 ** rng.choice([1, precision // 2, precision])
        return decimal.Decimal(rng.randrange(1 - digits, digits)).scaleb(-scale, decimal.Context(prec=60))

    return make


def _moment(rng: random.Random) -> dt.datetime:
    past = rng.randrange(-(10**15), 10**15)
    return dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=past)  # noqa: DTZ001 - a time without a zone


def _whole(bits: int) -> Make:
    return lambda rng: rng.choice([0, -1, 1, 7, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), rng.randrange(1000)])


# Types that every writer keeps as they are, and all others.
_SIMPLE: list[tuple[pa.DataType, Make]] = [
    (pa.int32(), _whole(32)),
    (pa.int64(), _whole(64)),
    (pa.string(), lambda rng: rng.choice(_WORDS) + rng.choice(["", str(rng.randrange(100))])),
    (pa.binary(), lambda rng: rng.randbytes(rng.choice([0, 1, 5, 60]))),
    (pa.float64(), lambda rng: rng.choice([*_FLOATS, rng.random()])),
    (pa.float32(), lambda rng: rng.choice(_FLOATS[:7])),
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.date32(), lambda rng: dt.date(1970, 1, 1) + dt.timedelta(rng.randrange(-90000, 90000))),
    (pa.timestamp("us"), _moment),
]
_OTHER: list[tuple[pa.DataType, Make]] = [
    (pa.timestamp("us", tz="UTC"), lambda rng: _moment(rng).replace(tzinfo=dt.UTC)),
    (pa.timestamp("ns"), lambda rng: rng.randrange(-(10**18), 10**18)),
    (pa.time64("us"), lambda rng: dt.time(rng.randrange(24), rng.randrange(60), 7, rng.randrange(10**6))),
    (pa.decimal128(5, 2), _decimal(5, 2)),
    (pa.decimal128(9, 0), _decimal(9, 0)),
    (pa.decimal128(18, 6), _decimal(18, 6)),
    (pa.decimal128(30, 4), _decimal(30, 4)),
    (pa.decimal128(38, 10), _decimal(38, 10)),
    (pa.binary(3), lambda rng: rng.randbytes(3)),
    (pa.binary(16), lambda rng: rng.randbytes(16)),
    (pa.uuid(), lambda rng: uuid.UUID(bytes=rng.randbytes(16)).bytes),
]


@dataclass(frozen=True)
class Kind:
    type: pa.DataType
    make: Make


@dataclass(frozen=True)
class Shape:
    """A schema whose first column numbers the rows, and generators for the values of the others."""

    schema: pa.Schema
    makes: tuple[Make, ...]
    is_simple: bool  # every writer can write it

    def table(self, rng: random.Random, first: int, rows: int) -> pa.Table:
        arrays = [pa.array(range(first, first + rows), pa.int64())]
        for column, make in zip(list(self.schema)[1:], self.makes, strict=True):
            # A few values over and over: enough rows for several pages and dictionaries.
            pool = [make(rng) for _ in range(rng.choice([1, 3, 12]))]
            order = rng.random() < 0.2
            chosen = [pool[rng.randrange(len(pool))] for _ in range(rows)]
            arrays.append(pa.array(sorted(chosen, key=repr) if order else chosen, column.type))
        return pa.table(arrays, schema=self.schema)


def _maybe(make: Make, nullable: bool, share: float) -> Make:
    if not nullable:
        return make
    return lambda rng: None if rng.random() < share else make(rng)


@st.composite
def shapes(draw: st.DrawFn, *, lists: bool = True) -> Shape:
    simple = draw(st.booleans())
    ids = iter(range(2, 1000))

    def named(name: str | None, kind: Kind) -> tuple[pa.Field, Make]:
        nullable = simple or draw(st.sampled_from([True, True, True, False]))
        identifier = next(ids)
        share = draw(st.sampled_from([0.0, 0.2, 1.0]))
        return field(name or f"f{identifier}", kind.type, identifier, nullable), _maybe(kind.make, nullable, share)

    def kind(depth: int) -> Kind:
        plain = ["plain"] * 4 + (["struct"] if not simple or depth == 0 else [])
        shape = draw(
            st.sampled_from([*plain, *(["list", "map"] if lists and not simple else [])] if depth < 3 else ["plain"])
        )
        if shape == "list":
            element, make = named("element", kind(depth + 1))
            return Kind(pa.list_(element), lambda rng: [make(rng) for _ in range(rng.choice([0, 1, 1, 4]))])
        if shape == "map":
            key = field("key", pa.string(), next(ids), nullable=False)
            value, make = named("value", kind(depth + 1))
            return Kind(pa.map_(key, value), lambda rng: [(f"k{n}", make(rng)) for n in range(rng.choice([0, 1, 3]))])
        if shape == "struct":
            members = [named(None, kind(depth + 1)) for _ in range(draw(st.integers(1, 3)))]
            fields, makes = [one for one, _ in members], {one.name: make for one, make in members}
            return Kind(pa.struct(fields), lambda rng: {name: make(rng) for name, make in makes.items()})
        others = _OTHER if depth == 0 else _OTHER[:-1]  # Arrow makes no nested arrays of extension types
        return Kind(*draw(st.sampled_from(_SIMPLE if simple else _SIMPLE + others)))

    columns = [named(None, kind(0)) for _ in range(draw(st.integers(1, 4)))]
    schema = pa.schema([field("id", pa.int64(), 1, nullable=False), *(column for column, _ in columns)])
    return Shape(schema, tuple(make for _, make in columns), simple)
