"""Optional metadata that only some writers write: a copy has it for every row group, or for none."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.copy_tasks import copy, given, read_back
from tests.builders.footers import chunks_of, edit_footer, groups_of
from tests.builders.page_offsets import check_offsets
from tests.builders.parquet_readers import check_readers
from tests.builders.parquet_writers import Writer
from tests.builders.tasks import field, write_file
from tests.builders.writers_table import ROWS, SCHEMA, by_arrow, by_arrow_rs, by_polars, inputs_of, table
from tidyberg.execute.kernel.copy import assemble
from tidyberg.execute.kernel.copy.merge import MAX_ROW_GROUPS
from tidyberg.parquet.fields import (
    ChunkField,
    FileField,
    GroupField,
    MetadataField,
    StatisticsField,
    changed,
)
from tidyberg.parquet.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftList,
)

Edit = Callable[[Struct], None]
NUMBERS = pa.schema([field("id", pa.int64(), 1)])


def set_field(struct: Struct, identifier: int, value: tuple[int, Any] | None) -> None:
    """Fields stay in order, as every writer has them."""
    renewed = changed(struct, {identifier: value})
    struct.clear()
    struct.update(renewed)


def in_groups(identifier: int, value: tuple[int, Any] | None) -> Edit:
    def edit(footer: Struct) -> None:
        for group in footer[FileField.ROW_GROUPS][1].items:
            set_field(group, identifier, value)

    return edit


def in_chunks(value: tuple[int, Any] | None, *identifiers: int, of_metadata: bool = False) -> Edit:
    def edit(footer: Struct) -> None:
        for group in footer[FileField.ROW_GROUPS][1].items:
            for chunk in chunks_of(group):
                for identifier in identifiers:
                    set_field(chunk[ChunkField.METADATA][1] if of_metadata else chunk, identifier, value)

    return edit


def in_file(identifier: int, value: tuple[int, Any] | None) -> Edit:
    return lambda footer: set_field(footer, identifier, value)


def in_statistics(value: tuple[int, Any] | None, *identifiers: int) -> Edit:
    def edit(footer: Struct) -> None:
        for group in footer[FileField.ROW_GROUPS][1].items:
            for chunk in chunks_of(group):
                for identifier in identifiers:
                    set_field(chunk[ChunkField.METADATA][1][MetadataField.STATISTICS][1], identifier, value)

    return edit


def first_column_without_page_index(footer: Struct) -> None:
    for group in footer[FileField.ROW_GROUPS][1].items:
        for identifier in range(ChunkField.OFFSET_INDEX, ChunkField.COLUMN_INDEX_LENGTH + 1):
            set_field(chunks_of(group)[0], identifier, None)


COLUMN_INDEX = (ChunkField.COLUMN_INDEX, ChunkField.COLUMN_INDEX_LENGTH)
OFFSET_INDEX = (ChunkField.OFFSET_INDEX, ChunkField.OFFSET_INDEX_LENGTH)
BLOOM = (MetadataField.BLOOM, MetadataField.BLOOM_LENGTH)
SORTED = (LIST, ThriftList(STRUCT, [{1: (I32, 0), 2: (TRUE, False), 3: (TRUE, False)}]))

EDITS: dict[str, Edit] = {
    "ordinals that are wrong": in_groups(GroupField.ORDINAL, (I16, 7)),
    "no ordinals": in_groups(GroupField.ORDINAL, None),
    "no file offsets of row groups": in_groups(GroupField.FILE_OFFSET, None),
    "no compressed sizes of row groups": in_groups(GroupField.TOTAL_COMPRESSED, None),
    "compressed sizes that are wrong": in_groups(GroupField.TOTAL_COMPRESSED, (I64, 1 << 40)),
    "sizes of row groups that are wrong": in_groups(GroupField.TOTAL_BYTES, (I64, 1 << 40)),
    "sorting columns": in_groups(GroupField.SORTING_COLUMNS, SORTED),
    "file offsets of columns": in_chunks((I64, 77), ChunkField.FILE_OFFSET),
    "no page indexes": in_chunks(None, *COLUMN_INDEX, *OFFSET_INDEX),
    "no column indexes": in_chunks(None, *COLUMN_INDEX),
    "no offset indexes": in_chunks(None, *OFFSET_INDEX),
    "no page index of one column": first_column_without_page_index,
    "no statistics": in_chunks(None, MetadataField.STATISTICS, of_metadata=True),
    "no encoding statistics": in_chunks(None, MetadataField.ENCODING_STATS, of_metadata=True),
    "no size statistics": in_chunks(None, MetadataField.SIZE_STATISTICS, of_metadata=True),
    "no bloom filters": in_chunks(None, *BLOOM, of_metadata=True),
    "no lengths of bloom filters": in_chunks(None, MetadataField.BLOOM_LENGTH, of_metadata=True),
    "old bounds only": in_statistics(None, 5, 6, 7, 8),
    "new bounds only": in_statistics(None, 1, 2),
    "nobody says which bounds are exact": in_statistics(
        None, StatisticsField.UPPER_IS_EXACT, StatisticsField.LOWER_IS_EXACT
    ),
    "another version": in_file(FileField.VERSION, (I32, 1)),
    "no properties": in_file(FileField.KEY_VALUES, None),
    "no writer": in_file(FileField.CREATED_BY, None),
}


def check_whole(path: str) -> None:
    """Checks that optional metadata is true, and present in all row groups or in none."""
    groups = groups_of(path)
    assert [group[GroupField.ORDINAL][1] for group in groups] == list(range(len(groups)))
    chunks = [chunk for group in groups for chunk in chunks_of(group)]
    assert len({ChunkField.OFFSET_INDEX in chunk for chunk in chunks}) == 1
    assert len({any(ChunkField.COLUMN_INDEX in chunk for chunk in chunks_of(group)) for group in groups}) == 1
    assert len({GroupField.SORTING_COLUMNS in group for group in groups}) == 1
    for chunk in chunks:
        assert ChunkField.OFFSET_INDEX in chunk or ChunkField.COLUMN_INDEX not in chunk
        metadata = chunk[ChunkField.METADATA][1]
        assert (MetadataField.BLOOM in metadata) == (MetadataField.BLOOM_LENGTH in metadata)
        assert metadata.get(MetadataField.DICTIONARY_PAGE, (I64, 4))[1] > 0
    for group in groups:
        metadatas = [chunk[ChunkField.METADATA][1] for chunk in chunks_of(group)]
        starts = [
            min(one[field][1] for field in (MetadataField.DATA_PAGE, MetadataField.DICTIONARY_PAGE) if field in one)
            for one in metadatas
        ]
        assert group[GroupField.FILE_OFFSET][1] == min(starts)
        assert group[GroupField.TOTAL_COMPRESSED][1] == sum(one[MetadataField.COMPRESSED][1] for one in metadatas)
        assert group[GroupField.TOTAL_BYTES][1] == sum(one[MetadataField.UNCOMPRESSED][1] for one in metadatas)


@pytest.mark.parametrize("writers", list(permutations((by_arrow, by_arrow_rs, by_polars), 2)))
def test_every_reader_opens_a_copy_of_files_by_two_writers(tmp_path: Path, writers: tuple[Writer, ...]) -> None:
    """PyArrow numbers no row groups, others number all. DataFusion refuses a file in which only some are numbered."""
    inputs = [file for write in writers for file in inputs_of(write, tmp_path, 1)]
    result = copy(inputs, tmp_path / "out", SCHEMA)
    assert (result.mode, result.mode_reason) == ("copy", "")
    check_whole(result.outputs[0].path)
    check_readers(result.outputs[0].path, [*range(ROWS)] * 2)


@pytest.mark.parametrize("edited", [0, 1])
@pytest.mark.parametrize("edit", list(EDITS.values()), ids=list(EDITS))
def test_metadata_of_only_some_files_is_written_for_all_row_groups_or_none(
    tmp_path: Path, edit: Edit, edited: int
) -> None:
    inputs = []
    for number in range(2):
        path = tmp_path / f"{number}.parquet"
        by_arrow(table(number * ROWS), path)
        if number == edited:
            edit_footer(path, edit)
        inputs.append(given(path, ROWS))
    result = copy(inputs, tmp_path / "out", SCHEMA)
    assert (result.mode, result.mode_reason) == ("copy", "")
    (output,) = result.outputs
    check_whole(output.path)
    check_offsets(Path(output.path))
    check_readers(output.path, [*range(2 * ROWS)])
    assert read_back(result, SCHEMA).equals(pa.concat_tables([table(0), table(ROWS)]))
    page_indexes = {ChunkField.OFFSET_INDEX in chunk for group in groups_of(output.path) for chunk in chunks_of(group)}
    # Where every file has page indexes they are kept, whatever else is missing.
    assert page_indexes == {edit not in (EDITS[name] for name in EDITS if "page index" in name or "offset ind" in name)}


def test_column_orders_of_one_file_only_are_a_reason_to_encode(tmp_path: Path) -> None:
    """Bounds of pages mean nothing without them."""
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path in paths:
        by_arrow(table(0), path)
    edit_footer(paths[1], in_file(FileField.COLUMN_ORDERS, None))
    result = copy([given(path, ROWS) for path in paths], tmp_path / "out", SCHEMA)
    assert (result.mode, "different column orders" in result.mode_reason) == ("encode", True)


def test_a_dictionary_page_at_offset_zero_does_not_exist(tmp_path: Path) -> None:
    """Some writers store zero for a missing dictionary, and some readers would look there."""
    path = tmp_path / "0.parquet"
    pq.write_table(table(0), path, use_dictionary=False)
    edit_footer(path, in_chunks((I64, 0), MetadataField.DICTIONARY_PAGE, of_metadata=True))
    result = copy([given(path, ROWS)], tmp_path / "out", SCHEMA)
    assert result.mode == "copy"
    check_whole(result.outputs[0].path)
    check_readers(result.outputs[0].path, [*range(ROWS)])


def test_page_indexes_of_row_ids_alone_are_left_out(tmp_path: Path) -> None:
    """Our own lineage columns would have page indexes next to columns without any."""
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for number, path in enumerate(paths):
        pq.write_table(table(number * ROWS), path)
    inputs = [replace(given(path, ROWS), first_row_id=number * ROWS) for number, path in enumerate(paths)]
    result = copy(inputs, tmp_path / "out", SCHEMA, lineage=True)
    assert (result.mode, result.mode_reason) == ("copy", "")
    check_whole(result.outputs[0].path)
    check_readers(result.outputs[0].path, [*range(2 * ROWS)])


def test_pandas_metadata_of_one_file_is_not_copied(tmp_path: Path) -> None:
    """Two files with equal row counts have equal pandas metadata, which is wrong for the merged file."""
    said = {b"pandas": b'{"index_columns": [{"kind": "range", "name": null, "start": 0, "stop": 10, "step": 1}]}'}
    rows = pa.table({"id": range(10)}, schema=NUMBERS)
    inputs = []
    for number in range(2):
        path = tmp_path / f"{number}.parquet"
        with pq.ParquetWriter(path, NUMBERS, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({**said, b"kept": b"yes"})
        inputs.append(given(path, 10))
    result = copy(inputs, tmp_path / "out", NUMBERS)
    assert result.mode == "copy"
    properties = pq.read_metadata(result.outputs[0].path).metadata
    assert (b"pandas" in properties, properties[b"kept"]) == (False, b"yes")


def test_more_row_groups_than_every_reader_can_open_are_not_copied_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ordinals have 16 bits, and arrow-rs counts row groups with them."""
    assert MAX_ROW_GROUPS == 32_768
    monkeypatch.setattr(assemble, "MAX_ROW_GROUPS", 8)
    rows = pa.table({"id": range(5)}, schema=NUMBERS)
    inputs = [write_file(tmp_path / f"{number}.parquet", rows, row_group_size=1) for number in range(2)]
    result = copy(inputs, tmp_path / "out", NUMBERS)
    assert (result.mode, "10 row groups; some readers open at most" in result.mode_reason) == ("encode", True)
    assert copy(inputs, tmp_path / "halves", NUMBERS, outputs=2, target=1).mode == "copy"


