"""Reads what a copy must know of an input file: its footer, page indexes and bloom filter headers."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import IndexField, LocationField, changed, known_only, number, structs
from tidyberg.parquet.footer import ENDING, ColumnChunk, Extent, Footer, footer_length, parse_footer
from tidyberg.parquet.thrift import I64, STRUCT, Bytes, Struct, ThriftList, read_struct, write_struct
from tidyberg.storage.file_io import Storage

ReadRange = Callable[[str, int, int], bytes]  # path, offset, length
_KB = 1024
_SMALLEST_TAIL, _LARGEST_TAIL = 16 * _KB, 256 * _KB
_TAIL_PART = 256  # the first request asks for this fraction of the file: indexes grow with the file
_NEAR = 64 * _KB  # one request reads pieces that are this close to each other
_LARGEST_INDEX = 1 << 30
_BLOOM_HEADER = 64  # the header of a bloom filter is shorter than this
_PARQUET_MR = re.compile(rb"parquet-mr version (\d+)\.(\d+)")
# Older versions wrote chunk lengths without a page header (PARQUET-816), and pages that readers must know how to fix.
_FIRST_SOUND_PARQUET_MR = (1, 10)


@dataclass(frozen=True)
class Source:
    """An input file: everything except its row groups is in memory."""

    input: TaskInput
    footer: Footer
    arrow_footer: pq.FileMetaData  # the same footer, read by Arrow, which knows whose statistics to trust
    _pieces: dict[int, bytes] = field(repr=False)  # by offset in the file
    whole: Bytes | None = field(default=None, repr=False)  # the content of a file that exists only in memory

    @property
    def groups_with_rows(self) -> list[int]:
        return [number for number, group in enumerate(self.footer.row_groups) if group.rows]

    def bytes_of(self, extent: Extent) -> bytes:
        for start, content in self._pieces.items():
            if start <= extent.offset and extent.end <= start + len(content):
                return content[extent.offset - start : extent.end - start]
        raise AssertionError(f"{extent} of {self.input.path} was not read")

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Returns bytes of a file that exists only in memory."""
        assert self.whole is not None
        return bytes(self.whole[offset : offset + length])

    def page_locations(self, chunk: ColumnChunk) -> Struct | None:
        """Returns the chunk's offset index, if it has one. Raises CannotCopy if it contradicts the footer."""
        if chunk.offset_index is None:
            return None
        index = _struct(self.bytes_of(chunk.offset_index), "its offset index")
        known_only(index, IndexField.KNOWN, "its offset index")
        position = chunk.first_data_page
        for location in structs(index, IndexField.PAGE_LOCATIONS, "an offset index"):
            known_only(location, LocationField.KNOWN, "its offset index")
            if number(location, LocationField.OFFSET, "the offset of a page") != position:
                raise CannotCopy("its offset index does not agree with its footer")
            position += number(location, LocationField.LENGTH, "the length of a page")
        if position != chunk.pages.end:
            raise CannotCopy("its offset index does not agree with its footer")
        return index

    def column_index(self, chunk: ColumnChunk) -> Struct | None:
        """Returns the chunk's column index, if it has one."""
        if chunk.column_index is None:
            return None
        return _struct(self.bytes_of(chunk.column_index), "its column index")

    def bloom_filter(self, chunk: ColumnChunk) -> Extent | None:
        """Returns where the chunk's bloom filter is, with its header."""
        if chunk.bloom_offset is None:
            return None
        if chunk.bloom_length:
            return Extent(chunk.bloom_offset, chunk.bloom_length)
        start = chunk.bloom_offset
        header = self.bytes_of(Extent(start, min(_BLOOM_HEADER, self.input.size - start)))
        struct, header_length = _read(header, "its bloom filter")
        extent = Extent(start, header_length + number(struct, 1, "the length of a bloom filter"))
        if extent.end > self.input.size:
            raise CannotCopy("its bloom filter would be outside the file")
        return extent


def storage_reader(storage: Storage) -> ReadRange:
    """Returns a function that reads a range of a file with one request."""

    def read(path: str, offset: int, length: int) -> bytes:
        return bytes(storage.read_range(storage.place(path), offset, length))

    return read


