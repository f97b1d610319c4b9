"""Whatever the bytes of a file are, its pages are refused, or they hold its rows and can be merged."""

import contextlib
import io
from functools import cache

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.copy_tasks import SCHEMA, rows
from tidyberg.execute.kernel.read.source import open_source
from tidyberg.execute.kernel.write import source_chunks as moving
from tidyberg.execute.kernel.write.floats import FloatFacts, counts_nans
from tidyberg.execute.kernel.write.merged_chunk import merge_chunks
from tidyberg.execute.kernel.write.table_columns import TableColumns, by_field_id, columns, matching_column
from tidyberg.model.task import TaskInput, WriteSettings
from tidyberg.parquet.codecs import CODEC_IDS
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.thrift import read_struct

ROWS = 60
ZSTD = CODEC_IDS["zstd"]


@cache
def sound_file(with_dictionaries: bool = False) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        rows(0, ROWS),
        sink,
        row_group_size=25,
        use_dictionary=with_dictionaries,
        compression="zstd",
        write_page_index=True,
        store_schema=False,
        max_rows_per_page=10,
    )
    return sink.getvalue()


@pytest.fixture(autouse=True, scope="module")
def small_pages_count() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "MIN_PAGE_VALUES", 0)
        yield


def moved_leaves(content: bytes) -> int:
    """How many leaves of the table could be moved."""

    def read(offset: int, length: int) -> bytes:
        assert 0 <= offset <= offset + length <= len(content)
        return content[offset : offset + length]

    file, table = TaskInput("file.parquet", len(content), ROWS), TableColumns(SCHEMA)
    try:
        source = open_source(file, lambda _, offset, length: read(offset, length))
        found = by_field_id(columns(source.footer.schema))
    except CannotCopy:
        return 0
    moved = 0
    for position in range(len(SCHEMA)):
        table_leaves = list(table.leaves_of(position).values())
        with contextlib.suppress(CannotCopy):
            column = matching_column(found, table.columns[position])
            parts = moving.source_chunks(source, column, table_leaves, read, WriteSettings(), own=False)
            for leaf, table_leaf, of_leaf in zip(column.leaves, table_leaves, parts, strict=True):
                assert sum(part.rows for part in of_leaf) == ROWS
                floats = FloatFacts() if counts_nans(table_leaf) else None
                merged = merge_chunks(of_leaf, 4, leaf, table_leaf.type, ZSTD, floats)
                assert merged.compressed == sum(len(piece) for part in of_leaf for piece in part.content)
                for index in (merged.column_index, merged.offset_index):
                    assert index is None or read_struct(index)[1] == len(index)
                moved += 1
    return moved


def test_the_sound_file_is_moved() -> None:
    assert moved_leaves(sound_file()) > 10
    assert moved_leaves(sound_file(with_dictionaries=True)) > 4


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_anywhere(data: st.DataObject) -> None:
    """In pages, their headers, indexes and the footer."""
    content = bytearray(sound_file(data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    moved_leaves(bytes(content))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_of_the_footer(data: st.DataObject) -> None:
    content = bytearray(sound_file())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(len(content) - footer, len(content) - 1))] = data.draw(st.integers(0, 255))
    moved_leaves(bytes(content))
