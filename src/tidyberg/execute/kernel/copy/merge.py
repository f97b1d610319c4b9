"""Puts row groups of several files one after another, and writes the footer for their new offsets."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidyberg.execute.kernel.copy.eligibility import CommonFooter
from tidyberg.execute.kernel.copy.lineage import COLUMNS
from tidyberg.execute.kernel.read.source import Source, moved_index
from tidyberg.parquet.fields import (
    ChunkField,
    FileField,
    GroupField,
    MetadataField,
    changed,
    number,
)
from tidyberg.parquet.footer import MAGIC, ColumnChunk, Extent, RowGroup, as_ending
from tidyberg.parquet.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Struct, ThriftList
from tidyberg.parquet.uniform import BOUNDS, PageIndexes, partial_statistics, without_statistics
from tidyberg.storage.assembly import Literal, Range, Segment, joined

# Some writers leave a few bytes between columns. Copying them too is cheaper than one more range.
_GAP = 4096
# The ordinal of a row group has 16 bits. arrow-rs opens no file with more row groups, even without ordinals.
MAX_ROW_GROUPS = 1 << 15


@dataclass(frozen=True)
class CopiedRowGroup:
    """A row group to copy: its file, and its number in that file."""

    source: Source
    number: int
    added: Source | None = None  # a file in memory with one row group, whose columns are added

    @property
    def group(self) -> RowGroup:
        return self.source.footer.row_groups[self.number]


@dataclass(frozen=True)
class MergedFile:
    segments: tuple[Segment, ...]
    size: int
    split_offsets: tuple[int, ...]
    footer_digest: str  # SHA-256 from the footer to the end of the file


@dataclass
class _PlacedChunk:
    """A column chunk of the output, and where its pages and indexes are."""

    source: Source
    chunk: ColumnChunk
    shift: int  # how many bytes its pages move
    bloom: Extent | None = None
    column_index: int | None = None
    offset_index: Extent | None = None


def merge(pieces: Sequence[CopiedRowGroup], common: CommonFooter) -> MergedFile:
    assert len(pieces) <= MAX_ROW_GROUPS
    layout = _Layout()
    layout.add(Literal(MAGIC))
    placed = [_place_piece(piece, layout) for piece in pieces]
    columns = [column for group in placed for column in group]
    for column in columns:
        column.bloom = _place_bloom(column, layout)
    indexes = PageIndexes.of([[column.chunk for column in group] for group in placed])
    for column in columns if indexes.bounds else ():
        column.column_index = _place_column_index(column, layout)
    for column in columns if indexes.offsets else ():
        column.offset_index = _place_offset_index(column, layout)
    left_out = _statistics_left_out(placed, common)
    chunks = [[_chunk(*each) for each in zip(group, left_out, strict=True)] for group in placed]
    # Each file is sorted on its own, but readers would assume one order for the whole output.
    keeps_sorting = common.keeps_sorting and len({piece.source.input.path for piece in pieces}) == 1
    groups = [
        _row_group(piece, placed[ordinal], chunks[ordinal], ordinal, keeps_sorting)
        for ordinal, piece in enumerate(pieces)
    ]
    ending = as_ending(_footer(pieces, groups, common))
    layout.add(Literal(ending))
    offsets = tuple(sorted(map(_start, placed)))
    return MergedFile(joined(layout.segments), layout.size, offsets, hashlib.sha256(ending).hexdigest())


class _Layout:
    """The segments so far, and their size in bytes."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.size = 0

    def add(self, segment: Segment) -> int:
        """Returns where the segment begins."""
        start = self.size
        self.segments.append(segment)
        self.size += segment.length
        return start


def _place_piece(piece: CopiedRowGroup, layout: _Layout) -> list[_PlacedChunk]:
    placed = _place_pages(piece.source, piece.group, layout)
    if piece.added is not None:
        placed += _place_pages(piece.added, piece.added.footer.row_groups[0], layout)
    return placed


def _place_pages(source: Source, group: RowGroup, layout: _Layout) -> list[_PlacedChunk]:
    shift_of: dict[int, int] = {}
    for run in _runs([chunk.pages for chunk in group.chunks]):
        last = layout.segments[-1]
        if isinstance(last, Range) and last.path == source.input.path and 0 < run.offset - last.end <= _GAP:
            layout.add(Range(last.path, last.end, run.offset - last.end))
        start = layout.add(_segment(source, run))
        for chunk in group.chunks:
            if run.offset <= chunk.pages.offset < run.end:
                shift_of[chunk.pages.offset] = start - run.offset
    return [_PlacedChunk(source, chunk, shift_of[chunk.pages.offset]) for chunk in group.chunks]


def _segment(source: Source, extent: Extent) -> Segment:
    if source.whole is not None:
        return Literal(source.bytes_at(extent.offset, extent.length))
    return Range(source.input.path, extent.offset, extent.length)


def _runs(extents: list[Extent]) -> Iterator[Extent]:
    """Yields ranges of the file that cover all extents, with small gaps at most."""
    start, end = 0, 0
    for extent in sorted(extents, key=lambda extent: extent.offset):
        if end and extent.offset - end <= _GAP:
            end = extent.end
            continue
        if end:
            yield Extent(start, end - start)
        start, end = extent.offset, extent.end
    yield Extent(start, end - start)


def _start(group: list[_PlacedChunk]) -> int:
    """Returns where a row group begins."""
    return min(column.chunk.pages.offset + column.shift for column in group)


