"""The contents of the tables of the matrix: for each shape a schema, and the rows of every file."""

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

ROWS = 240  # of a file: row groups have 100 and pages 50, where a writer lets one say so
NOT_UTF8 = b"\xff\xfe\x00"


@dataclass(frozen=True)
class Shape:
    """The contents of a table. Every table has a column `id` with unique values."""

    name: str
    columns: tuple[tuple[str, pa.DataType], ...]
    row: Callable[[int], dict[str, Any]]  # by number; the id is added
    sizes: tuple[int, ...] = (ROWS, ROWS, ROWS)  # rows of each file
    format_version: int = 2  # at least
    row_group_rows: int = 100
    nested: bool = False
    spark: bool = True  # has only types that Spark knows
    filtered: int = 64  # columns that filters are tried on
    required: bool = False  # the id, which only some writers can say

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [pa.field("id", pa.int64(), nullable=not self.required), *(pa.field(*one) for one in self.columns)]
        )

    def files(self) -> Iterator[pa.Table]:
        first = 0
        for size in self.sizes:
            rows = [{"id": number} | self.row(number) for number in range(first, first + size)]
            yield pa.Table.from_pylist(rows, schema=self.schema)
            first += size

    def __str__(self) -> str:
        return self.name


def _left_out(row: dict[str, Any], number: int, every: int = 7) -> dict[str, Any]:
    """Inserts nulls, in different rows of each column."""
    return {name: None if (number + place) % every == 0 else value for place, (name, value) in enumerate(row.items())}


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (Iceberg's timestamps without a zone)

PRIMITIVES: tuple[tuple[str, pa.DataType], ...] = (
    ("flag", pa.bool_()),
    ("small", pa.int32()),
    ("large", pa.int64()),
    ("weight", pa.float32()),
    ("ratio", pa.float64()),
    ("day", pa.date32()),
    ("at", pa.timestamp("us")),
    ("zoned", pa.timestamp("us", tz="UTC")),
    ("name", pa.string()),
    ("raw", pa.binary()),
    ("cents", pa.decimal128(9, 2)),
    ("price", pa.decimal128(20, 4)),
)
_CLOCK_AND_KEY: tuple[tuple[str, pa.DataType], ...] = (("clock", pa.time64("us")), ("key", pa.uuid()))
_FIXED: tuple[tuple[str, pa.DataType], ...] = (("fixed", pa.binary(5)),)


def _primitive(number: int) -> dict[str, Any]:
    moment = _EPOCH + dt.timedelta(days=number * 37 - 4000, microseconds=number * 1001)
    return {
        "flag": number % 3 == 0,
        "small": number - 300,
        "large": (number - 300) * 2**40,
        "weight": number / 4 - 50,
        "ratio": (number - 300) / 7,
        "day": moment.date(),
        "at": moment,
        "zoned": moment.replace(tzinfo=dt.UTC),
        "name": f"näme {number % 60:03}",
        "raw": (number * 77 % 65536).to_bytes(2, "big") + NOT_UTF8[: number % 4],
        "cents": decimal.Decimal(number - 300) / 4,
        "price": decimal.Decimal(number - 300) * 12345678901 / 10000,
    }


def _clock_and_key(number: int) -> dict[str, Any]:
    return {
        "clock": dt.time(number % 24, number % 60, number % 59, number),
        "key": uuid.UUID(int=number * 2**120 // 720 + number).bytes,
    }


def _fixed(number: int) -> dict[str, Any]:
    return {"fixed": (number * 7919 % 2**40).to_bytes(5, "big")}


# Runs of them are longer than a page, so that pages differ in what they hold.
_FLOATS = (math.nan, -0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, 1e-40, 3.0)


def _floats(number: int) -> dict[str, Any]:
    run = _FLOATS[number // 40 % len(_FLOATS)]
    zeros = (0.0, -0.0)[number // 30 % 2]
    return {
        "runs": run,
        "narrow": run,
        "mixed": _FLOATS[number % len(_FLOATS)],
        "zeros": zeros,
        "negative_zero": -0.0,
        "narrow_zeros": zeros,
        "only_nan": math.nan,
        "nan_or_null": None if number % 2 else math.nan,
        "late_nan": math.nan if number % 100 == 99 else float(number),
        "nullable": None if number // 60 % 2 else run,
        "inside": {"x": run},
    }


def _texts(number: int) -> dict[str, Any]:
    prefix = "p" * 70  # longer than what writers cut bounds to
    return {
        "empty": "" if number % 2 else None,
        "sometimes": ("", "a", "é", "\U0001f600", "\uffff", "z" * 20)[number // 30 % 6],
        "prefixed": prefix + f"{number:05}",
        "highest": "\U0010ffff" * 20 + str(number % 9),
        "huge": chr(97 + number % 26) * (3000 if number % 40 == 0 else 5),
        "bytes": b"\xff" * (70 + number % 3),
        "raw": bytes([number % 256]) * (number % 5),
        "word": f"word {number % 11}" if number < 300 else f"another {number}",
    }


PRECISIONS = (5, 7, 9, 10, 12, 18, 19, 23, 28, 33, 38)


def _decimals(number: int) -> dict[str, Any]:
    with decimal.localcontext(prec=60):
        found = {}
        for precision in PRECISIONS:
            scale = min(precision, 4)
            digits = 10**precision - 1
            unscaled = (digits, -digits, 0, number, -number, number * digits // 720)[number % 6]
            found[f"d{precision}"] = decimal.Decimal(unscaled).scaleb(-scale)
        return _left_out(found, number)


_INNERMOST = pa.map_(pa.string(), pa.struct([pa.field("n", pa.int32()), pa.field("t", pa.list_(pa.string()))]))
_NESTED: tuple[tuple[str, pa.DataType], ...] = (
    ("tags", pa.list_(pa.field("element", pa.string()))),
    ("place", pa.struct([pa.field("x", pa.int64()), pa.field("deep", pa.struct([pa.field("label", pa.string())]))])),
    ("counts", pa.map_(pa.string(), pa.int64())),
    ("lists", pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float64()))))),
    ("deep", pa.list_(pa.field("element", pa.struct([pa.field("a", pa.int32()), pa.field("m", _INNERMOST)])))),
    ("holder", pa.struct([pa.field("items", pa.list_(pa.field("element", pa.decimal128(12, 3))))])),
)


def _nested(number: int) -> dict[str, Any]:
    innermost: list[tuple[str, Any]] = [
        ("k", {"n": number, "t": ["x", None]}),
        ("l", None),
        ("m", {"n": None, "t": []}),
    ][: number % 4]
    return _left_out(
        {
            "tags": [None, "", "tag", f"t{number}"][: number % 5],
            "place": {"x": number if number % 4 else None, "deep": {"label": f"l{number % 9}"} if number % 3 else None},
            "counts": [("a", number), ("b", None)][: number % 3],
            "lists": [[number / 2, None], [], None][: number % 4],
            "deep": [{"a": number, "m": innermost}, None, {"a": None, "m": None}][: number % 4],
            "holder": {"items": [decimal.Decimal(number) / 8, None][: number % 3]},
        },
        number,
    )


def _all_null(number: int) -> dict[str, Any]:
    """Columns of every type, with values only in the middle of the second file."""
    values = _primitive(number)
    full = ROWS + 60 <= number < ROWS + 170
    return {name: values[name] if full else None for name, _ in PRIMITIVES} | {"never": None, "never_text": None}


def _wide(number: int) -> dict[str, Any]:
    return {
        f"c{column}": None
        if (number + column) % 13 == 0
        else (number * column, f"v{number % 5}", number / 8)[column % 3]
        for column in range(200)
    }


def _several(number: int) -> dict[str, Any]:
    return _left_out(
        {"small": number % 40, "name": f"n{number % 25}", "ratio": number / 3, "large": number * 2**33}, number
    )


_SEVERAL = (("small", pa.int32()), ("name", pa.string()), ("ratio", pa.float64()), ("large", pa.int64()))


def _nanoseconds(number: int) -> dict[str, Any]:
    return _left_out(
        {"at": (number - 300) * 10**15 + number, "zoned": number * 10**9 + 7, "name": f"n{number}"}, number
    )


PRIMITIVE = Shape("primitives", PRIMITIVES, lambda number: _left_out(_primitive(number), number))
EVERY_TYPE = Shape(
    "every-type",
    PRIMITIVES + _CLOCK_AND_KEY + _FIXED,
    lambda number: _left_out(_primitive(number) | _clock_and_key(number) | _fixed(number), number),
    spark=False,
)
TIMES_AND_UUIDS = Shape(
    "times-and-uuids", _CLOCK_AND_KEY, lambda number: _left_out(_clock_and_key(number), number), spark=False
)
REQUIRED = Shape("no-nulls", PRIMITIVES, _primitive, required=True)
ALL_NULL = Shape("all-null", (*PRIMITIVES, ("never", pa.int64()), ("never_text", pa.string())), _all_null)
EQUAL_OR_NAN = Shape("equal-or-nan", (("ratio", pa.float64()),), lambda number: {"ratio": (3.0, math.nan)[number % 2]})
# As Java's writer has them; Iceberg's schemas say so too.
REQUIRED_MEMBER = Shape(
    "required-member",
    (("place", pa.struct([pa.field("x", pa.int32(), nullable=False)])),),
    lambda number: {"place": {"x": number} if number % 3 else None},
)
FLOATS = Shape(
    "floats",
    (
        ("runs", pa.float64()),
        ("narrow", pa.float32()),
        ("mixed", pa.float64()),
        ("zeros", pa.float64()),
        ("negative_zero", pa.float64()),
        ("narrow_zeros", pa.float32()),
        ("only_nan", pa.float64()),
        ("nan_or_null", pa.float32()),
        ("late_nan", pa.float64()),
        ("nullable", pa.float64()),
        ("inside", pa.struct([pa.field("x", pa.float64())])),
    ),
    _floats,
)
TEXTS = Shape(
    "texts",
    (
        ("empty", pa.string()),
        ("sometimes", pa.string()),
        ("prefixed", pa.string()),
        ("highest", pa.string()),
        ("huge", pa.string()),
        ("bytes", pa.binary()),
        ("raw", pa.binary()),
        ("word", pa.string()),
    ),
    _texts,
)
DECIMALS = Shape(
    "decimals",
    tuple((f"d{precision}", pa.decimal128(precision, min(precision, 4))) for precision in PRECISIONS),
    _decimals,
)
NESTED = Shape("nested", _NESTED, _nested, nested=True)
# Writers name the inside of maps differently.
LISTS = Shape(
    "lists",
    tuple(one for one in _NESTED if one[0] not in ("counts", "deep")),
    lambda number: {name: value for name, value in _nested(number).items() if name not in ("counts", "deep")},
    nested=True,
)
UNEVEN = Shape("one-and-no-rows", _SEVERAL, _several, sizes=(1, 0, 150, 1, 0, 1))
GROUPS = Shape("many-row-groups", _SEVERAL, _several, row_group_rows=20)
WIDE = Shape(
    "wide",
    tuple((f"c{column}", (pa.int64(), pa.string(), pa.float64())[column % 3]) for column in range(200)),
    _wide,
    sizes=(30, 30),
    filtered=6,
)
TINY = Shape("tiny", _SEVERAL, _several, sizes=(5,) * 60)
TINIEST = Shape("thousands-of-tiny-files", _SEVERAL, _several, sizes=(3,) * 2000)
NANOSECONDS = Shape(
    "nanoseconds",
    (("at", pa.timestamp("ns")), ("zoned", pa.timestamp("ns", tz="UTC")), ("name", pa.string())),
    _nanoseconds,
    format_version=3,
    spark=False,
)
SHAPES: Sequence[Shape] = (
    PRIMITIVE,
    EVERY_TYPE,
    TIMES_AND_UUIDS,
    REQUIRED,
    ALL_NULL,
    FLOATS,
    TEXTS,
    DECIMALS,
    NESTED,
    LISTS,
    UNEVEN,
    GROUPS,
    WIDE,
    TINY,
    NANOSECONDS,
)
