"""Turns a dictionary page into a data page if its entries are the values of the column in order.

Arrow tries a dictionary for every column and keeps it up to a megabyte. For unique keys and texts, the
dictionary has an entry per row, and the indices count up. This module decodes only indices and levels; the values stay
compressed. The new page has version 2, because there levels are not part of the compressed bytes.
"""

from collections.abc import Sequence

import pyarrow as pa

from tidyberg.parquet.codecs import arrow_name
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import number, substruct
from tidyberg.parquet.footer import SchemaLeaf
from tidyberg.parquet.levels import Levels, counts_up, decode_levels, encode_levels
from tidyberg.parquet.page_headers import DATA_PAGE, DICTIONARY_PAGE
from tidyberg.parquet.pages import (
    DATA_PAGE_V2,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    DataPage,
    HeaderField,
    PageSpan,
    data_header,
    page_spans,
    plain_pages,
    value_count,
)
from tidyberg.parquet.thrift import I32, STRUCT, TRUE, Bytes, Struct, write_struct

_LENGTH_BYTES = 4  # of the length before the levels in a page of version 1
_LARGEST_PAGE = 16 << 20  # bytes of indices, uncompressed; writers use far smaller pages


class _V2:
    VALUES, NULLS, ROWS, ENCODING, DEFINITION_BYTES, REPETITION_BYTES, IS_COMPRESSED = range(1, 8)


def unfolded(content: Bytes, leaf: SchemaLeaf, compression: str) -> tuple[tuple[Bytes, ...], tuple[DataPage, ...]]:
    """Returns a chunk with a dictionary as plain pages with the same values in the same order. Raises CannotCopy."""
    dictionary, *others = page_spans(content)
    entries = _entries(dictionary, leaf)
    folded: list[Levels] = []
    seen = 0
    for span in others:
        data, encoding = data_header(span, leaf)
        if encoding not in (PLAIN_DICTIONARY, RLE_DICTIONARY):
            break
        levels, indices = _opened(content, span, data, leaf, compression)
        if not counts_up(indices, seen, levels.present):
            raise CannotCopy("it has a dictionary whose entries are used more than once")
        seen += levels.present
        folded.append(levels)
    if seen != entries:
        raise CannotCopy("it has a dictionary with entries that are not used")
    plain = others[len(folded) :]
    rest = plain_pages(plain, leaf)
    header, page = _data_page(dictionary, folded, leaf, compression)
    values = content[dictionary.body : dictionary.end]
    return (header, values, content[plain[0].start :] if plain else b""), (page, *rest)


def _entries(span: PageSpan, leaf: SchemaLeaf) -> int:
    described = substruct(span.header, HeaderField.DICTIONARY_PAGE, "a page header")
    if span.kind != DICTIONARY_PAGE or described is None:
        raise CannotCopy("it does not begin with its dictionary")
    if number(described, 2, "the encoding of a dictionary") not in (PLAIN, PLAIN_DICTIONARY):
        raise CannotCopy("its dictionary is not plain")
    entries = number(described, 1, "the number of entries of a dictionary")
    if not entries or (leaf.value_bytes is not None and span.uncompressed != entries * leaf.value_bytes):
        raise CannotCopy("its dictionary does not hold the entries that it counts")
    return entries


def _opened(content: Bytes, span: PageSpan, data: Struct, leaf: SchemaLeaf, compression: str) -> tuple[Levels, bytes]:
    """Returns the levels and the indices of a page."""
    values, most = value_count(data), leaf.definition_levels
    if span.kind == DATA_PAGE:
        body = _decompressed(bytes(content[span.body : span.end]), span.uncompressed, compression)
        if not most:
            return Levels(values, values, None), body
        end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
        return decode_levels(body[_LENGTH_BYTES:end], values, most), body[end:]
    if number(data, _V2.REPETITION_BYTES, "the length of levels"):
        raise CannotCopy("it has lists or maps")
    length = number(data, _V2.DEFINITION_BYTES, "the length of levels")
    indices = bytes(content[span.body + length : span.end])
    if data.get(_V2.IS_COMPRESSED, (TRUE, True))[1]:
        indices = _decompressed(indices, span.uncompressed - length, compression)
    if not most:
        return Levels(values, values, None), indices
    return decode_levels(bytes(content[span.body : span.body + length]), values, most), indices


def _decompressed(body: bytes, size: int, compression: str) -> bytes:
    if compression == "uncompressed":
        return body
    if not 0 <= size <= _LARGEST_PAGE:
        raise CannotCopy("it has a page of indices that is too large")
    try:
        found = pa.decompress(body, decompressed_size=size, codec=arrow_name(compression), asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise CannotCopy(f"a page is damaged: {error}") from None
    return bytes(found)


def _data_page(
    dictionary: PageSpan, folded: Sequence[Levels], leaf: SchemaLeaf, compression: str
) -> tuple[bytes, DataPage]:
    """Returns the page header with the levels after it. The bytes of the dictionary follow them."""
    values, present = sum(page.values for page in folded), sum(page.present for page in folded)
    levels = encode_levels(folded, leaf.definition_levels) if leaf.definition_levels else b""
    stored = dictionary.end - dictionary.body
    described: Struct = {
        _V2.VALUES: (I32, values),
        _V2.NULLS: (I32, values - present),
        _V2.ROWS: (I32, values),
        _V2.ENCODING: (I32, PLAIN),
        _V2.DEFINITION_BYTES: (I32, len(levels)),
        _V2.REPETITION_BYTES: (I32, 0),
        _V2.IS_COMPRESSED: (TRUE, compression != "uncompressed"),
    }
    header = write_struct(
        {
            HeaderField.TYPE: (I32, DATA_PAGE_V2),
            HeaderField.UNCOMPRESSED: (I32, len(levels) + dictionary.uncompressed),
            HeaderField.COMPRESSED: (I32, len(levels) + stored),
            HeaderField.DATA_PAGE_V2: (STRUCT, described),
        }
    )
    length = len(header) + len(levels)
    return header + levels, DataPage(length + stored, length + dictionary.uncompressed, values, DATA_PAGE_V2)
