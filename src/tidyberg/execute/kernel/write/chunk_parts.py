"""The columns of an input file as parts of larger columns: their pages, and what is known of the values in them."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.columns.single_values import is_text, is_truncatable
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.table_columns import Column
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.dictionaries import unfolded
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import (
    FileField,
    MetadataField,
    StatisticsField,
    items,
    known_only,
    number,
    optional_number,
    structs,
    substruct,
)
from tidyberg.parquet.footer import Chunk, SchemaLeaf
from tidyberg.parquet.pages import DataPage, page_spans, plain_pages
from tidyberg.parquet.thrift import BINARY, FALSE, I64, TRUE, Bytes

CODECS = {"uncompressed": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
UPPER, LOWER = 5, 6  # of statistics: bounds in the order of the column's type
_IN_ORDER = 1  # of its type: the only order of a column that says what its bounds mean
# Pages that are smaller than this on average, by both counts, or larger than that are made anew.
FEWEST_VALUES, _FEWEST_BYTES = 5_000, 64 * 1024
_MOST_PAGE_SIZES = 8
_NUMBERS = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}
_FLOATS = (4, 5)
_INDEX_FIELDS = frozenset(range(1, 8))

ReadPages = Callable[[int, int], Bytes]  # offset, length


@dataclass(frozen=True, slots=True)
class Known:
    """What a footer says of the values of a chunk; bounds as it spells them."""

    nulls: int | None
    lower: bytes | None = None
    upper: bytes | None = None
    lower_is_exact: bool | None = None  # None: not told
    upper_is_exact: bool | None = None


@dataclass(frozen=True, slots=True)
class PageBounds:
    """What a column index says of each page of a chunk."""

    all_null: list[bool]
    lowers: list[bytes]
    uppers: list[bytes]
    nulls: list[int] | None


@dataclass(frozen=True, slots=True)
class Part:
    """A column of a row group of an input."""

    content: tuple[Bytes, ...]  # end to end
    pages: tuple[DataPage, ...]
    rows: int  # as many as values: it is in no list
    known: Known
    page_bounds: PageBounds | None

    @property
    def size(self) -> int:
        return sum(page.length for page in self.pages)


def parts_of(
    source: Source, column: Column, table_leaves: list[Leaf], read: ReadPages, settings: WriteSettings, *, own: bool
) -> list[list[Part]]:
    """For every leaf of the file's column its parts, a row group after the other; raises CannotCopy.

    `own` pages are Arrow's of this task: they are taken as they are.
    """
    found: list[list[Part]] = []
    for index, leaf, table_leaf in zip(column.leaf_numbers, column.leaves, table_leaves, strict=True):
        parts = [_part(source, group, index, leaf, read, settings) for group in source.groups_with_rows]
        if not own:
            _check_page_sizes(parts, settings)
            for part in parts:
                _check_known(part.known, part.rows, leaf, table_leaf, settings)
        found.append(parts)
    return found


def _part(
    source: Source, group_number: int, index: int, leaf: SchemaLeaf, read: ReadPages, settings: WriteSettings
) -> Part:
    group = source.footer.row_groups[group_number]
    chunk = group.chunks[index]
    if number(chunk.metadata, MetadataField.CODEC, "how a column is compressed") != CODECS[settings.compression]:
        raise CannotCopy("it is not compressed as the table asks")
    content = read(chunk.pages.offset, chunk.pages.length)
    if len(content) != chunk.pages.length:
        raise CannotCopy("its pages end too early")
    known = _known(source, group_number, index, chunk)
    pieces: tuple[Bytes, ...]
    if chunk.first_data_page == chunk.pages.offset:
        pieces, pages = (content,), plain_pages(page_spans(content), leaf)
        bounds = _page_bounds(source, chunk, len(pages))
    elif leaf.type in _FLOATS:
        raise CannotCopy("it has a dictionary")  # for its NaN are counted: most of the work is done by then
    else:
        pieces, pages = unfolded(content, leaf, settings.compression)
        bounds = None  # its column index is that of other pages
    if sum(page.values for page in pages) != group.rows:
        raise CannotCopy("its pages do not hold the rows that its footer counts")
    return Part(pieces, pages, group.rows, known, bounds or _bounds_of_all(known, pages, group.rows, leaf))


def _known(source: Source, group_number: int, index: int, chunk: Chunk) -> Known:
    statistics = substruct(chunk.metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    nulls = optional_number(statistics, StatisticsField.NULLS, "how many nulls a column has")
    lower, upper = statistics.get(LOWER), statistics.get(UPPER)
    if lower is None or upper is None or not _are_believed(source, group_number, index):
        return Known(nulls)
    flags = (StatisticsField.LOWER_IS_EXACT, StatisticsField.UPPER_IS_EXACT)
    return Known(nulls, lower[1], upper[1], *(statistics.get(flag, (0, None))[1] for flag in flags))


def _are_believed(source: Source, group_number: int, index: int) -> bool:
    """Bounds in the order of the column's type, by a writer that Arrow knows no ill of."""
    orders = structs(source.footer.struct, FileField.COLUMN_ORDERS, "the orders of columns")
    if index >= len(orders) or set(orders[index]) != {_IN_ORDER}:
        return False
    chunk: pq.ColumnChunkMetaData = source.arrow_footer.row_group(group_number).column(index)
    return bool(chunk.is_stats_set and chunk.statistics.has_min_max)