def test_files_that_are_sorted_one_by_one_are_not_called_sorted(tmp_path: Path) -> None:
    """DataFusion would treat the order of each row group as the order of the file, and would not sort."""
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path in paths:
        by_arrow(table(0), path)
        edit_footer(path, EDITS["sorting columns"])
    alone = copy([given(paths[0], ROWS)], tmp_path / "alone", SCHEMA)
    together = copy([given(path, ROWS) for path in paths], tmp_path / "out", SCHEMA)
    sorting = [
        {GroupField.SORTING_COLUMNS in group for group in groups_of(result.outputs[0].path)}
        for result in (alone, together)
    ]
    assert sorting == [{True}, {False}]
    context = datafusion.SessionContext()
    context.register_parquet("copied", together.outputs[0].path)
    assert context.sql("SELECT id FROM copied ORDER BY id").to_pydict()["id"] == sorted([*range(ROWS)] * 2)


def statistics_of(path: str, column: int) -> list[tuple[Any, Any, Any]]:
    footer = pq.read_metadata(path)
    found = [footer.row_group(number).column(column).statistics for number in range(footer.num_row_groups)]
    return [(one.min, one.max, one.null_count) if one is not None else (None, None, None) for one in found]


def test_bounds_are_kept_beside_row_groups_of_nothing_but_nulls(tmp_path: Path) -> None:
    """A row group of nulls needs no bounds. If one with values lacks bounds, all lose theirs."""
    schema = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])
    rows = [pa.table({"id": [0, 1], "name": names}, schema=schema) for names in (["a", "b"], [None, None], ["x", None])]
    inputs = [write_file(tmp_path / f"{number}.parquet", each) for number, each in enumerate(rows)]
    (output,) = copy(inputs, tmp_path / "all", schema).outputs
    assert statistics_of(output.path, 1) == [("a", "b", 0), (None, None, 2), ("x", "x", 1)]
    edit_footer(Path(inputs[2].path), in_statistics(None, 1, 2, 5, 6, 7, 8))
    inputs[2] = given(Path(inputs[2].path), 2)
    (output,) = copy(inputs, tmp_path / "some", schema).outputs
    assert statistics_of(output.path, 1) == [(None, None, 0), (None, None, 2), (None, None, 1)]
    metadata = chunks_of(groups_of(output.path)[0])[1][ChunkField.METADATA][1]
    assert metadata[MetadataField.STATISTICS][1].keys() == {StatisticsField.NULLS}


