"""Joins many tiny files into one Parquet file in memory: their pages one after the other, under one footer.

With a thousand rows per file, Arrow spends more time on each file, column and page than on the rows, and zstd sets up a
context for each page. The joined file is opened once, and all its pages are decompressed in one call.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.parquet.codecs import CODEC_IDS
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import FileField, structs
from tidyberg.parquet.footer import ENDING, MAGIC, SchemaLeaf, schema_leaves
from tidyberg.parquet.many_footers import all_bounds_fit
from tidyberg.parquet.page_headers import (
    DATA_PAGE,
    HEADER_BYTES,
    PageHeaders,
    padded,
    read_headers,
    write_headers,
)
from tidyberg.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    read_struct,
    varint,
    write_struct,
)
from tidyberg.varints import Buffer, Positions, VarintError

_ZSTD = "ZSTD"
_CODECS = {name.upper(): CODEC_IDS[name] for name in ("uncompressed", "snappy", "gzip", "zstd")}  # as Arrow spells them
_MOST_UNPACKED = 64 * 1024 * 1024  # bytes; a page header with a larger size is treated as damaged
_NUMBER = 5  # bytes of a number in the footer
_EMPTY_LIST = 2  # bytes of an empty list with the header of its field


def _frame_of(length: int) -> bytes:
    """Returns the header of a zstd frame with one raw block of this length."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([length]) + (length << 3 | 1).to_bytes(3, "little")


_HEADER_FRAME = _frame_of(HEADER_BYTES)
_BEGINNING = _frame_of(len(MAGIC)) + MAGIC  # so that no page begins at offset zero, which means "no page"


@dataclass(frozen=True)
class Outline:
    """The parts of a footer that must be equal in all files that are joined: everything except row groups."""

    opening: bytes  # version and schema, as the file has them
    closing: bytes  # the bytes after the row groups
    leaves: tuple[SchemaLeaf, ...]
    created_by: str  # Arrow reads files of some writers differently
    arrow_schema: bytes | None  # some writers store one in addition to the Parquet schema

    @classmethod
    def of(cls, content: pa.Buffer, footer: pq.FileMetaData) -> "Outline | None":
        """Returns the outline of a file, or None if it has fields that cannot be compared with other files."""
        for known in tuple(_recent):  # tasks of one process often read the same table
            if known.fits(content, footer):
                return known
        made = cls._read(content, footer)
        if made is not None:
            _recent.appendleft(made)
        return made

    @classmethod
    def _read(cls, content: pa.Buffer, footer: pq.FileMetaData) -> "Outline | None":
        raw = _raw_footer(content)
        try:
            struct, _ = read_struct(raw)
            leaves = schema_leaves(structs(struct, FileField.SCHEMA, "the schema"))
        except (BadThriftError, CannotCopy):
            return None
        first = {field: struct[field] for field in (FileField.VERSION, FileField.SCHEMA) if field in struct}
        rest = (FileField.KEY_VALUES, FileField.CREATED_BY, FileField.COLUMN_ORDERS)
        opening = write_struct(first)[:-1]
        if not raw.startswith(opening) or struct.keys() - first.keys() - {FileField.ROWS, FileField.ROW_GROUPS, *rest}:
            return None
        last: Struct = {FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, []))}
        last |= {field: struct[field] for field in rest if field in struct}
        return cls(opening, write_struct(last)[_EMPTY_LIST:], tuple(leaves), footer.created_by, _arrow_schema(footer))

    def fits(self, content: pa.Buffer, footer: pq.FileMetaData) -> bool:
        """Returns True if this file has the same outline."""
        return bool(
            _raw_footer(content).startswith(self.opening)
            and footer.created_by == self.created_by
            and _arrow_schema(footer) == self.arrow_schema
        )


_recent: deque[Outline] = deque(maxlen=16)


def _arrow_schema(footer: pq.FileMetaData) -> bytes | None:
    return (footer.metadata or {}).get(b"ARROW:schema")


def _raw_footer(content: pa.Buffer) -> bytes:
    length = int.from_bytes(content[-ENDING:-4].to_pybytes(), "little")
    return bytes(content[max(0, content.size - ENDING - length) : -ENDING])


