"""Column chunks of input files whose pages can be moved into larger chunks, with their statistics."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.columns.single_values import is_text, is_truncatable
from tidyberg.execute.kernel.read.source import Source
from tidyberg.execute.kernel.write.table_columns import TopLevelColumn
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.codecs import CODEC_IDS
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
from tidyberg.parquet.footer import ColumnChunk, SchemaLeaf
from tidyberg.parquet.pages import DataPage, page_spans, plain_pages
from tidyberg.parquet.thrift import BINARY, FALSE, I64, TRUE, Bytes

UPPER, LOWER = 5, 6  # fields of Statistics: max_value and min_value, in the order of the column's type
_TYPE_ORDER = 1  # TYPE_DEFINED_ORDER, the only column order that defines what bounds mean
# Columns whose pages are on average smaller than this, by both measures, or larger than that, are encoded again.
MIN_PAGE_VALUES, _MIN_PAGE_BYTES = 5_000, 64 * 1024
_MAX_PAGE_SIZES = 8
_NUMBERS = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}
_FLOATS = (4, 5)
_INDEX_FIELDS = frozenset(range(1, 8))

ReadPages = Callable[[int, int], Bytes]  # offset, length


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The statistics of a chunk in a footer; bounds are the bytes of the footer."""

    nulls: int | None
    lower: bytes | None = None
    upper: bytes | None = None
    lower_is_exact: bool | None = None  # None if the footer does not say
    upper_is_exact: bool | None = None


@dataclass(frozen=True, slots=True)
class PageBounds:
    """The column index of a chunk: what it says about each page."""

    all_null: list[bool]
    lowers: list[bytes]
    uppers: list[bytes]
    nulls: list[int] | None


@dataclass(frozen=True, slots=True)
class SourceChunk:
    """A column chunk of an input file, with its pages."""

    content: tuple[Bytes, ...]  # pages in order, without gaps
    pages: tuple[DataPage, ...]
    rows: int  # equal to the number of values: the column is not repeated
    statistics: ChunkStatistics
    page_bounds: PageBounds | None

    @property
    def size(self) -> int:
        return sum(page.length for page in self.pages)


def source_chunks(
    source: Source,
    column: TopLevelColumn,
    table_leaves: list[Leaf],
    read: ReadPages,
    settings: WriteSettings,
    *,
    own: bool,
) -> list[list[SourceChunk]]:
    """Returns the chunks of every leaf of a column, one per row group. Raises CannotCopy if they cannot be moved.

    `own` says that Arrow wrote the pages for this task, so they need no checks.
    """
    found: list[list[SourceChunk]] = []
    for index, leaf, table_leaf in zip(column.leaf_numbers, column.leaves, table_leaves, strict=True):
        chunks = [_source_chunk(source, group, index, leaf, read, settings) for group in source.groups_with_rows]
        if not own:
            _check_page_sizes(chunks, settings)
            for chunk in chunks:
                _check_statistics(chunk.statistics, chunk.rows, leaf, table_leaf, settings)
        found.append(chunks)
    return found


def _source_chunk(
    source: Source, group_number: int, index: int, leaf: SchemaLeaf, read: ReadPages, settings: WriteSettings
) -> SourceChunk:
    group = source.footer.row_groups[group_number]
    chunk = group.chunks[index]
    if number(chunk.metadata, MetadataField.CODEC, "the codec of a column") != CODEC_IDS[settings.compression]:
        raise CannotCopy("its compression is not the table's")
    content = read(chunk.pages.offset, chunk.pages.length)
    if len(content) != chunk.pages.length:
        raise CannotCopy("its file ends in the middle of its pages")
    statistics = _statistics_of(source, group_number, index, chunk)
    pieces: tuple[Bytes, ...]
    if chunk.first_data_page == chunk.pages.offset:
        pieces, pages = (content,), plain_pages(page_spans(content), leaf)
        bounds = _page_bounds(source, chunk, len(pages))
    elif leaf.type in _FLOATS:
        raise CannotCopy("it has a dictionary")  # NaN must be counted, so the column is decoded anyway
    else:
        pieces, pages = unfolded(content, leaf, settings.compression)
        bounds = None  # the column index describes the original pages
    if sum(page.values for page in pages) != group.rows:
        raise CannotCopy("its pages do not hold the rows that its footer counts")
    return SourceChunk(
        pieces, pages, group.rows, statistics, bounds or _page_bounds_from_chunk(statistics, pages, group.rows, leaf)
    )


