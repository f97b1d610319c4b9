"""Follows the offsets of a file by its bytes: pages, page indexes and bloom filters must be where the footer says."""

from collections.abc import Iterator
from pathlib import Path

from tests.copying.footers import footer_bytes
from tidyberg.parquet.fields import (
    ChunkField,
    FileField,
    GroupField,
    IndexField,
    LocationField,
    MetadataField,
)
from tidyberg.parquet.thrift import Struct, read_struct

UNCOMPRESSED, COMPRESSED = 2, 3  # fields of a page header
DATA_PAGES, DICTIONARY_PAGE = (0, 3), 2


def check_offsets(path: Path) -> int:
    """Raises if an offset is wrong. Returns how many data pages were found with an offset index."""
    content = path.read_bytes()
    footer, _ = read_struct(footer_bytes(path))
    found = 0
    for group in footer[FileField.ROW_GROUPS][1].items:
        starts = []
        for chunk in group[GroupField.COLUMNS][1].items:
            metadata = chunk[ChunkField.METADATA][1]
            starts.append(_check_pages(content, metadata))
            found += _check_index(content, chunk, metadata, group[GroupField.ROWS][1])
            _check_bloom(content, metadata)
        if GroupField.FILE_OFFSET in group:
            assert group[GroupField.FILE_OFFSET][1] == min(starts)
    return found


def _check_pages(content: bytes, metadata: Struct) -> int:
    """Checks that the pages of a column have no gaps. Returns where they begin."""
    first: int = metadata[MetadataField.DATA_PAGE][1]
    start: int = metadata.get(MetadataField.DICTIONARY_PAGE, (0, 0))[1] or first
    end = start + metadata[MetadataField.COMPRESSED][1]
    pages = list(_pages(content, start, end))
    assert pages[-1][2] == end
    assert first in [position for position, _, _ in pages]
    assert all(kind == DICTIONARY_PAGE for position, kind, _ in pages if position < first)
    return start


def _pages(content: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Where each page begins, its kind, and where it ends."""
    while position < end:
        header, after = read_struct(content, position)
        finish = after + header[COMPRESSED][1]
        yield position, header[1][1], finish
        position = finish


def _check_index(content: bytes, chunk: Struct, metadata: Struct, rows: int) -> int:
    if ChunkField.OFFSET_INDEX not in chunk:
        return 0
    start = chunk[ChunkField.OFFSET_INDEX][1]
    index, end = read_struct(content, start)
    assert end - start == chunk[ChunkField.OFFSET_INDEX_LENGTH][1]
    locations = index[IndexField.PAGE_LOCATIONS][1].items
    assert locations[0][LocationField.OFFSET][1] == metadata[MetadataField.DATA_PAGE][1]
    for location in locations:
        offset, length = location[LocationField.OFFSET][1], location[LocationField.LENGTH][1]
        header, after = read_struct(content, offset)
        assert header[1][1] in DATA_PAGES
        assert after + header[COMPRESSED][1] == offset + length
        assert location[LocationField.FIRST_ROW][1] < rows
    if ChunkField.COLUMN_INDEX in chunk:
        start = chunk[ChunkField.COLUMN_INDEX][1]
        column, end = read_struct(content, start)
        assert end - start == chunk[ChunkField.COLUMN_INDEX_LENGTH][1]
        assert len(column[1][1].items) == len(locations)  # whether each page is all null
    return len(locations)


def _check_bloom(content: bytes, metadata: Struct) -> None:
    if MetadataField.BLOOM not in metadata:
        return
    start = metadata[MetadataField.BLOOM][1]
    header, after = read_struct(content, start)
    if MetadataField.BLOOM_LENGTH in metadata:
        assert after + header[1][1] - start == metadata[MetadataField.BLOOM_LENGTH][1]
