"""Decodes single pages with Arrow: wraps them in a small Parquet file whose columns are flat and required.

The pages get no levels, so this works for columns at any depth. Levels have the same encoding as dictionary indices. To
decode them, we give Arrow a dictionary with the numbers 0, 1, 2, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.parquet.fields import ChunkField, ElementField, FileField, GroupField, MetadataField
from tidyberg.parquet.footer import MAGIC, REQUIRED
from tidyberg.parquet.page_headers import DATA_PAGE, DICTIONARY_PAGE
from tidyberg.parquet.pages import PLAIN, RLE, RLE_DICTIONARY, HeaderField
from tidyberg.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Bytes,
    Struct,
    ThriftList,
    write_struct,
)

_INT32 = 1
_UNCOMPRESSED = 0


@dataclass(frozen=True, slots=True)
class EncodedPage:
    encoding: int
    values: int
    body: Bytes


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    type: int  # physical
    type_length: int | None
    dictionary: EncodedPage | None
    pages: Sequence[EncodedPage]

    @property
    def values(self) -> int:
        return sum(page.values for page in self.pages)


def level_column(most: int, pages: Sequence[tuple[int, Bytes]]) -> EncodedColumn:
    """Returns a column that decodes levels up to `most`. `pages` has the number of levels and their bytes."""
    numbers = np.arange(most + 1, dtype="<i4").tobytes()
    width = bytes([most.bit_length()])
    return EncodedColumn(
        _INT32,
        None,
        EncodedPage(PLAIN, most + 1, numbers),
        [EncodedPage(RLE_DICTIONARY, count, width + bytes(body)) for count, body in pages],
    )


def decoded(columns: Sequence[EncodedColumn]) -> list[pa.ChunkedArray]:
    """Decodes columns that have the same number of values. Raises pa.ArrowException or OSError on damage."""
    sink = pa.BufferOutputStream()
    sink.write(MAGIC)
    chunks = [_chunk(sink, number, column) for number, column in enumerate(columns)]
    rows = columns[0].values
    schema = [_root(len(columns)), *map(_element, range(len(columns)), columns)]
    footer: Struct = {
        FileField.VERSION: (I32, 2),
        FileField.SCHEMA: (LIST, ThriftList(STRUCT, schema)),
        FileField.ROWS: (I64, rows),
        FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, [_row_group(chunks, rows, sink.tell())])),
    }
    ending = write_struct(footer)
    sink.write(ending + len(ending).to_bytes(4, "little") + MAGIC)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    return file.read(use_threads=False).columns  # type: ignore[no-any-return]


def _root(children: int) -> Struct:
    return {ElementField.NAME: (BINARY, b"root"), ElementField.CHILDREN: (I32, children)}


def _element(number: int, column: EncodedColumn) -> Struct:
    element: Struct = {ElementField.TYPE: (I32, column.type)}
    if column.type_length is not None:
        element[ElementField.TYPE_LENGTH] = (I32, column.type_length)
    return element | {ElementField.REPETITION: (I32, REQUIRED), ElementField.NAME: (BINARY, b"%d" % number)}


def _row_group(chunks: list[Struct], rows: int, size: int) -> Struct:
    return {
        GroupField.COLUMNS: (LIST, ThriftList(STRUCT, chunks)),
        GroupField.TOTAL_BYTES: (I64, size),
        GroupField.ROWS: (I64, rows),
    }


def _chunk(sink: pa.BufferOutputStream, number: int, column: EncodedColumn) -> Struct:
    start = data_start = sink.tell()
    if column.dictionary is not None:
        page = column.dictionary
        inner: Struct = {1: (I32, page.values), 2: (I32, PLAIN)}
        _write_page(sink, page, DICTIONARY_PAGE, HeaderField.DICTIONARY_PAGE, inner)
        data_start = sink.tell()
    for page in column.pages:
        inner = {1: (I32, page.values), 2: (I32, page.encoding), 3: (I32, RLE), 4: (I32, RLE)}
        _write_page(sink, page, DATA_PAGE, HeaderField.DATA_PAGE, inner)
    length = sink.tell() - start
    encodings = sorted({PLAIN, RLE, *(page.encoding for page in column.pages)})
    metadata: Struct = {
        MetadataField.TYPE: (I32, column.type),
        MetadataField.ENCODINGS: (LIST, ThriftList(I32, encodings)),
        MetadataField.PATH: (LIST, ThriftList(BINARY, [b"%d" % number])),
        MetadataField.CODEC: (I32, _UNCOMPRESSED),
        MetadataField.VALUES: (I64, column.values),
        MetadataField.UNCOMPRESSED: (I64, length),
        MetadataField.COMPRESSED: (I64, length),
        MetadataField.DATA_PAGE: (I64, data_start),
    }
    if column.dictionary is not None:
        metadata[MetadataField.DICTIONARY_PAGE] = (I64, start)
    return {ChunkField.FILE_OFFSET: (I64, start), ChunkField.METADATA: (STRUCT, metadata)}


def _write_page(sink: pa.BufferOutputStream, page: EncodedPage, kind: int, field: int, inner: Struct) -> None:
    size = len(page.body)
    header: Struct = {
        HeaderField.TYPE: (I32, kind),
        HeaderField.UNCOMPRESSED: (I32, size),
        HeaderField.COMPRESSED: (I32, size),
        field: (STRUCT, inner),
    }
    sink.write(write_struct(header))
    sink.write(page.body)
