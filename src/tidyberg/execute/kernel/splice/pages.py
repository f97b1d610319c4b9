"""Walks the data pages of a column chunk: each must be readable without anything that lies outside of it."""

from dataclasses import dataclass

from tidyberg.execute.kernel.copy.fields import CannotCopy, known_only, number, substruct
from tidyberg.execute.kernel.copy.footer import SchemaLeaf
from tidyberg.execute.kernel.copy.thrift import BadThriftError, Struct, read_struct

DATA_PAGE, DATA_PAGE_V2 = 0, 3
PLAIN, RLE, BIT_PACKED = 0, 3, 4


class HeaderField:
    TYPE, UNCOMPRESSED, COMPRESSED, CRC, DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(1, 9)
    KNOWN = frozenset(range(1, 9))


@dataclass(frozen=True, slots=True)
class Page:
    """A data page, header and all."""

    length: int
    uncompressed: int  # the header counts, as it does in footers
    values: int
    kind: int  # DATA_PAGE | DATA_PAGE_V2


def plain_pages(content: bytes, leaf: SchemaLeaf) -> tuple[Page, ...]:
    """The pages of a chunk, which are all of `content`; raises CannotCopy unless all are plain data pages."""
    pages = []
    position = 0
    while position < len(content):
        try:
            header, start = read_struct(content, position)
        except BadThriftError as error:
            raise CannotCopy(f"a page header is damaged: {error}") from None
        known_only(header, HeaderField.KNOWN, "a page header")
        end = start + number(header, HeaderField.COMPRESSED, "how long a page is")
        if end > len(content):
            raise CannotCopy("its pages go on beyond its end")
        kind, values = _plain_values(header, leaf)
        uncompressed = number(header, HeaderField.UNCOMPRESSED, "how long a page is uncompressed")
        pages.append(Page(end - position, start - position + uncompressed, values, kind))
        position = end
    return tuple(pages)


def _plain_values(header: Struct, leaf: SchemaLeaf) -> tuple[int, int]:
    """The kind of a page, and how many values it holds, nulls among them."""
    kind = number(header, HeaderField.TYPE, "what kind of page it is")
    if kind == DATA_PAGE:
        data = substruct(header, HeaderField.DATA_PAGE, "a page header") or {}
        _check_plain(data, 2)
        _check_levels(data, 3, leaf.definition_levels)
        _check_levels(data, 4, leaf.repetition_levels)
    elif kind == DATA_PAGE_V2:
        data = substruct(header, HeaderField.DATA_PAGE_V2, "a page header") or {}
        _check_plain(data, 4)  # its levels are always RLE
    else:
        raise CannotCopy("it has pages that are not data")
    values = number(data, 1, "how many values a page has")
    if not values:
        raise CannotCopy("it has pages without values")  # by page indexes readers would look for rows in them
    return kind, values


def _check_plain(data: Struct, field: int) -> None:
    if number(data, field, "how a page is encoded") != PLAIN:
        raise CannotCopy("it has pages that are not plain")


def _check_levels(data: Struct, field: int, levels: int) -> None:
    encoding = number(data, field, "how levels are encoded")
    if encoding != RLE and (levels or encoding != BIT_PACKED):
        raise CannotCopy("its levels are not encoded as they are today")
