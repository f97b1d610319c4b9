"""Walks the pages of a column chunk, and checks that each can be read on its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import known_only, number, substruct
from tidyberg.parquet.footer import SchemaLeaf
from tidyberg.parquet.page_headers import DATA_PAGE
from tidyberg.parquet.thrift import Bytes, Struct, read_struct

DATA_PAGE_V2 = 3
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY = 0, 2, 3, 4, 8


class HeaderField:
    TYPE, UNCOMPRESSED, COMPRESSED, CRC, DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(1, 9)
    KNOWN = frozenset(range(1, 9))


@dataclass(frozen=True, slots=True)
class DataPage:
    """A data page with its header."""

    length: int
    uncompressed: int  # includes the header, as sizes in footers do
    values: int
    kind: int  # DATA_PAGE | DATA_PAGE_V2


@dataclass(frozen=True, slots=True)
class PageSpan:
    """The position of a page in the bytes of its chunk."""

    header: Struct
    start: int
    body: int
    end: int

    @property
    def uncompressed(self) -> int:
        """The uncompressed size of the page without its header."""
        return number(self.header, HeaderField.UNCOMPRESSED, "the uncompressed length of a page")

    @property
    def kind(self) -> int:
        return number(self.header, HeaderField.TYPE, "the type of a page")


def page_spans(content: Bytes, position: int = 0) -> Iterator[PageSpan]:
    """Yields all pages from `position` on. Raises CannotCopy unless the last one ends where the chunk ends."""
    while position < len(content):
        try:
            header, body = read_struct(content, position)
        except BadThriftError as error:
            raise CannotCopy(f"a page header is damaged: {error}") from None
        known_only(header, HeaderField.KNOWN, "a page header")
        end = body + number(header, HeaderField.COMPRESSED, "the length of a page")
        if end > len(content):
            raise CannotCopy("its pages continue beyond its end")
        yield PageSpan(header, position, body, end)
        position = end


def plain_pages(found: Iterable[PageSpan], leaf: SchemaLeaf) -> tuple[DataPage, ...]:
    """Returns the pages. Raises CannotCopy unless all are data pages with plain encoding."""
    pages = []
    for span in found:
        values = _plain_values(span, leaf)
        header_bytes = span.body - span.start
        pages.append(DataPage(span.end - span.start, header_bytes + span.uncompressed, values, span.kind))
    return tuple(pages)


def data_header(span: PageSpan, leaf: SchemaLeaf) -> tuple[Struct, int]:
    """Returns the header of a data page and the encoding of its values. Raises CannotCopy unless levels are RLE."""
    what = "the encoding of a page"
    if span.kind == DATA_PAGE:
        data = substruct(span.header, HeaderField.DATA_PAGE, "a page header") or {}
        _check_levels(data, 3, leaf.definition_levels)
        _check_levels(data, 4, leaf.repetition_levels)
        return data, number(data, 2, what)
    if span.kind == DATA_PAGE_V2:
        data = substruct(span.header, HeaderField.DATA_PAGE_V2, "a page header") or {}
        return data, number(data, 4, what)  # its levels are always RLE
    raise CannotCopy("it has pages that are not data pages")


def value_count(data: Struct) -> int:
    """Returns the number of values of a page, including nulls."""
    values = number(data, 1, "the number of values of a page")
    if not values:
        raise CannotCopy("it has pages without values")  # a page index would point readers to them
    return values


def _plain_values(span: PageSpan, leaf: SchemaLeaf) -> int:
    data, encoding = data_header(span, leaf)
    if encoding != PLAIN:
        raise CannotCopy("it has pages that are not plain")
    return value_count(data)


def _check_levels(data: Struct, field: int, levels: int) -> None:
    encoding = number(data, field, "the encoding of levels")
    if encoding != RLE and (levels or encoding != BIT_PACKED):
        raise CannotCopy("its levels are bit-packed, which the format has deprecated")
