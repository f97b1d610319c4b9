"""Hypothesis strategies for Arrow tables with random schemas."""

import datetime as dt
import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

from tests.builders.copy_tasks import write_files
from tests.builders.parquet_readers import is_readable
from tests.builders.tasks import field
from tidyberg.model.task import TaskInput

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)

PRIMITIVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.string(), st.one_of(TEXT, st.sampled_from(["a", "b", "long " * 20]))),
    (pa.binary(), st.binary(max_size=12)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(dt.date(1600, 1, 1), dt.date(2500, 1, 1))),
    (pa.timestamp("us"), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),  # noqa: DTZ001
    (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    (pa.decimal128(30, 4), st.decimals(-(10**20), 10**20, places=4).map(lambda d: decimal.Decimal(d))),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
]


@st.composite
def kinds(draw: st.DrawFn, ids: list[int], depth: int = 0) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """Draws a type, with new ids for its nested fields, and a strategy for its values."""
    shape = draw(st.sampled_from(["plain", "plain", "plain", "list", "struct", "map"] if depth < 2 else ["plain"]))
    if shape == "plain":
        chosen: tuple[pa.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(PRIMITIVES))
        return chosen
    if shape == "list":
        kind, values = draw(kinds(ids, depth + 1))
        return pa.list_(field("element", kind, _next(ids))), st.lists(st.none() | values, max_size=3)
    if shape == "map":
        kind, values = draw(kinds(ids, depth + 1))
        pairs = st.lists(st.tuples(TEXT, st.none() | values), max_size=2, unique_by=lambda pair: pair[0])
        key = field("key", pa.string(), _next(ids), nullable=False)
        return pa.map_(key, field("value", kind, _next(ids))), pairs
    members = [draw(kinds(ids, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
    fields = [field(f"m{number}", kind, _next(ids)) for number, (kind, _) in enumerate(members)]
    values = st.fixed_dictionaries({f"m{number}": st.none() | each for number, (_, each) in enumerate(members)})
    return pa.struct(fields), values


def _next(ids: list[int]) -> int:
    ids.append(len(ids) + 100)
    return ids[-1]


@st.composite
def files(draw: st.DrawFn) -> list[pa.Table]:
    ids: list[int] = []
    columns = [draw(kinds(ids)) for _ in range(draw(st.integers(1, 4)))]
    schema = pa.schema(
        [field("id", pa.int64(), 1, nullable=False)]
        + [field(f"c{number}", kind, number + 2) for number, (kind, _) in enumerate(columns)]
    )
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        # A few values over and over: enough rows for several pages without drawing each.
        count = draw(st.integers(0, 60))
        arrays = [pa.array(range(count), pa.int64())]
        for kind, values in columns:
            drawn = draw(st.lists(st.none() | values, min_size=1, max_size=8))
            arrays.append(pa.array([drawn[number % len(drawn)] for number in range(count)], kind))
        tables.append(pa.table(arrays, schema=schema))
    return tables


def write_each(directory: Path, tables: Sequence[pa.Table], options: Sequence[dict[str, Any]]) -> list[TaskInput]:
    """Writes one file per table, each with its own options. Rejects examples that Arrow itself cannot read back."""
    inputs = [
        file
        for number, table in enumerate(tables)
        for file in write_files(directory / str(number), [table], **options[number])
    ]
    # Arrow cannot read some of its pages of version 2 with lists of booleans.
    assume(all(is_readable(file.path) for file in inputs))
    return inputs
