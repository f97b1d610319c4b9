"""Each rule finds the file that breaks it, and no other rule reports that file."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.checked_files import (
    FLAG,
    HUGE,
    ID,
    MAYBE,
    NAME,
    PRICE,
    RATIO,
    ROWS,
    TAGS,
    chunk,
    edit_index,
    edit_page,
    group,
    metadata,
    put,
    report,
    rules,
    sound_file,
    statistics,
    table,
)
from tests.builders.footers import edit_footer, footer_bytes, replace_footer
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, IndexField, MetadataField
from tidyberg.parquet.thrift import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftList,
    read_struct,
)

UPPER, LOWER, OLD_UPPER, OLD_LOWER, NULLS, DISTINCT = 5, 6, 1, 2, 3, 4
UPPER_EXACT = 7
Edit = Callable[[Struct], None]


def add(place: Callable[[Struct], Struct], field: int, amount: int) -> Edit:
    return lambda footer: put(place(footer), field, place(footer)[field][1] + amount)


def bound(column: int, field: int, value: bytes) -> Edit:
    return lambda footer: put(statistics(footer, column), field, value)


def overlap(footer: Struct) -> None:
    first = chunk(footer, ID)
    put(chunk(footer, NAME), ChunkField.COLUMN_INDEX, first[ChunkField.COLUMN_INDEX][1])


def reverse_row_groups(footer: Struct) -> None:
    footer[FileField.ROW_GROUPS][1].items.reverse()


def number_row_groups(*ordinals: int | None) -> Edit:
    def edit(footer: Struct) -> None:
        for number, ordinal in enumerate(ordinals):
            if ordinal is not None:
                put(group(footer, number), GroupField.ORDINAL, ordinal, I16)

    return edit


def sorted_by(*columns: tuple[int, bool, bool], number: int = 1) -> Edit:
    def edit(footer: Struct) -> None:
        entries: list[Struct] = [
            {1: (I32, column), 2: (TRUE, descending), 3: (TRUE, nulls_first)}
            for column, descending, nulls_first in columns
        ]
        put(group(footer, number), GroupField.SORTING_COLUMNS, ThriftList(STRUCT, entries), LIST)

    return edit


def property_of(key: bytes, value: bytes) -> Edit:
    pair: Struct = {1: (BINARY, key), 2: (BINARY, value)}
    return lambda footer: footer[FileField.KEY_VALUES][1].items.append(pair)


def size_statistics(column: int, field: int, value: Any) -> Edit:
    return lambda footer: put(metadata(footer, column)[MetadataField.SIZE_STATISTICS][1], field, value)


def without_order(footer: Struct) -> None:
    footer[FileField.COLUMN_ORDERS][1].items.pop()


FOOTERS: list[tuple[str, Edit]] = [
    ("row-count", lambda footer: put(footer, FileField.ROWS, ROWS + 1)),
    ("schema", lambda footer: put(metadata(footer, ID), MetadataField.PATH, ThriftList(BINARY, [b"other"]))),
    ("value-count", add(lambda footer: metadata(footer, TAGS), MetadataField.VALUES, 1)),
    ("row-group-size", add(group, GroupField.TOTAL_BYTES, 1)),
    ("row-group-size", add(group, GroupField.TOTAL_COMPRESSED, 1)),
    ("row-group-offset", add(group, GroupField.FILE_OFFSET, 1)),
    ("file-offset", lambda footer: put(chunk(footer, NAME), ChunkField.FILE_OFFSET, 5)),
    ("ordinals", number_row_groups(0, None)),
    ("ordinals", number_row_groups(None, 1)),
    ("ordinals", number_row_groups(1, 0)),
    ("overlap", overlap),
    ("row-group-order", reverse_row_groups),
    ("column-orders", without_order),
    ("key-values", property_of(b"", b"x")),
    (
        "key-values",
        lambda footer: footer[FileField.KEY_VALUES][1].items.append(footer[FileField.KEY_VALUES][1].items[0]),
    ),
    ("key-values", property_of(b"key", b"\xff")),
    ("data-page-offset", lambda footer: _shift_first_page(footer, NAME)),
    ("dictionary-page-offset", lambda footer: _forget_dictionary(footer)),
    ("encodings", lambda footer: put(metadata(footer, NAME), MetadataField.ENCODINGS, ThriftList(I32, [0, 3]))),
    ("encodings", lambda footer: put(metadata(footer, ID), MetadataField.ENCODINGS, ThriftList(I32, [0, 3, 5]))),
    (
        "dictionary-encoding",
        lambda footer: put(metadata(footer, NAME), MetadataField.ENCODINGS, ThriftList(I32, [3, 8])),
    ),
    ("encoding-stats", lambda footer: _change_encoding_stats(footer, 3, 1)),
    ("page-kinds", lambda footer: _change_encoding_stats(footer, 1, 3)),
    ("null-count", lambda footer: put(statistics(footer, MAYBE), NULLS, 0)),
    ("distinct-count", lambda footer: put(statistics(footer, NAME), DISTINCT, 11, I64)),
    ("statistics-bound", bound(ID, LOWER, struct.pack("<q", 1))),
    ("statistics-bound", bound(ID, UPPER, struct.pack("<q", 48))),
    ("statistics-bound", bound(ID, OLD_UPPER, struct.pack("<q", 48))),
    ("statistics-bound", bound(ID, UPPER, b"short")),
    ("statistics-bound", bound(HUGE, LOWER, struct.pack("<Q", 2**63 + 1))),
    ("statistics-bound", bound(RATIO, UPPER, struct.pack("<d", float("nan")))),
    ("statistics-bound", bound(RATIO, UPPER, struct.pack("<d", 20))),
    ("statistics-bound", bound(PRICE, UPPER, (-300).to_bytes(13, "big", signed=True))),
    ("statistics-bound", bound(PRICE, UPPER, b"\x7f")),
    ("statistics-bound", bound(NAME, UPPER, "näme 8".encode())),
    ("statistics-bound", bound(FLAG, LOWER, b"\x01")),
    ("statistics-bound", lambda footer: put(statistics(footer, MAYBE), LOWER, struct.pack("<i", 1), BINARY)),
    ("statistics-loose", bound(ID, LOWER, struct.pack("<q", -1))),
    ("statistics-loose", bound(NAME, LOWER, b"n")),
    ("size-statistics", size_statistics(NAME, 1, 3)),
    ("size-statistics", size_statistics(TAGS, 2, ThriftList(I64, [1, 2]))),
    ("size-statistics", size_statistics(TAGS, 3, ThriftList(I64, [1, 2, 3, 4]))),
    ("sorting-columns", sorted_by((NAME, False, True))),
    ("sorting-columns", sorted_by((ID, True, True))),
    ("sorting-columns", sorted_by((FLAG, False, True), (ID, True, True))),
    ("sorting-columns", sorted_by((99, False, True))),
]


def _shift_first_page(footer: Struct, column: int) -> None:
    """Makes the offset of the first data page wrong."""
    reported = metadata(footer, column)
    put(reported, MetadataField.DATA_PAGE, reported[MetadataField.DATA_PAGE][1] + 1)


def _forget_dictionary(footer: Struct) -> None:
    reported = metadata(footer, NAME)
    start = reported[MetadataField.DICTIONARY_PAGE][1]
    del reported[MetadataField.DICTIONARY_PAGE]
    put(reported, MetadataField.DATA_PAGE, start)


def _change_encoding_stats(footer: Struct, field: int, amount: int) -> None:
    for entry in metadata(footer, ID)[MetadataField.ENCODING_STATS][1].items:
        put(entry, field, entry[field][1] + amount)


# Rules that are broken as a consequence.
CONSEQUENCES = {
    "overlap": {"column-index", "column-index-bound"},
    "dictionary-page-offset": {"data-page-offset"},
    "null-page": {"column-index-bound"},
}


@pytest.mark.parametrize(("rule", "edit"), FOOTERS, ids=[f"{at}-{rule}" for at, (rule, _) in enumerate(FOOTERS)])
def test_a_false_statement_in_a_footer_is_found(tmp_path: Path, rule: str, edit: Edit) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_footer(path, edit)
    assert rules(path) - CONSEQUENCES.get(rule, set()) == {rule}


def test_problems_name_their_place(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_footer(path, lambda footer: put(statistics(footer, MAYBE, 1), NULLS, 7))
    (problem,) = report(path).problems
    assert (problem.file, problem.row_group, problem.column, problem.page) == (str(path), 1, "maybe", None)
    assert str(problem) == (
        f"{path}, row group 1, column maybe: the number of nulls is 7, but it should be 0 [null-count]"
    )


@pytest.mark.parametrize("field", [MetadataField.UNCOMPRESSED, MetadataField.COMPRESSED])
def test_sizes_of_chunks_are_those_of_their_pages(tmp_path: Path, field: int) -> None:
    path = sound_file(tmp_path / "file.parquet")

    def edit(footer: Struct) -> None:
        total = GroupField.TOTAL_BYTES if field == MetadataField.UNCOMPRESSED else GroupField.TOTAL_COMPRESSED
        add(lambda footer: metadata(footer, FLAG, 1), field, -1)(footer)
        add(lambda footer: group(footer, 1), total, -1)(footer)

    edit_footer(path, edit)
    assert rules(path) == {"chunk-size" if field == MetadataField.UNCOMPRESSED else "pages"}


def test_truncated_bounds_are_true_unless_they_are_marked_as_exact(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")

    def cut(footer: Struct) -> None:
        for number in (0, 1):
            reported = statistics(footer, NAME, number)
            put(reported, LOWER, b"n")
            put(reported, UPPER, b"o")
            put(reported, UPPER_EXACT, False, TRUE)
            put(reported, UPPER_EXACT + 1, False, TRUE)

    edit_footer(path, cut)
    assert rules(path) == set()
    edit_footer(path, lambda footer: put(statistics(footer, NAME), UPPER_EXACT, True))
    assert rules(path) == {"statistics-loose"}
    edit_footer(path, lambda footer: put(statistics(footer, NAME), UPPER_EXACT, False))
    edit_footer(path, bound(NAME, UPPER, b"n\xc3"))
    assert "statistics-bound" in rules(path)
    edit_footer(path, bound(NAME, UPPER, b"o"))
    edit_footer(path, bound(NAME, LOWER, b"n\xc3"))
    assert rules(path) == {"statistics-cut"}


COLUMN_INDEXES: list[tuple[str, int, Edit]] = [
    ("null-page", ID, lambda index: _set(index, 1, 0, 1)),
    ("column-index-bound", MAYBE, lambda index: _set(index, 1, 0, 2)),
    ("column-index-bound", ID, lambda index: _set(index, 2, 0, struct.pack("<q", 1))),
    ("column-index-bound", ID, lambda index: _set(index, 3, 4, struct.pack("<q", 45))),
    ("column-index-bound", RATIO, lambda index: _set(index, 3, 0, b"")),
    ("column-index-nulls", RATIO, lambda index: _set(index, 5, 0, 9)),
    ("boundary-order", ID, lambda index: put(index, 4, 2)),
    ("boundary-order", NAME, lambda index: put(index, 4, 7)),
    ("level-histogram", TAGS, lambda index: _set(index, 6, 0, 9)),
    ("level-histogram", TAGS, lambda index: _set(index, 7, 0, 9)),
    ("column-index", ID, lambda index: index[2][1].items.pop()),
]


def _set(index: Struct, field: int, at: int, value: Any) -> None:
    index[field][1].items[at] = value


@pytest.mark.parametrize(
    ("rule", "column", "edit"), COLUMN_INDEXES, ids=[f"{at}-{one[0]}" for at, one in enumerate(COLUMN_INDEXES)]
)
def test_a_false_statement_in_a_column_index_is_found(tmp_path: Path, rule: str, column: int, edit: Edit) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_index(path, column, ChunkField.COLUMN_INDEX, edit)
    assert rules(path) - CONSEQUENCES.get(rule, set()) == {rule}


def test_bounds_of_pages_may_be_wider_than_their_values(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_index(path, ID, ChunkField.COLUMN_INDEX, lambda index: _set(index, 3, 4, struct.pack("<q", 50)))
    assert rules(path) == set()


OFFSET_INDEXES: list[tuple[str, Edit]] = [
    ("offset-index", lambda index: put(index[1][1].items[1], 1, index[1][1].items[1][1][1] + 1)),
    ("offset-index", lambda index: put(index[1][1].items[1], 2, index[1][1].items[1][2][1] - 1)),
    ("offset-index", lambda index: put(index[1][1].items[1], 3, index[1][1].items[1][3][1] - 1)),
    ("offset-index", lambda index: index[1][1].items.pop()),
    ("page-sizes", lambda index: _set(index, IndexField.UNENCODED_BYTES, 0, 1)),
]


@pytest.mark.parametrize(("rule", "edit"), OFFSET_INDEXES)
def test_a_wrong_offset_index_is_found(tmp_path: Path, rule: str, edit: Edit) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_index(path, NAME, ChunkField.OFFSET_INDEX, edit)
    assert rules(path) == {rule}


def test_an_index_without_a_length_is_found(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_footer(path, lambda footer: put(chunk(footer, ID), ChunkField.COLUMN_INDEX_LENGTH, 0))
    assert rules(path) == {"index-place"}


PAGES: list[tuple[str, str, int, Edit]] = [
    ("checksum", "1.0", NAME, lambda header: put(header, 4, 17)),
    ("page-counts", "2.0", MAYBE, lambda header: put(header[8][1], 2, 3)),
    ("page-counts", "2.0", TAGS, lambda header: put(header[8][1], 3, 3)),
    ("pages", "1.0", NAME, lambda header: put(header, 1, 9)),
    ("pages", "1.0", NAME, lambda header: put(header, 2, 1)),
    ("pages", "1.0", HUGE, lambda header: put(header[5][1], 2, 0)),
    ("value-count", "1.0", HUGE, lambda header: put(header[5][1], 1, 11)),
]


@pytest.mark.parametrize(
    ("rule", "version", "column", "edit"), PAGES, ids=[f"{at}-{one[0]}" for at, one in enumerate(PAGES)]
)
def test_a_false_statement_in_a_page_header_is_found(
    tmp_path: Path, rule: str, version: str, column: int, edit: Edit
) -> None:
    path = tmp_path / "file.parquet"
    options = {"row_group_size": ROWS, "write_page_index": False, "write_page_checksum": True}
    pq.write_table(table(), path, compression="none", data_page_version=version, max_rows_per_page=20, **options)
    before = rules(path)
    assert before <= {"page-kinds"}
    edit_page(path, column, 1, edit)
    found = rules(path) - before
    assert rule in found
    assert found <= {rule, "chunk-size", "encoding-stats", "size-statistics", "row-count", "statistics-loose"}


def test_statistics_of_pages_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(table(), path, compression="none", use_dictionary=False, max_rows_per_page=20)
    assert rules(path) == set()
    edit_page(path, NAME, 1, lambda header: put(header[5][1][5][1], UPPER, b"a"))
    (problem,) = report(path).problems
    assert (problem.rule, problem.column, problem.page) == ("statistics-bound", "name", 1)


def test_a_bloom_filter_that_lacks_a_value_is_found(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    footer, _ = read_struct(footer_bytes(path))
    start = metadata(footer, NAME)[MetadataField.BLOOM][1]
    content = bytearray(path.read_bytes())
    header, body = read_struct(bytes(content), start)
    content[body : body + header[1][1]] = bytes(header[1][1])
    path.write_bytes(bytes(content))
    assert rules(path) == {"bloom-filter"}


def test_a_bloom_filter_of_another_length_is_found(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_footer(path, add(lambda footer: metadata(footer, NAME), MetadataField.BLOOM_LENGTH, -1))
    assert rules(path) == {"bloom-filter"}


def test_an_arrow_schema_with_other_columns_is_found(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")

    def edit(footer: Struct) -> None:
        (pair,) = [one for one in footer[FileField.KEY_VALUES][1].items if one[1][1] == b"ARROW:schema"]
        put(pair, 2, b"nonsense")

    edit_footer(path, edit)
    assert rules(path) == {"arrow-schema"}


def test_rows_in_the_stated_order_are_no_problem(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    edit_footer(path, sorted_by((ID, False, True), (NAME, True, False)))
    assert rules(path) == set()
    nulls_last = pa.concat_tables([table().slice(50), table().slice(0, 50)])
    for nulls_first, expected in ((True, {"sorting-columns"}), (False, set())):
        pq.write_table(nulls_last, path, row_group_size=ROWS)
        edit_footer(path, sorted_by((MAYBE, False, nulls_first), number=0))
        assert rules(path) == expected


def test_a_file_that_is_not_parquet_is_a_problem_and_raises_nothing(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    content = path.read_bytes()
    for damaged in (b"", b"PAR1", content[:-1], b"XXXX" + content[4:], content[:-8] + b"\xff\xff\xff\x7fPAR1"):
        path.write_bytes(damaged)
        assert rules(path) == {"footer"}
    path.write_bytes(content)
    replace_footer(path, footer_bytes(path) + b"\0")
    assert rules(path) == {"footer"}


def test_a_changed_byte_in_a_page_is_found(tmp_path: Path) -> None:
    path = sound_file(tmp_path / "file.parquet")
    footer, _ = read_struct(footer_bytes(path))
    content = bytearray(path.read_bytes())
    content[metadata(footer, ID)[MetadataField.DATA_PAGE][1] + 60] ^= 1
    path.write_bytes(bytes(content))
    assert "checksum" in rules(path)


def test_booleans_of_lists_have_two_encodings(tmp_path: Path) -> None:
    """Some writers encode false as zero, others as two."""
    path = sound_file(tmp_path / "file.parquet")
    edit_index(path, ID, ChunkField.COLUMN_INDEX, lambda index: put(index, 1, ThriftList(FALSE, [0] * 5)))
    assert rules(path) == set()