def nulls_found(path: str, column: str) -> list[int]:
    """Counts nulls with DuckDB, and with DataFusion, which assumes no nulls if statistics lack the count."""
    context = datafusion.SessionContext()
    context.register_parquet("copied", path)
    found = context.sql(f"SELECT count(*) AS n FROM copied WHERE {column} IS NULL").to_pydict()["n"][0]
    (counted,) = duckdb.execute(f"SELECT count(*) FROM read_parquet('{path}') WHERE {column} IS NULL").fetchall()
    return [found, counted[0]]


def test_null_counts_that_one_row_group_lacks_are_omitted_from_all(tmp_path: Path) -> None:
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for number, path in enumerate(paths):
        by_arrow(table(number * ROWS), path)
    edit_footer(paths[1], in_statistics(None, StatisticsField.NULLS))
    (output,) = copy([given(path, ROWS) for path in paths], tmp_path / "out", SCHEMA).outputs
    assert set(statistics_of(output.path, 1)) == {(None, None, None)}
    assert nulls_found(output.path, "small") == [sum(number % 7 == 0 for number in range(2 * ROWS))] * 2


def test_copies_of_several_writers_still_count_nulls(tmp_path: Path) -> None:
    """Readers distrust bounds of some writers, but they trust counts."""
    schema = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for first, path in zip((0, 100), paths, strict=True):
        names = [None if number % 5 == 0 else f"n{number}" for number in range(first, first + 100)]
        rows = pa.table({"id": range(first, first + 100), "name": names}, schema=schema)
        pq.write_table(rows, path, use_dictionary=False)
    edit_footer(paths[1], in_file(FileField.CREATED_BY, (BINARY, b"another writer")))
    result = copy([given(path, 100) for path in paths], tmp_path / "out", schema)
    assert (result.mode, result.mode_reason) == ("copy", "")
    (output,) = result.outputs
    assert statistics_of(output.path, 1) == [(None, None, 20), (None, None, 20)]
    assert nulls_found(output.path, "name") == [40, 40]


def test_null_counts_that_one_of_several_writers_lacks_are_omitted_from_all(tmp_path: Path) -> None:
    """Iceberg Java before PR 17557 subtracts one from the total for each row group without a count."""
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for number, path in enumerate(paths):
        by_arrow(table(number * ROWS), path)
    edit_footer(paths[1], in_statistics(None, StatisticsField.NULLS))
    edit_footer(paths[1], in_file(FileField.CREATED_BY, (BINARY, b"another writer")))
    result = copy([given(path, ROWS) for path in paths], tmp_path / "out", SCHEMA)
    assert (result.mode, result.mode_reason) == ("copy", "")
    (output,) = result.outputs
    chunks = [chunk for group in groups_of(output.path) for chunk in chunks_of(group)]
    assert not any(MetadataField.STATISTICS in chunk[ChunkField.METADATA][1] for chunk in chunks)
    assert nulls_found(output.path, "small") == [sum(number % 7 == 0 for number in range(2 * ROWS))] * 2