def _place_bloom(column: _PlacedChunk, layout: _Layout) -> Extent | None:
    extent = column.source.bloom_filter(column.chunk)
    return None if extent is None else Extent(layout.add(_segment(column.source, extent)), extent.length)


def _place_column_index(column: _PlacedChunk, layout: _Layout) -> int | None:
    extent = column.chunk.column_index
    return None if extent is None else layout.add(Literal(column.source.bytes_of(extent)))


def _place_offset_index(column: _PlacedChunk, layout: _Layout) -> Extent | None:
    content = moved_index(column.source, column.chunk, column.shift)
    return None if content is None else Extent(layout.add(Literal(content)), len(content))


def _statistics_left_out(placed: list[list[_PlacedChunk]], common: CommonFooter) -> list[frozenset[int]]:
    """Returns, for each column, the statistics to omit from the output."""
    left_out = partial_statistics([[column.chunk.metadata for column in group] for group in placed])
    if common.keeps_bounds:
        return left_out
    # All readers trust bounds of integers, and verification needs those of lineage.
    own = len(left_out) - (COLUMNS if common.has_lineage else 0)
    return [BOUNDS | partial for partial in left_out[:own]] + left_out[own:]


def _chunk(column: _PlacedChunk, left_out: frozenset[int]) -> Struct:
    chunk, shift = column.chunk, column.shift
    metadata: dict[int, tuple[int, Any] | None] = {}
    for field in (MetadataField.DATA_PAGE, MetadataField.INDEX_PAGE, MetadataField.DICTIONARY_PAGE):
        if (found := chunk.metadata.get(field)) is not None:
            # Some writers store zero for a missing page, and some readers would look there.
            metadata[field] = (I64, found[1] + shift) if found[1] else None
    if column.bloom is not None:
        metadata[MetadataField.BLOOM] = (I64, column.bloom.offset)
        metadata[MetadataField.BLOOM_LENGTH] = (I32, column.bloom.length)
    if left_out:
        metadata[MetadataField.STATISTICS] = without_statistics(chunk.metadata, left_out)
    renewed: dict[int, tuple[int, Any] | None] = {
        ChunkField.METADATA: (STRUCT, changed(chunk.metadata, metadata)),
        ChunkField.FILE_OFFSET: (I64, _file_offset(chunk, shift)),
    }
    if column.column_index is not None:
        renewed[ChunkField.COLUMN_INDEX] = (I64, column.column_index)
    else:
        renewed |= {ChunkField.COLUMN_INDEX: None, ChunkField.COLUMN_INDEX_LENGTH: None}
    if column.offset_index is not None:
        renewed[ChunkField.OFFSET_INDEX] = (I64, column.offset_index.offset)
        renewed[ChunkField.OFFSET_INDEX_LENGTH] = (I32, column.offset_index.length)
    else:
        renewed |= {ChunkField.OFFSET_INDEX: None, ChunkField.OFFSET_INDEX_LENGTH: None}
    return changed(chunk.struct, renewed)


def _file_offset(chunk: ColumnChunk, shift: int) -> int:
    """Returns zero, as the format now requires, unless the offset is one of the chunk's pages. Old writers differ."""
    found = chunk.struct.get(ChunkField.FILE_OFFSET, (I64, 0))[1]
    is_page = isinstance(found, int) and chunk.pages.offset <= found < chunk.pages.end
    return found + shift if is_page else 0


def _row_group(
    piece: CopiedRowGroup, placed: list[_PlacedChunk], chunks: list[Struct], ordinal: int, keeps_sorting: bool
) -> Struct:
    """Writes the optional fields of every row group: some readers refuse files in which only some have them."""
    renewed: dict[int, tuple[int, Any] | None] = {
        GroupField.COLUMNS: (LIST, ThriftList(STRUCT, chunks)),
        GroupField.TOTAL_BYTES: (I64, _total(placed, MetadataField.UNCOMPRESSED)),
        GroupField.FILE_OFFSET: (I64, _start(placed)),
        # Engines divide a file by these offsets; with a wrong one, no task would read the row group.
        GroupField.TOTAL_COMPRESSED: (I64, _total(placed, MetadataField.COMPRESSED)),
        GroupField.ORDINAL: (I16, ordinal),
    }
    if not keeps_sorting:
        renewed[GroupField.SORTING_COLUMNS] = None
    return changed(piece.group.struct, renewed)


def _total(placed: list[_PlacedChunk], field: int) -> int:
    return sum(number(column.chunk.metadata, field, "the length of a column") for column in placed)


def _footer(pieces: Sequence[CopiedRowGroup], groups: list[Struct], common: CommonFooter) -> Struct:
    properties: list[Struct] = [
        {1: (BINARY, key)} | ({2: (BINARY, value)} if value is not None else {})
        for key, value in common.key_values.items()
    ]
    fields: dict[int, tuple[int, Any] | None] = {
        FileField.VERSION: (I32, common.version),
        FileField.SCHEMA: common.schema,
        FileField.ROWS: (I64, sum(piece.group.rows for piece in pieces)),
        FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, groups)),
        FileField.KEY_VALUES: (LIST, ThriftList(STRUCT, properties)),
        FileField.CREATED_BY: None if common.created_by is None else (BINARY, common.created_by),
        FileField.COLUMN_ORDERS: common.column_orders,
    }
    return changed({}, fields)
