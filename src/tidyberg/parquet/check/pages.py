"""Decodes the pages of a column chunk one by one: headers, checksums, levels and values."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.parquet.check.decode import EncodedColumn, EncodedPage, decoded, level_column
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.codecs import ARROW_NAMES, HADOOP_LZ4
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import known_only, number, optional_number, substruct
from tidyberg.parquet.footer import FIXED_BYTE_ARRAY, SchemaLeaf
from tidyberg.parquet.levels import decode_levels
from tidyberg.parquet.page_headers import DATA_PAGE, DICTIONARY_PAGE
from tidyberg.parquet.pages import (
    DATA_PAGE_V2,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    RLE_DICTIONARY,
    HeaderField,
)
from tidyberg.parquet.thrift import Struct, read_struct

DICTIONARY_ENCODINGS = (PLAIN_DICTIONARY, RLE_DICTIONARY)
_KINDS = {DATA_PAGE: HeaderField.DATA_PAGE, DICTIONARY_PAGE: HeaderField.DICTIONARY_PAGE,
          DATA_PAGE_V2: HeaderField.DATA_PAGE_V2}  # fmt: skip
_BATCH_BYTES = 64 << 20  # decoded at a time

Counts = npt.NDArray[np.int64]
LevelArray = npt.NDArray[np.uint8] | npt.NDArray[np.int32]


class PageDamage(Exception):  # noqa: N818 - reported as a problem of the file
    """Pages cannot be walked or decoded."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page with its parsed header."""

    number: int  # among the pages of its kind
    kind: int
    offset: int  # in the file
    header: Struct
    data: Struct  # the header of its kind
    header_bytes: int
    body: memoryview

    @property
    def length(self) -> int:
        return self.header_bytes + len(self.body)

    @property
    def uncompressed(self) -> int:
        return number(self.header, HeaderField.UNCOMPRESSED, "the uncompressed length of a page")

    @property
    def values(self) -> int:
        return number(self.data, 1, "the number of values of a page")

    @property
    def encoding(self) -> int:
        return number(self.data, 4 if self.kind == DATA_PAGE_V2 else 2, "the encoding of a page")

    @property
    def statistics(self) -> Struct:
        return substruct(self.data, 8 if self.kind == DATA_PAGE_V2 else 5, "the statistics of a page") or {}


@dataclass(frozen=True)
class Batch:
    """Some decoded data pages of a chunk."""

    pages: Sequence[StoredPage]
    definitions: LevelArray | None  # None if the column is required
    definition_counts: Counts  # per page and level
    repetition_counts: Counts
    first_repetitions: Sequence[int]  # of each page; zero if it begins with a new row
    present: Sequence[int]  # values of each page that are not null
    values: pa.Array  # the values of all pages that are not null

    @property
    def starts(self) -> list[int]:
        return [0, *np.cumsum(self.present).tolist()]


def walk(content: memoryview, offset: int, findings: Findings) -> list[StoredPage]:
    """Returns all pages of a chunk that begins at `offset` in the file. Raises PageDamage."""
    found: list[StoredPage] = []
    position, counts = 0, {DATA_PAGE: 0, DICTIONARY_PAGE: 0}
    while position < len(content):
        try:
            header, body = read_struct(content, position)
            known_only(header, HeaderField.KNOWN, "a page header")
            kind = number(header, HeaderField.TYPE, "the type of a page")
            end = body + number(header, HeaderField.COMPRESSED, "the length of a page")
            data = substruct(header, _KINDS[kind], "a page header") if kind in _KINDS else None
        except (BadThriftError, CannotCopy) as error:
            raise PageDamage(f"the page header at {offset + position} is damaged: {error}") from None
        if data is None:
            raise PageDamage(f"the page at {offset + position} has a type that the format does not allow here")
        if end > len(content):
            raise PageDamage(f"the page at {offset + position} ends beyond the end of its chunk")
        counted = DICTIONARY_PAGE if kind == DICTIONARY_PAGE else DATA_PAGE
        page = StoredPage(counts[counted], kind, offset + position, header, data, body - position, content[body:end])
        counts[counted] += 1
        found.append(page)
        _check_checksum(page, findings)
        position = end
    return found


def _check_checksum(page: StoredPage, findings: Findings) -> None:
    said = page.header.get(HeaderField.CRC)
    if said is not None and said[1] & 0xFFFFFFFF != zlib.crc32(page.body):
        findings.add("checksum", f"the checksum of the {_name(page)} is wrong", page.number)