def open_source(file: TaskInput, read_range: ReadRange, whole: Bytes | None = None) -> Source:
    """Opens a file. Raises CannotCopy with a reason that names it."""
    try:
        return _open(file, read_range, whole)
    except CannotCopy as refusal:
        raise type(refusal)(f"{file.path}: {refusal}") from None


def check_writer(source: Source) -> None:
    """Raises CannotCopy if the writer is known for wrong statistics or encodings."""
    match = _PARQUET_MR.match(source.footer.created_by or b"")
    if match and (int(match[1]), int(match[2])) < _FIRST_SOUND_PARQUET_MR:
        raise CannotCopy(
            f"{source.input.path} was written by {match[0].decode()}, which is known for wrong statistics and encodings"
        )


def moved_index(source: Source, chunk: ColumnChunk, shift: int) -> bytes | None:
    """Returns the chunk's offset index for pages that were moved by `shift` bytes."""
    index = source.page_locations(chunk)
    if index is None:
        return None
    kind, locations = index[IndexField.PAGE_LOCATIONS]
    moved = [
        changed(location, {LocationField.OFFSET: (I64, location[LocationField.OFFSET][1] + shift)})
        for location in locations.items
    ]
    return write_struct(changed(index, {IndexField.PAGE_LOCATIONS: (kind, ThriftList(STRUCT, moved))}))


def _open(file: TaskInput, read_range: ReadRange, whole: Bytes | None) -> Source:
    def read(extent: Extent) -> bytes:
        content = read_range(file.path, extent.offset, extent.length)
        if len(content) != extent.length:
            raise CannotCopy("it is shorter than the table's manifest says")
        return content

    wanted = min(file.size, max(_SMALLEST_TAIL, min(_LARGEST_TAIL, file.size // _TAIL_PART)))
    if wanted < ENDING:
        raise CannotCopy("it does not end like a Parquet file")
    tail = Extent(file.size - wanted, wanted)
    pieces = {tail.offset: read(tail)}
    length = footer_length(pieces[tail.offset], file.size)
    footer_start = file.size - ENDING - length
    if footer_start < tail.offset:
        missing = Extent(footer_start, tail.offset - footer_start)
        pieces = {footer_start: read(missing) + pieces[tail.offset]}
    start, content = next(iter(pieces.items()))
    footer = parse_footer(content[footer_start - start : -ENDING], file.size)
    if footer.rows != file.records:
        raise CannotCopy(f"it holds {footer.rows} rows, but the table's manifest says {file.records}")
    for extent in _coalesced(_needed(footer, file.size, start)):
        pieces[extent.offset] = read(extent)
    return Source(file, footer, _arrow_footer(content), pieces, whole)


def _needed(footer: Footer, size: int, have: int) -> Iterable[Extent]:
    """Yields the indexes and bloom filter headers that are not in the tail, which begins at `have`."""
    for group in footer.row_groups:
        for chunk in group.chunks:
            wanted = [chunk.column_index, chunk.offset_index]
            if chunk.bloom_offset is not None and not chunk.bloom_length:
                wanted.append(Extent(chunk.bloom_offset, min(_BLOOM_HEADER, size - chunk.bloom_offset)))
            yield from (extent for extent in wanted if extent is not None and extent.offset < have)


def _coalesced(extents: Iterable[Extent]) -> list[Extent]:
    """Merges pieces that are near each other, so that one request reads them."""
    found: list[Extent] = []
    for extent in sorted(extents, key=lambda extent: extent.offset):
        if found and extent.offset <= found[-1].end + _NEAR:
            end = max(found[-1].end, extent.end)
            found[-1] = Extent(found[-1].offset, end - found[-1].offset)
        else:
            found.append(extent)
    if sum(extent.length for extent in found) > _LARGEST_INDEX:
        raise CannotCopy("its page indexes are too large")
    return found


def _arrow_footer(tail: bytes) -> pq.FileMetaData:
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (OSError, pa.ArrowException) as error:
        raise CannotCopy(f"Arrow cannot read its footer: {error}") from None


def _struct(content: bytes, what: str) -> Struct:
    struct, end = _read(content, what)
    if end != len(content):
        raise CannotCopy(f"{what} has bytes left over at its end")
    return struct


def _read(content: bytes, what: str) -> tuple[Struct, int]:
    try:
        return read_struct(content)
    except BadThriftError as error:
        raise CannotCopy(f"{what} is damaged: {error}") from None
