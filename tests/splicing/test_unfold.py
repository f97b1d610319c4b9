"""Dictionaries that list a column's values one by one become data pages; all others are decoded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.builders.page_offsets import check_offsets
from tests.builders.splice_tasks import assert_alike, both, moved_columns, rows_of, small_files_count
from tests.builders.tasks import field, write_file
from tidyberg.execute.kernel.read.source import open_source
from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.levels import counts_up, decode_levels, encode_levels

SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1, nullable=False),
        field("key", pa.string(), 2),
        field("ratio", pa.float64(), 3),
        field("place", pa.struct([field("x", pa.int32(), 5, nullable=False), field("y", pa.int64(), 6)]), 4),
        field("kind", pa.string(), 7),
    ]
)
COUNT = 25_000


def unique_rows(first: int, count: int = COUNT) -> pa.Table:
    """Values that never come twice, but for `kind`; the first tenth has no `key`, the last no `place`."""
    numbers = np.arange(first, first + count)
    absent = numbers - first < count // 10
    place = pa.StructArray.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(numbers * 7, pa.int64(), mask=numbers % count == 5)],
        fields=list(SCHEMA.field("place").type),
        mask=pa.array(absent[::-1]),
    )
    return pa.table(
        {
            "id": numbers,
            "key": pa.array([f"key {number * 7919 % 1_000_003:07d}" for number in numbers], mask=absent),
            "ratio": numbers / 3,
            "place": place,
            "kind": np.array([f"kind {n}" for n in range(7)])[np.random.default_rng(first).integers(0, 7, count)],
        },
        schema=SCHEMA,
    )


def files_of(directory: Path, tables: list[pa.Table], **options: Any) -> list[TaskInput]:
    chosen = {"compression": "zstd", **options}
    return [write_file(directory / f"{number}.parquet", table, **chosen) for number, table in enumerate(tables)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_page_version": "2.0"},
        {"max_rows_per_page": 6_000},
        {"dictionary_pagesize_limit": 40_000},  # the other rows of a file are plain pages
        {"dictionary_pagesize_limit": 40_000, "data_page_version": "2.0"},
        {"row_group_size": 13_001},
        {"write_page_index": True},
        {"write_page_checksum": True},
        {"compression": "snappy"},
        {"compression": "gzip"},
        {"compression": "brotli"},
        {"compression": "lz4"},
        {"compression": "none"},
    ],
    ids=str,
)
def test_dictionaries_of_values_that_come_once_become_pages(tmp_path: Path, options: dict[str, Any]) -> None:
    tables = [unique_rows(number * COUNT) for number in range(3)]
    inputs = files_of(tmp_path, tables, **options)
    compression = options.get("compression", "zstd").replace("none", "uncompressed")
    spliced, encoded = both(inputs, tmp_path, SCHEMA, write={"dictionary": True, "compression": compression})
    assert moved_columns(spliced) - {"ratio"} == {"id", "key", "place.x", "place.y"}
    assert spliced.bytes_spliced > 0.3 * sum(file.size for file in inputs)
    assert_alike(spliced, encoded)
    assert rows_of(spliced).cast(SCHEMA).equals(pa.concat_tables(tables))
    (path,) = [output.path for output in spliced.outputs]
    check_offsets(Path(path))
    group = pq.read_metadata(path).row_group(0)
    assert all(group.column(index).has_column_index for index in range(group.num_columns))
    assert _by_duckdb(path) == _by_duckdb(encoded.outputs[0].path)
    assert polars.read_parquet(path).equals(polars.read_parquet(encoded.outputs[0].path))


def _by_duckdb(path: str) -> list[Any]:
    with duckdb.connect() as connection:
        return [
            connection.execute(f"SELECT {what} FROM read_parquet(?) {where}", [path]).fetchall()
            for what, where in (
                ("count(*), sum(id), count(key), min(key), sum(ratio), sum(place.x), count(place.y)", ""),
                ("*", f"WHERE id BETWEEN {COUNT - 3} AND {COUNT + 3} ORDER BY id"),
                ("id", "WHERE key IS NULL AND id % 1000 = 0 ORDER BY id"),
            )
        ]


def _with(column: str, values: Callable[[pa.Array], pa.Array]) -> pa.Table:
    table = unique_rows(0)
    position = table.schema.get_field_index(column)
    changed = values(table.column(column).combine_chunks())
    return table.set_column(position, SCHEMA.field(column).with_type(changed.type), changed)


def _second_again(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values[:20_000], values[1:2], values[20_001:]])


def _scattered(values: pa.Array) -> pa.Array:
    return pa.array(values.to_pylist(), values.type, mask=np.random.default_rng(3).random(len(values)) < 0.3)


def _in_another_order(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values) - 1, -1, -1), pa.int32()), values[::-1])


def _with_one_too_many(values: pa.Array) -> pa.Array:
    more = pa.concat_arrays([values, pa.array(["never used"])])
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), more)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", _second_again),
        ("key", _second_again),
        ("key", _scattered),
        ("key", lambda values: _in_another_order(values.fill_null("none"))),
        ("key", lambda values: _with_one_too_many(values[::-1].fill_null("none"))),
    ],
    ids=["a number twice", "a text twice", "nulls everywhere", "in another order", "an entry too many"],
)
def test_other_dictionaries_are_decoded(tmp_path: Path, column: str, values: Callable[[pa.Array], pa.Array]) -> None:
    table = _with(column, values)
    inputs = files_of(tmp_path, [table, unique_rows(COUNT)], dictionary_pagesize_limit=4 << 20)
    with small_files_count():
        spliced, encoded = both(inputs, tmp_path, SCHEMA)
    assert spliced.bytes_spliced > 0
    stored = pq.read_metadata(inputs[1].path).row_group(0)
    others = [stored.column(index) for index in range(5) if stored.column(index).path_in_schema != column]
    assert spliced.bytes_spliced < 2 * sum(chunk.total_compressed_size for chunk in others)
    assert_alike(spliced, encoded)
    assert rows_of(spliced).equals(rows_of(encoded))
    assert rows_of(spliced).column(column).to_pylist()[:COUNT] == table.column(column).to_pylist()


def test_floats_with_a_dictionary_are_decoded(tmp_path: Path) -> None:
    """Their NaN must be counted, so they are decoded anyway."""
    schema = pa.schema([SCHEMA.field("ratio")])
    inputs = files_of(tmp_path, [unique_rows(0).select(["ratio"])])
    assert both(inputs, tmp_path, schema)[0].bytes_spliced == 0


def test_pages_without_an_index_get_the_bounds_of_their_chunk(tmp_path: Path) -> None:
    tables = [unique_rows(number * COUNT) for number in range(3)]
    inputs = files_of(tmp_path, tables, use_dictionary=False, max_rows_per_page=9_000)
    spliced, _ = both(inputs, tmp_path, SCHEMA)
    group = pq.read_metadata(spliced.outputs[0].path).row_group(0)
    without = [i for i in range(group.num_columns) if not group.column(i).has_column_index]
    assert [group.column(index).path_in_schema for index in without] == ["ratio"]  # there may be NaN
    source = open_source(
        TaskInput(spliced.outputs[0].path, spliced.outputs[0].size, 3 * COUNT),
        lambda path, offset, length: Path(path).read_bytes()[offset : offset + length],
    )
    index = source.column_index(source.footer.row_groups[0].chunks[0])
    assert index is not None
    firsts = [int.from_bytes(bound, "little") for bound in index[2][1].items]
    lasts = [int.from_bytes(bound, "little") for bound in index[3][1].items]
    assert firsts == [number * COUNT for number in range(3) for _ in range(3)]
    assert lasts == [number * COUNT + COUNT - 1 for number in range(3) for _ in range(3)]


def test_a_later_file_with_other_dictionaries_is_encoded_plain(tmp_path: Path) -> None:
    tables = [unique_rows(0), *(_with(column, _second_again).cast(SCHEMA) for column in ("id", "key"))]
    with small_files_count():
        spliced, encoded = both(files_of(tmp_path, tables), tmp_path, SCHEMA)
    assert moved_columns(spliced) >= {"id", "key"}
    assert_alike(spliced, encoded)
    assert rows_of(spliced).cast(SCHEMA).equals(pa.concat_tables(tables))


VALUES = st.lists(st.integers(0, 60), min_size=1, max_size=80)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_columns_are_spliced_as_they_are_encoded(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    directory = tmp_path_factory.mktemp("unfold")
    schema = pa.schema([field("id", pa.int64(), 1), field("text", pa.string(), 2)])
    tables = []
    for _ in range(data.draw(st.integers(1, 3))):
        ids = data.draw(VALUES | st.lists(st.integers(0, 10**6), min_size=1, max_size=80, unique=True))
        absent = data.draw(st.sampled_from([lambda n: False, lambda n: n < 9, lambda n: n % 9 == 4, lambda n: True]))
        texts = [None if absent(number) else f"text {value}" for number, value in enumerate(ids)]
        tables.append(pa.table({"id": ids, "text": texts}, schema=schema))
    inputs = files_of(
        directory,
        tables,
        dictionary_pagesize_limit=data.draw(st.sampled_from([100, 1 << 20])),
        max_rows_per_page=data.draw(st.sampled_from([3, 8, 1000])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        row_group_size=data.draw(st.sampled_from([7, 50, 1000])),
        write_page_index=data.draw(st.booleans()),
    )
    with small_files_count():
        spliced, encoded = both(inputs, directory, schema)
    event(f"spliced: {spliced.bytes_spliced > 0}")
    assert_alike(spliced, encoded)
    assert rows_of(spliced).cast(schema).equals(pa.concat_tables(tables))
    check_offsets(Path(spliced.outputs[0].path))


def _spelled(numbers: list[int], width: int) -> bytes:
    """Packed bits, a group of eight after the other, each a run of its own."""
    out = bytearray()
    for start in range(0, len(numbers), 8):
        group = numbers[start : start + 8]
        out.append(3)
        out += sum(number << position * width for position, number in enumerate(group)).to_bytes(width, "little")
    return bytes(out)


@given(st.integers(1, 20), st.data())
def test_indices_count_up_or_do_not(width: int, data: Any) -> None:
    first = data.draw(st.integers(0, (1 << width) - 1))
    count = data.draw(st.integers(1, min(70, (1 << width) - first)))
    numbers = list(range(first, first + count))
    assert counts_up(bytes([width]) + _spelled(numbers, width), first, count)
    wrong = data.draw(st.integers(0, count - 1))
    numbers[wrong] ^= 1 << data.draw(st.integers(0, width - 1))
    assert not counts_up(bytes([width]) + _spelled(numbers, width), first, count)
    assert not counts_up(bytes([width]) + _spelled(numbers[:wrong], width), first, count + 8)


@given(st.integers(1, 5), st.data())
def test_levels_of_pages_are_joined(most: int, data: Any) -> None:
    pages = data.draw(st.lists(st.lists(st.integers(0, most) | st.just(most), max_size=90), min_size=1, max_size=4))
    width = most.bit_length()
    decoded = [decode_levels(_spelled(page, width), len(page), most) for page in pages]
    assert [page.present for page in decoded] == [page.count(most) for page in pages]
    joined = [level for page in pages for level in page]
    again = decode_levels(encode_levels(decoded, most), len(joined), most)
    assert (again.values, again.present) == (len(joined), joined.count(most))
    assert (again.each is None) == (set(joined) <= {most})
    if again.each is not None:
        assert again.each.tolist() == joined


def test_levels_that_cannot_be_are_refused() -> None:
    assert decode_levels(bytes([40, 1]), 20, 1).each is None  # twenty times 1
    with pytest.raises(CannotCopy, match="fewer levels"):
        decode_levels(bytes([38, 0]), 20, 1)
    with pytest.raises(CannotCopy, match="invalid levels"):
        decode_levels(_spelled([3, 1], 2), 2, 2)
    with pytest.raises(CannotCopy, match="too early"):
        decode_levels(_spelled([0, 1], 1)[:-1], 2, 1)
    with pytest.raises(CannotCopy, match="too early"):
        decode_levels(bytes([0x80]), 2, 1)


def test_a_run_of_levels_that_is_too_long_says_nothing_of_those_before_it() -> None:
    """Four nulls and four values, then forty values of which twelve belong to the page."""
    levels = decode_levels(bytes([3, 0b11110000, 80, 1]), 20, 1)
    assert levels.present == 16
    assert levels.each is not None
    assert levels.each.tolist() == [0] * 4 + [1] * 16