def _name(page: StoredPage) -> str:
    return "dictionary page" if page.kind == DICTIONARY_PAGE else "data page"


def batches(pages: Sequence[StoredPage], leaf: SchemaLeaf, codec: int) -> Iterator[Batch]:
    """Yields the data pages, decoded in batches. Raises PageDamage."""
    dictionary = None
    if pages and pages[0].kind == DICTIONARY_PAGE:
        dictionary = EncodedPage(PLAIN, pages[0].values, _decompressed(pages[0].body, pages[0].uncompressed, codec))
    waiting: list[StoredPage] = []
    size = 0
    for page in pages:
        if page.kind == DICTIONARY_PAGE:
            continue
        if waiting and size + page.uncompressed > _BATCH_BYTES:
            yield _decode(waiting, leaf, codec, dictionary)
            waiting, size = [], 0
        waiting.append(page)
        size += page.uncompressed
    if waiting:
        yield _decode(waiting, leaf, codec, dictionary)


def _decode(pages: Sequence[StoredPage], leaf: SchemaLeaf, codec: int, dictionary: EncodedPage | None) -> Batch:
    try:
        return _decode_pages(pages, leaf, codec, dictionary)
    except (pa.ArrowException, OSError, CannotCopy, ValueError) as error:
        raise PageDamage(f"pages {pages[0].number} to {pages[-1].number} cannot be decoded: {error}") from None


def _decode_pages(pages: Sequence[StoredPage], leaf: SchemaLeaf, codec: int, dictionary: EncodedPage | None) -> Batch:
    opened = [_opened(page, leaf, codec) for page in pages]
    counts = [page.values for page in pages]
    repetitions = _levels(leaf.repetition_levels, counts, [one[0] for one in opened])
    definitions = _levels(leaf.definition_levels, counts, [one[1] for one in opened])
    repetition_counts = _histograms(repetitions, counts, leaf.repetition_levels)
    definition_counts = _histograms(definitions, counts, leaf.definition_levels)
    present = definition_counts[:, -1].tolist()
    starts = np.cumsum([0, *counts[:-1]])
    first = (
        [0] * len(pages)
        if repetitions is None
        else [int(repetitions[start]) if count else 0 for start, count in zip(starts.tolist(), counts, strict=True)]
    )
    encoded = [
        EncodedPage(page.encoding, count, one[2])
        for page, count, one in zip(pages, present, opened, strict=True)
        if count
    ]
    return Batch(
        pages, definitions, definition_counts, repetition_counts, first, present, _values(encoded, leaf, dictionary)
    )


def _values(encoded: list[EncodedPage], leaf: SchemaLeaf, dictionary: EncodedPage | None) -> pa.Array:
    length = leaf.value_bytes if leaf.type == FIXED_BYTE_ARRAY else None
    uses = any(page.encoding in DICTIONARY_ENCODINGS for page in encoded)
    if uses and dictionary is None:
        raise PageDamage("pages refer to a dictionary, but the chunk has none")
    if not encoded:
        return pa.nulls(0)
    (column,) = decoded([EncodedColumn(leaf.type, length, dictionary if uses else None, encoded)])
    if len(column) != sum(page.values for page in encoded):
        raise PageDamage(
            f"pages should hold {sum(page.values for page in encoded)} values, but {len(column)} were found"
        )
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _levels(most: int, counts: Sequence[int], contents: Sequence[memoryview | bytes]) -> LevelArray | None:
    if not most:
        return None
    filled = [(count, content) for count, content in zip(counts, contents, strict=True) if count]
    if not filled:
        return np.zeros(0, np.uint8)
    try:
        return np.concatenate([_few_runs(content, count, most) for count, content in filled])
    except CannotCopy:  # many runs, or damage, for which Arrow's message says more
        (column,) = decoded([level_column(most, filled)])
    found = column.to_numpy()
    if len(found) != sum(counts):
        raise PageDamage(f"pages have {len(found)} levels for {sum(counts)} values")
    return found  # type: ignore[no-any-return]


def _few_runs(content: memoryview | bytes, count: int, most: int) -> LevelArray:
    levels = decode_levels(bytes(content), count, most)
    return np.full(count, most, np.uint8) if levels.each is None else levels.each