def _statistics_of(source: Source, group_number: int, index: int, chunk: ColumnChunk) -> ChunkStatistics:
    statistics = substruct(chunk.metadata, MetadataField.STATISTICS, "the statistics of a column") or {}
    nulls = optional_number(statistics, StatisticsField.NULLS, "the number of nulls of a column")
    lower, upper = statistics.get(LOWER), statistics.get(UPPER)
    if lower is None or upper is None or not _are_trusted(source, group_number, index):
        return ChunkStatistics(nulls)
    flags = (StatisticsField.LOWER_IS_EXACT, StatisticsField.UPPER_IS_EXACT)
    return ChunkStatistics(nulls, lower[1], upper[1], *(statistics.get(flag, (0, None))[1] for flag in flags))


def _are_trusted(source: Source, group_number: int, index: int) -> bool:
    """Whether bounds are in the order of the column's type, and Arrow trusts their writer."""
    orders = structs(source.footer.struct, FileField.COLUMN_ORDERS, "the orders of columns")
    if index >= len(orders) or set(orders[index]) != {_TYPE_ORDER}:
        return False
    chunk: pq.ColumnChunkMetaData = source.arrow_footer.row_group(group_number).column(index)
    return bool(chunk.is_stats_set and chunk.statistics.has_min_max)


def _check_statistics(
    statistics: ChunkStatistics, rows: int, leaf: SchemaLeaf, table_leaf: Leaf, settings: WriteSettings
) -> None:
    """Raises CannotCopy if manifests could not say the same about a moved column as about an encoded one [I9]."""
    kind = table_leaf.type
    if pa.types.is_floating(kind):
        return  # the writer counts nulls and NaN itself
    if statistics.nulls is None:
        raise CannotCopy("its footer does not count nulls")
    if statistics.nulls == rows:
        return
    if statistics.lower is None or statistics.upper is None:
        raise CannotCopy("its footer has no trustworthy bounds")
    if is_text(kind) and not (_is_utf8(statistics.lower) and _is_utf8(statistics.upper)):
        raise CannotCopy("its bounds are not valid UTF-8")
    if sort_key(statistics.lower, leaf, kind) > sort_key(statistics.upper, leaf, kind):
        raise CannotCopy("its lower bound is above its upper bound")
    _check_exact(statistics, table_leaf, settings)


def _check_exact(statistics: ChunkStatistics, table_leaf: Leaf, settings: WriteSettings) -> None:
    """Raises CannotCopy if a bound may not be a value: Spark answers MIN and MAX with untruncated bounds.

    Some writers truncate the bounds of strings without saying so.
    """
    exact = (statistics.lower_is_exact, statistics.upper_is_exact)
    if is_truncatable(table_leaf.type):
        mode = None if table_leaf.field_id is None else settings.metrics_modes.get(table_leaf.field_id)
        may_be_truncated = mode == "full" and exact != (True, True)
    else:
        may_be_truncated = False in exact
    if may_be_truncated:
        raise CannotCopy("its bounds may be truncated")


def _is_utf8(bound: bytes) -> bool:
    try:
        bound.decode()
    except UnicodeDecodeError:
        return False
    return True


def _page_bounds(source: Source, chunk: ColumnChunk, pages: int) -> PageBounds | None:
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


def _page_bounds_from_chunk(
    statistics: ChunkStatistics, pages: Sequence[DataPage], rows: int, leaf: SchemaLeaf
) -> PageBounds | None:
    """Derives page bounds from those of the chunk. Floats get none: bounds exclude NaN, but filters may look for it."""
    count = len(pages)
    if statistics.nulls == rows:
        return PageBounds([True] * count, [b""] * count, [b""] * count, [page.values for page in pages])
    if statistics.lower is None or statistics.upper is None or leaf.type in _FLOATS:
        return None
    nulls = (
        [statistics.nulls]
        if statistics.nulls is not None and count == 1
        else [0] * count
        if statistics.nulls == 0
        else None
    )
    return PageBounds([False] * count, [statistics.lower] * count, [statistics.upper] * count, nulls)


def _element(field: tuple[int, Any] | None) -> int | None:
    """Returns the element type of a list. Writers use either of two codes for booleans."""
    return getattr(field[1], "element", None) if field is not None else None


def _check_page_sizes(chunks: list[SourceChunk], settings: WriteSettings) -> None:
    pages = [page for chunk in chunks for page in chunk.pages]
    values, stored = sum(page.values for page in pages), sum(page.length for page in pages)
    if values < MIN_PAGE_VALUES * len(pages) and stored < _MIN_PAGE_BYTES * len(pages):
        raise CannotCopy("its pages are too small to keep")
    if max((page.uncompressed for page in pages), default=0) > _MAX_PAGE_SIZES * settings.page_bytes:
        raise CannotCopy("its pages are too large to keep")


def sort_key(bound: bytes, leaf: SchemaLeaf, kind: pa.DataType) -> Any:
    """Returns a bound as a value that sorts like the column's values."""
    if leaf.type in _NUMBERS:
        return struct.unpack(_NUMBERS[leaf.type], bound)[0]
    return int.from_bytes(bound, "big", signed=True) if pa.types.is_decimal(kind) else bound
