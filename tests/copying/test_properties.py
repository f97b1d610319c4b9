"""Random files are copied: every reader finds the same rows, and every offset is right."""

import datetime as dt
import decimal
import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.copying.pages import check_offsets
from tests.copying.tables import copy, read_back, write_files
from tests.execute.builders import field

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
    """A type with ids of its own for what is inside, and values of it."""
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


options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
        "use_dictionary": st.booleans(),
        "write_page_index": st.booleans(),
        "write_statistics": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([7, 20, 1000]),
        "data_page_size": st.sampled_from([10, 1 << 20]),
        "max_rows_per_page": st.sampled_from([5, 1000]),
        "store_schema": st.booleans(),
        "write_page_checksum": st.booleans(),
        "bloom_filter_options": st.sampled_from([None, {"id": {"ndv": 20, "fpp": 0.1}}]),
    }
)


@settings(max_examples=60, deadline=None)
@given(files(), st.lists(options, min_size=4, max_size=4), st.integers(1, 3))
def test_copies_of_random_files_have_the_same_rows(
    tables: list[pa.Table], how: list[dict[str, Any]], outputs: int
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="tidyberg-copy-"))
    try:
        inputs = [
            file
            for number, table in enumerate(tables)
            for file in write_files(directory / str(number), [table], **how[number])
        ]
        # Arrow itself cannot read some of its pages of version 2 with lists of booleans.
        assume(all(is_readable(file.path) for file in inputs))
        schema = tables[0].schema
        result = copy(inputs, directory / "out", schema, outputs=outputs)
        assert (result.mode, result.mode_reason) == ("copy", "")
        expected = pa.concat_tables(tables)
        assert result.rows_read == result.rows_written == expected.num_rows
        if not expected.num_rows:
            assert result.outputs == ()
            return
        # As text, for NaN equals nothing.
        assert repr(read_back(result, schema).to_pylist()) == repr(expected.to_pylist())
        for output in result.outputs:
            check_offsets(Path(output.path))
        assert by_duckdb([output.path for output in result.outputs]) == by_duckdb([file.path for file in inputs])
    finally:
        shutil.rmtree(directory)


def is_readable(path: str) -> bool:
    try:
        pq.read_table(path)
    except pa.ArrowInvalid:
        return False
    return True


def by_duckdb(paths: list[str]) -> list[str]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT * FROM read_parquet(?)", [paths]).fetchall()
        even = connection.execute("SELECT count(*) FROM read_parquet(?) WHERE id = 17", [paths]).fetchall()
    return sorted(map(repr, [*found, *even]))
