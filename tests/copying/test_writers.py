"""Files of every installed writer: footers survive the codec byte for byte, and rows survive the copy."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arro3.io import write_parquet

from tests.copying.footers import edit_footer, footer_bytes
from tests.copying.pages import check_offsets
from tests.copying.tables import copy, given, read_back
from tests.execute.builders import field
from tidyberg.model.task import TaskInput
from tidyberg.parquet.fields import (
    ChunkField,
    ElementField,
    FileField,
    GroupField,
    IndexField,
    LocationField,
)
from tidyberg.parquet.thrift import I32, Struct, read_struct, write_struct

SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("small", pa.int32(), 2),
        field("name", pa.string(), 3),
        field("ratio", pa.float64(), 4),
        field("at", pa.timestamp("us"), 5),
        field("price", pa.decimal128(20, 2), 6),
        field("tags", pa.list_(field("element", pa.int32(), 8)), 7),
        field("place", pa.struct([field("x", pa.int64(), 10), field("label", pa.string(), 11)]), 9),
        field("day", pa.date32(), 12),
    ]
)
IDS = {"id": 1, "small": 2, "name": 3, "ratio": 4, "at": 5, "price": 6, "tags": 7, "element": 8, "place": 9, "x": 10}
IDS |= {"label": 11, "day": 12}
ROWS = 4000


def table(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    return pa.Table.from_pydict(
        {
            "id": list(numbers),
            "small": [None if n % 7 == 0 else n for n in numbers],
            "name": [f"näme {n % 100}" for n in numbers],
            "ratio": [n / 3 for n in numbers],
            "at": pa.array([n * 1_000_000 for n in numbers], pa.int64()).cast(pa.timestamp("us")),
            "price": pa.array(list(numbers), pa.int64()).cast(pa.decimal128(22, 2)).cast(pa.decimal128(20, 2)),
            "tags": [None if n % 3 == 0 else [n, n + 1] for n in numbers],
            "place": [None if n % 5 == 0 else {"x": n, "label": "here"} for n in numbers],
            "day": pa.array([n % 9000 for n in numbers], pa.int32()).cast(pa.date32()),
        },
        schema=SCHEMA,
    )


def by_arrow(rows: pa.Table, path: Path) -> None:
    bloom = {"id": {"ndv": 1000, "fpp": 0.0001}}
    pq.write_table(rows, path, row_group_size=1000, write_page_index=True, bloom_filter_options=bloom)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"COPY given TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION zstd)")
    edit_footer(path, give_ids)


def by_polars(rows: pa.Table, path: Path) -> None:
    frame = polars.from_arrow(rows.cast(pa.schema([pa.field(column.name, column.type) for column in bare(SCHEMA)])))
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(path, row_group_size=1000)
    edit_footer(path, give_ids)


def by_arrow_rs(rows: pa.Table, path: Path) -> None:
    write_parquet(
        rows,
        path,
        max_row_group_size=1000,
        data_page_row_count_limit=100,
        write_batch_size=100,
        bloom_filter_enabled=True,
        bloom_filter_ndv=1000,
        bloom_filter_fpp=0.0001,
        compression="zstd(1)",
    )


def bare(schema: pa.Schema) -> list[pa.Field]:
    return [pa.field(column.name, column.type) for column in schema]


def give_ids(footer: Struct) -> None:
    """Adds field ids, because these writers support them badly or not at all."""
    for element in footer[FileField.SCHEMA][1].items[1:]:
        name = element[ElementField.NAME][1].decode()
        if name in IDS:
            element[ElementField.FIELD_ID] = (I32, IDS[name])
            ordered = dict(sorted(element.items()))
            element.clear()
            element.update(ordered)


Writer = Callable[[pa.Table, Path], None]
WRITERS: list[Writer] = [by_arrow, by_arrow_rs, by_duckdb, by_polars]
every_writer = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)


def inputs_of(write: Writer, directory: Path, files: int = 3) -> list[TaskInput]:
    found = []
    for number in range(files):
        path = directory / f"{write.__name__}-{number}.parquet"
        write(table(number * ROWS), path)
        found.append(given(path, ROWS))
    return found


@every_writer
def test_footers_survive_the_codec_byte_for_byte(tmp_path: Path, write: Writer) -> None:
    (file,) = inputs_of(write, tmp_path, 1)
    footer = footer_bytes(Path(file.path))
    struct, end = read_struct(footer)
    assert end == len(footer)
    assert write_struct(struct) == footer


@every_writer
def test_files_of_one_writer_are_copied_with_all_that_they_have(tmp_path: Path, write: Writer) -> None:
    inputs = inputs_of(write, tmp_path)
    result = copy(inputs, tmp_path / "out", SCHEMA, outputs=2)
    assert (result.mode, result.mode_reason) == ("copy", "")
    expected = pa.concat_tables([table(number * ROWS) for number in range(3)])
    assert read_back(result, SCHEMA).equals(expected)
    assert polars.read_parquet([output.path for output in result.outputs])["id"].to_list() == expected["id"].to_pylist()
    before, after = (pq.read_metadata(path) for path in (inputs[0].path, result.outputs[0].path))
    assert after.created_by == before.created_by
    first, copied = before.row_group(1).column(2), after.row_group(1).column(2)
    assert copied.to_dict()["statistics"] == first.to_dict()["statistics"]
    assert (copied.has_column_index, copied.has_offset_index) == (first.has_column_index, first.has_offset_index)
    assert (copied.bloom_filter_offset is None) == (first.bloom_filter_offset is None)
    assert copied.encodings == first.encodings
    pages = [check_offsets(Path(output.path)) for output in result.outputs]
    assert all(pages) == first.has_offset_index


@every_writer
def test_bloom_filters_still_know_their_values(tmp_path: Path, write: Writer) -> None:
    result = copy(inputs_of(write, tmp_path), tmp_path / "out", SCHEMA)
    path = result.outputs[0].path
    footer = pq.read_metadata(path)
    columns = {
        footer.row_group(group).column(index).path_in_schema
        for group in range(footer.num_row_groups)
        for index in range(footer.num_columns)
        if footer.row_group(group).column(index).bloom_filter_offset is not None
    } & {"id", "name"}
    assert columns or write is by_polars
    with duckdb.connect() as connection:
        for column, known, unknown in (("id", list(range(0, 3 * ROWS, 997)), -5), ("name", ["näme 7"], "nobody")):
            for value in known if column in columns else []:
                probe = "SELECT bool_and(bloom_filter_excludes) FROM parquet_bloom_probe(?, ?, ?)"
                assert connection.execute(probe, [path, column, value]).fetchall() == [(False,)]
            if column in columns:
                assert connection.execute(probe, [path, column, unknown]).fetchall() == [(True,)]


def test_files_of_all_writers_together_keep_their_rows(tmp_path: Path) -> None:
    """DuckDB stores large decimals in more bytes than others: its files are not among them."""
    writers = (by_arrow, by_arrow_rs, by_polars)
    inputs = [file for write in writers for file in inputs_of(write, tmp_path, 1)]
    result = copy(inputs, tmp_path / "out", SCHEMA)
    assert (result.mode, result.mode_reason) == ("copy", "")
    assert read_back(result, SCHEMA).equals(pa.concat_tables([table(0)] * len(writers)))
    check_offsets(Path(result.outputs[0].path))


def test_an_offset_that_is_wrong_by_one_is_noticed(tmp_path: Path) -> None:
    """Shows that the checks of this package can fail."""
    result = copy(inputs_of(by_arrow, tmp_path, 1), tmp_path / "out", SCHEMA)
    path = Path(result.outputs[0].path)
    content = bytearray(path.read_bytes())
    footer, _ = read_struct(footer_bytes(path))
    chunk = footer[FileField.ROW_GROUPS][1].items[1][GroupField.COLUMNS][1].items[0]
    start = chunk[ChunkField.OFFSET_INDEX][1]
    index, end = read_struct(bytes(content), start)
    location = index[IndexField.PAGE_LOCATIONS][1].items[0]
    location[LocationField.OFFSET] = (location[LocationField.OFFSET][0], location[LocationField.OFFSET][1] + 1)
    content[start:end] = write_struct(index)
    path.write_bytes(bytes(content))
    with pytest.raises(AssertionError):
        check_offsets(path)