def _histograms(levels: LevelArray | None, counts: Sequence[int], most: int) -> Counts:
    if levels is None:
        return np.asarray(counts, np.int64).reshape(-1, 1)
    if most == 1 and all(counts):  # a fast path for most columns
        ones = np.add.reduceat(levels, np.cumsum([0, *counts[:-1]]), dtype=np.int64)
        return np.stack([np.asarray(counts, np.int64) - ones, ones], axis=1)
    pages = np.repeat(np.arange(len(counts)), counts)
    found = np.bincount(pages * (most + 1) + levels, minlength=len(counts) * (most + 1))
    return found.reshape(len(counts), most + 1)


def _opened(page: StoredPage, leaf: SchemaLeaf, codec: int) -> tuple[memoryview, memoryview, memoryview]:
    """Returns the bytes of the repetition levels, the definition levels and the values."""
    if page.kind == DATA_PAGE_V2:
        return _opened_v2(page, codec)
    content = _decompressed(page.body, page.uncompressed, codec)
    empty = content[:0]
    repetitions = definitions = empty
    if leaf.repetition_levels and page.values:
        repetitions, content = _measured(content, number(page.data, 4, "the encoding of levels"))
    if leaf.definition_levels and page.values:
        definitions, content = _measured(content, number(page.data, 3, "the encoding of levels"))
    return repetitions, definitions, content


def _opened_v2(page: StoredPage, codec: int) -> tuple[memoryview, memoryview, memoryview]:
    definition_bytes = number(page.data, 5, "the length of definition levels")
    repetition_bytes = number(page.data, 6, "the length of repetition levels")
    levels = definition_bytes + repetition_bytes
    if levels > len(page.body) or levels > page.uncompressed:
        raise PageDamage(f"the levels of page {page.number} are longer than the page")
    content = page.body[levels:]
    if page.data.get(7, (0, True))[1]:
        content = _decompressed(content, page.uncompressed - levels, codec)
    elif len(content) != page.uncompressed - levels:
        raise PageDamage(f"page {page.number} is not as long as its header says")
    return page.body[:repetition_bytes], page.body[repetition_bytes:levels], content


def _measured(content: memoryview, encoding: int) -> tuple[memoryview, memoryview]:
    """Splits content into levels, which begin with their length, and the rest."""
    if encoding != RLE:
        raise PageDamage("levels are bit-packed, which the format has deprecated")
    length = int.from_bytes(content[:4], "little")
    if 4 + length > len(content):
        raise PageDamage("levels are longer than their page")
    return content[4 : 4 + length], content[4 + length :]


def _decompressed(content: memoryview, size: int, codec: int) -> memoryview:
    if codec == 0:
        if len(content) != size:
            raise PageDamage(f"a page has {len(content)} bytes, its header says {size}")
        return content
    if not len(content) and not size:
        return content
    try:
        if codec == HADOOP_LZ4:
            return memoryview(_hadoop_lz4(content, size))
        found = pa.Codec(ARROW_NAMES[codec]).decompress(pa.py_buffer(content), size)
    except KeyError:
        raise PageDamage(f"codec {codec} is unknown") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PageDamage(f"a page cannot be decompressed to {size} bytes: {error}") from None
    if found.size != size:
        raise PageDamage(f"a page has {found.size} bytes uncompressed, its header says {size}")
    return memoryview(found)


def _hadoop_lz4(content: memoryview, size: int) -> bytes:
    """Decompresses Hadoop's LZ4: blocks that begin with both of their lengths. Some writers write a bare block."""
    found, position, raw = bytearray(), 0, pa.Codec("lz4_raw")
    while position + 8 <= len(content):
        plain = int.from_bytes(content[position : position + 4], "big")
        packed = int.from_bytes(content[position + 4 : position + 8], "big")
        position += 8
        if position + packed > len(content) or len(found) + plain > size:
            break
        found += raw.decompress(pa.py_buffer(content[position : position + packed]), plain)
        position += packed
    if len(found) == size and position == len(content):
        return bytes(found)
    return bytes(raw.decompress(pa.py_buffer(content), size))


def declared_nulls(page: StoredPage) -> int | None:
    """Returns the number of nulls in the header of a version 2 page, else None."""
    return optional_number(page.data, 2, "the number of nulls of a page") if page.kind == DATA_PAGE_V2 else None


def declared_rows(page: StoredPage) -> int | None:
    return optional_number(page.data, 3, "the number of rows of a page") if page.kind == DATA_PAGE_V2 else None
