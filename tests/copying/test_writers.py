"""Files of every installed writer: footers survive the codec byte for byte, and rows survive the copy."""

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import copy, read_back
from tests.builders.footers import footer_bytes
from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_writers import Writer
from tests.builders.writers_table import ROWS, SCHEMA, WRITERS, by_arrow, by_arrow_rs, by_polars, inputs_of, table
from tidyberg.parquet.fields import (
    ChunkField,
    FileField,
    GroupField,
    IndexField,
    LocationField,
)
from tidyberg.parquet.thrift import read_struct, write_struct

every_writer = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)


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