@dataclass(frozen=True)
class _Chunks:
    """The selected column chunks, one per lane, in the order of files, row groups and columns."""

    first_page: Positions
    data_page: Positions
    ends: Positions
    values: Positions
    group_rows: Positions  # one per row group
    codec: str


def join(
    contents: Sequence[pa.Buffer], footers: Sequence[pq.FileMetaData], outline: Outline, columns: Sequence[int]
) -> tuple[pa.Buffer, pq.FileMetaData] | None:
    """Returns one file with the same rows in the same order and only these columns, or None if files cannot be joined.

    Each chunk must have exactly one data page, after an optional dictionary page, with one value per row. So a wrong
    count in one file cannot shift rows into the next file.
    """
    if any(outline.leaves[column].repeated for column in columns):
        return None
    buffer = Buffer(contents)
    chunks = _chunks(buffer, footers, columns)
    if chunks is None or not all_bounds_fit(buffer, len(outline.opening), outline.leaves):
        return None
    has_dictionary = chunks.first_page < chunks.data_page
    of_data = np.cumsum(1 + has_dictionary) - 1
    of_dictionary = (of_data - 1)[has_dictionary]
    begins = np.empty(len(of_data) + len(of_dictionary), np.int64)
    begins[of_data], begins[of_dictionary] = chunks.data_page, chunks.first_page[has_dictionary]
    ends = np.empty_like(begins)
    ends[of_data], ends[of_dictionary] = chunks.ends, chunks.data_page[has_dictionary]
    try:
        headers = read_headers(buffer, begins)
    except (BadThriftError, VarintError):
        return None
    is_data = np.zeros(len(begins), np.bool_)
    is_data[of_data] = True
    as_expected = (
        headers.known
        & ((headers.kind == DATA_PAGE) == is_data)
        & (headers.ends + headers.compressed == ends)
        & (headers.uncompressed >= 0)
        & (headers.uncompressed <= _MOST_UNPACKED)
    )
    if not as_expected.all() or (headers.values[of_data] != chunks.values).any():
        return None
    if chunks.codec == _ZSTD:
        unpacked = _unpacked(buffer, headers)
        if unpacked is None:
            return None
        body, begins, ends = unpacked
        codec = _CODECS["UNCOMPRESSED"]
    else:
        body, codec = pa.py_buffer(buffer.bytes), _CODECS[chunks.codec]
    first_page = begins[of_data].copy()
    first_page[has_dictionary] = begins[of_dictionary]
    moved = _Chunks(first_page, begins[of_data], ends[of_data], chunks.values, chunks.group_rows, chunks.codec)
    return body, _footer(moved, outline, columns, codec)


def _chunks(buffer: Buffer, footers: Sequence[pq.FileMetaData], columns: Sequence[int]) -> _Chunks | None:
    found: list[int] = []
    group_rows: list[int] = []
    codecs = set()
    for start, end, footer in zip(buffer.starts.tolist(), buffer.ends.tolist(), footers, strict=True):
        rows_before = sum(group_rows)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            rows = group.num_rows
            if not rows:
                continue
            group_rows.append(rows)
            for chunk in map(group.column, columns):
                data = chunk.data_page_offset
                dictionary = chunk.dictionary_page_offset or data
                first = min(dictionary, data)
                length, values = chunk.total_compressed_size, chunk.num_values
                if values != rows or first < len(MAGIC) or length <= 0 or start + first + length > end - ENDING:
                    return None
                found += (start + first, start + data, start + first + length, values)
                codecs.add(chunk.compression)
        if sum(group_rows) - rows_before != footer.num_rows:
            return None
    if len(codecs) != 1 or not codecs <= _CODECS.keys():
        return None
    first_page, data_page, ends, values = np.array(found, np.int64).reshape(-1, 4).T
    return _Chunks(first_page, data_page, ends, values, np.array(group_rows, np.int64), codecs.pop())


