"""Random keys of deletes and of rows, and a plain model: a row is deleted if a later delete has its key."""

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.builders.tasks import field
from tidyberg.model.task import TaskInput

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.string(): st.sampled_from(["", "a", "b", "ä", "aa", "long text " * 40]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates().map(lambda day: day.replace(year=2020, month=1, day=1 + day.day % 3)),
    pa.timestamp("us", "UTC"): st.integers(-2, 2),
    pa.binary(): st.sampled_from([b"", b"ab", b"\x00\x00"]),
    pa.binary(16): st.sampled_from([b"0123456789abcdef", b"\x00" * 16]),
}
Row = tuple[Any, ...]
Files = list[tuple[int, list[Row]]]  # sequence number and rows of each file


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[pa.DataType], Files, Files]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | VALUES[kind] for kind in types))
    files = st.lists(st.tuples(st.integers(1, 4), st.lists(row, max_size=20)), min_size=1, max_size=3)
    return types, draw(files), draw(files)


def same(left: Any, right: Any) -> bool:
    """Compares like Java's boxed values: NaN equals NaN, and minus zero does not equal zero."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return (left is None) == (right is None) and bool(left == right)


def expected(deletes: Files, data: Files) -> dict[int, list[int]]:
    keys = [(sequence, key) for sequence, rows in deletes for key in rows]
    found = {
        number: [
            position
            for position, row in enumerate(rows)
            if any(later > sequence and all(map(same, row, key)) for later, key in keys)
        ]
        for number, (sequence, rows) in enumerate(data)
    }
    return {number: positions for number, positions in found.items() if positions}


def schema_of(types: Sequence[pa.DataType]) -> pa.Schema:
    return pa.schema([field(f"c{number}", kind, number + 1) for number, kind in enumerate(types)])


def write(directory: Path, name: str, types: Sequence[pa.DataType], files: Files) -> tuple[TaskInput, ...]:
    directory.mkdir(parents=True, exist_ok=True)
    schema = schema_of(types)
    inputs = []
    for number, (sequence, rows) in enumerate(files):
        path = directory / f"{name}-{number}.parquet"
        columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(types)]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, store_schema=False)
        inputs.append(TaskInput(str(path), path.stat().st_size, len(rows), sequence))
    return tuple(inputs)