def _check_known(known: Known, rows: int, leaf: SchemaLeaf, table_leaf: Leaf, settings: WriteSettings) -> None:
    """Manifests must say of a moved column what they would say of an encoded one [I9]."""
    kind = table_leaf.type
    if pa.types.is_floating(kind):
        return  # they are counted
    if known.nulls is None:
        raise CannotCopy("its nulls are not counted")
    if known.nulls == rows:
        return
    if known.lower is None or known.upper is None:
        raise CannotCopy("its bounds are not known")
    if is_text(kind) and not (_is_utf8(known.lower) and _is_utf8(known.upper)):
        raise CannotCopy("its bounds are not text")
    if sort_key(known.lower, leaf, kind) > sort_key(known.upper, leaf, kind):
        raise CannotCopy("its bounds are the wrong way round")
    _check_whole(known, table_leaf, settings)


def _check_whole(known: Known, table_leaf: Leaf, settings: WriteSettings) -> None:
    """Spark answers MIN and MAX with whole bounds: these must be values. Some writers cut those of texts silently."""
    told = (known.lower_is_exact, known.upper_is_exact)
    if is_truncatable(table_leaf.type):
        mode = None if table_leaf.field_id is None else settings.metrics_modes.get(table_leaf.field_id)
        may_be_cut = mode == "full" and told != (True, True)
    else:
        may_be_cut = False in told
    if may_be_cut:
        raise CannotCopy("its bounds may be cut")


def _is_utf8(bound: bytes) -> bool:
    try:
        bound.decode()
    except UnicodeDecodeError:
        return False
    return True


def _page_bounds(source: Source, chunk: Chunk, pages: int) -> PageBounds | None:
    index = source.column_index(chunk)
    if index is None:
        return None
    what = "a column index"
    known_only(index, _INDEX_FIELDS, what)
    flags = items(index, 1, TRUE, what) if _element(index.get(1)) != FALSE else items(index, 1, FALSE, what)
    lowers, uppers = items(index, 2, BINARY, what), items(index, 3, BINARY, what)
    nulls = items(index, 5, I64, what)
    if not len(flags) == len(lowers) == len(uppers) == pages or len(nulls) not in (0, pages):
        raise CannotCopy("its column index does not agree with its pages")
    return PageBounds([flag == TRUE for flag in flags], lowers, uppers, nulls or None)


def _bounds_of_all(known: Known, pages: Sequence[DataPage], rows: int, leaf: SchemaLeaf) -> PageBounds | None:
    """What holds for a chunk holds for each of its pages; but NaN is within no bounds, and yet may be looked for."""
    count = len(pages)
    if known.nulls == rows:
        return PageBounds([True] * count, [b""] * count, [b""] * count, [page.values for page in pages])
    if known.lower is None or known.upper is None or leaf.type in _FLOATS:
        return None
    nulls = [known.nulls] if known.nulls is not None and count == 1 else [0] * count if known.nulls == 0 else None
    return PageBounds([False] * count, [known.lower] * count, [known.upper] * count, nulls)


def _element(field: tuple[int, Any] | None) -> int | None:
    """The type of a list's items: writers spell that of booleans either way."""
    return getattr(field[1], "element", None) if field is not None else None


def _check_page_sizes(parts: list[Part], settings: WriteSettings) -> None:
    pages = [page for part in parts for page in part.pages]
    values, stored = sum(page.values for page in pages), sum(page.length for page in pages)
    if values < FEWEST_VALUES * len(pages) and stored < _FEWEST_BYTES * len(pages):
        raise CannotCopy("its pages are too small to keep")
    if max((page.uncompressed for page in pages), default=0) > _MOST_PAGE_SIZES * settings.page_bytes:
        raise CannotCopy("its pages are too large to keep")


def sort_key(bound: bytes, leaf: SchemaLeaf, kind: pa.DataType) -> Any:
    """A bound as a value that compares as the column's values do."""
    if leaf.type in _NUMBERS:
        return struct.unpack(_NUMBERS[leaf.type], bound)[0]
    return int.from_bytes(bound, "big", signed=True) if pa.types.is_decimal(kind) else bound
