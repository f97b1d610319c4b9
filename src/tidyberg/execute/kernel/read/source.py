"""Reads of an input file what a copy must know: its footer, its page indexes, the headers of its bloom filters."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import IndexField, LocationField, changed, known_only, number, structs
from tidyberg.parquet.footer import ENDING, Chunk, Extent, Footer, footer_length, parse_footer
from tidyberg.parquet.thrift import I64, STRUCT, Bytes, Struct, ThriftList, read_struct, write_struct
from tidyberg.storage.file_io import Storage

ReadRange = Callable[[str, int, int], bytes]  # path, offset, length
_KB = 1024
_SMALLEST_TAIL, _LARGEST_TAIL = 16 * _KB, 256 * _KB
_TAIL_PART = 256  # the tail to ask for first is this part of the file: indexes grow with it
_NEAR = 64 * _KB  # pieces this close to each other are read together
_LARGEST_INDEX = 1 << 30
_BLOOM_HEADER = 64  # more than the header of a bloom filter takes


_PARQUET_MR = re.compile(rb"parquet-mr version (\d+)\.(\d+)")
_FIRST_SOUND_PARQUET_MR = (1, 10)


@dataclass(frozen=True)
class Source:
    """An input file, with all in memory that is not row groups."""

    input: TaskInput
    footer: Footer
    arrow_footer: pq.FileMetaData  # the same footer as Arrow reads it, which judges what statistics are worth
    _pieces: dict[int, bytes] = field(repr=False)  # by their offset in the file
    whole: Bytes | None = field(default=None, repr=False)  # of a file that is nowhere but in memory

    @property
    def groups_with_rows(self) -> list[int]:
        return [number for number, group in enumerate(self.footer.row_groups) if group.rows]

    def bytes_of(self, extent: Extent) -> bytes:
        for start, content in self._pieces.items():
            if start <= extent.offset and extent.end <= start + len(content):
                return content[extent.offset - start : extent.end - start]
        raise AssertionError(f"{extent} of {self.input.path} was not read")

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Any bytes of a file that is in memory."""
        assert self.whole is not None
        return bytes(self.whole[offset : offset + length])

    def page_locations(self, chunk: Chunk) -> Struct | None:
        """The chunk's offset index, if it has one that agrees with the footer."""
        if chunk.offset_index is None:
            return None
        index = _struct(self.bytes_of(chunk.offset_index), "an offset index of it")
        known_only(index, IndexField.KNOWN, "an offset index of it")
        position = chunk.first_data_page
        for location in structs(index, IndexField.PAGE_LOCATIONS, "an offset index"):
            known_only(location, LocationField.KNOWN, "an offset index of it")
            if number(location, LocationField.OFFSET, "where a page is") != position:
                raise CannotCopy("an offset index of it does not agree with its footer")
            position += number(location, LocationField.LENGTH, "how long a page is")
        if position != chunk.pages.end:
            raise CannotCopy("an offset index of it does not agree with its footer")
        return index

    def column_index(self, chunk: Chunk) -> Struct | None:
        """What the chunk's column index says of its pages."""
        if chunk.column_index is None:
            return None
        return _struct(self.bytes_of(chunk.column_index), "a column index of it")

    def bloom_filter(self, chunk: Chunk) -> Extent | None:
        """Where the chunk's bloom filter lies, header and bits."""
        if chunk.bloom_offset is None:
            return None
        if chunk.bloom_length:
            return Extent(chunk.bloom_offset, chunk.bloom_length)
        start = chunk.bloom_offset
        header = self.bytes_of(Extent(start, min(_BLOOM_HEADER, self.input.size - start)))
        struct, header_length = _read(header, "a bloom filter of it")
        extent = Extent(start, header_length + number(struct, 1, "how long a bloom filter is"))
        if extent.end > self.input.size:
            raise CannotCopy("a bloom filter of it would lie outside of the file")
        return extent


def storage_reader(storage: Storage) -> ReadRange:
    """Ranges of files, each by one request."""

    def read(path: str, offset: int, length: int) -> bytes:
        return bytes(storage.read_range(storage.place(path), offset, length))

    return read


def open_source(file: TaskInput, read_range: ReadRange, whole: Bytes | None = None) -> Source:
    """Raises CannotCopy with a reason that names the file."""
    try:
        return _open(file, read_range, whole)
    except CannotCopy as refusal:
        raise type(refusal)(f"{file.path}: {refusal}") from None


def check_writer(source: Source) -> None:
    """Raises CannotCopy for files of writers whose statistics or encodings are known to be wrong."""
    match = _PARQUET_MR.match(source.footer.created_by or b"")
    if match and (int(match[1]), int(match[2])) < _FIRST_SOUND_PARQUET_MR:
        raise CannotCopy(f"{source.input.path} was written by {match[0].decode()}, whose files need special care")


def moved_index(source: Source, chunk: Chunk, shift: int) -> bytes | None:
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
        raise CannotCopy("it does not end as a Parquet file does")
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
    for extent in _together(_needed(footer, file.size, start)):
        pieces[extent.offset] = read(extent)
    return Source(file, footer, _arrow_footer(content), pieces, whole)


def _needed(footer: Footer, size: int, have: int) -> Iterable[Extent]:
    """Pieces to know besides the footer, but for those that lie in the tail, which begins at `have`."""
    for group in footer.row_groups:
        for chunk in group.chunks:
            wanted = [chunk.column_index, chunk.offset_index]
            if chunk.bloom_offset is not None and not chunk.bloom_length:
                wanted.append(Extent(chunk.bloom_offset, min(_BLOOM_HEADER, size - chunk.bloom_offset)))
            yield from (extent for extent in wanted if extent is not None and extent.offset < have)


def _together(extents: Iterable[Extent]) -> list[Extent]:
    """What to read: pieces near to each other at once."""
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
        raise CannotCopy(f"{what} is longer than what it holds")
    return struct


def _read(content: bytes, what: str) -> tuple[Struct, int]:
    try:
        return read_struct(content)
    except BadThriftError as error:
        raise CannotCopy(f"{what} is damaged: {error}") from None