def _unpacked(buffer: Buffer, headers: PageHeaders) -> tuple[pa.Buffer, Positions, Positions] | None:
    """Returns all pages decompressed, with new page headers, and the positions where each begins and ends.

    The stream that zstd decompresses has the new headers between the pages, in raw frames. If every header comes out
    at its expected position, every page is as long as its header says.
    """
    written = write_headers(headers)
    frames = np.empty((len(written), len(_HEADER_FRAME) + HEADER_BYTES), np.uint8)
    frames[:, : len(_HEADER_FRAME)] = np.frombuffer(_HEADER_FRAME, np.uint8)
    frames[:, len(_HEADER_FRAME) :] = written
    packed_headers, packed = frames.reshape(-1).data, buffer.bytes.data
    width = frames.shape[1]
    heads = (packed_headers[at : at + width] for at in range(0, frames.size, width))
    ends = headers.ends + headers.compressed
    pages = (packed[begin:end] for begin, end in zip(headers.ends.tolist(), ends.tolist(), strict=True))
    page_bytes = HEADER_BYTES + headers.uncompressed
    page_ends = len(MAGIC) + np.cumsum(page_bytes)
    page_begins = page_ends - page_bytes
    if page_ends[-1] > _MOST_UNPACKED:
        return None
    stream = b"".join(chain([_BEGINNING], chain.from_iterable(zip(heads, pages, strict=True))))
    try:
        body = pa.Codec("zstd").decompress(stream, int(page_ends[-1]))
    except (OSError, pa.ArrowException):
        return None
    found = np.frombuffer(body, np.uint8)[page_begins[:, None] + np.arange(HEADER_BYTES)]
    if not np.array_equal(found, written):
        return None
    return body, page_begins, page_ends


def _footer(chunks: _Chunks, outline: Outline, columns: Sequence[int], codec: int) -> pq.FileMetaData:
    groups, width = len(chunks.group_rows), len(columns)
    template, slots = _group_template(outline.leaves, codec)
    numbers = np.zeros((groups, len(outline.leaves), 5), np.int64)
    length = chunks.ends - chunks.first_page
    has_dictionary = chunks.first_page < chunks.data_page
    dictionary = np.where(has_dictionary, chunks.first_page, 0)  # Arrow ignores zero, which means "no dictionary"
    of_columns = np.stack([chunks.values, length, length, chunks.data_page, dictionary], axis=-1)
    numbers[:, list(columns)] = of_columns.reshape(groups, width, 5)
    totals = np.stack([length.reshape(groups, width).sum(axis=1), chunks.group_rows], axis=-1)
    rows: npt.NDArray[np.uint8] = np.tile(np.frombuffer(template, np.uint8), (groups, 1))
    rows[:, slots[:, None] + np.arange(_NUMBER)] = padded(
        np.concatenate([numbers.reshape(groups, -1), totals], axis=1), _NUMBER
    )
    counted = write_struct({FileField.ROWS: (I64, int(chunks.group_rows.sum()))})[1:-1]
    start = outline.opening + b"\x16" + counted + b"\x19\xfc" + varint(groups)
    footer = start + rows.tobytes() + outline.closing
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))


def _group_template(leaves: Sequence[SchemaLeaf], codec: int) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Returns the bytes of a row group, and the positions of the numbers to fill in: of columns, then its own."""
    template = bytearray(b"\x19\xfc" + varint(len(leaves)))
    slots = []
    for leaf in leaves:
        metadata: Struct = {
            1: (I32, leaf.type),
            2: (LIST, ThriftList(I32, [0])),
            3: (LIST, ThriftList(BINARY, list(leaf.path))),
            4: (I32, codec),
        }
        template += write_struct({2: (I64, 0), 3: (STRUCT, metadata)})[:-2]
        for field in b"\x16\x16\x16\x26\x26":  # values, sizes, first data page, dictionary page
            template.append(field)
            slots.append(len(template))
            template += bytes(_NUMBER)
        template += bytes(2)
    for _ in range(2):
        template.append(0x16)
        slots.append(len(template))
        template += bytes(_NUMBER)
    template.append(0)
    return bytes(template), np.array(slots)
