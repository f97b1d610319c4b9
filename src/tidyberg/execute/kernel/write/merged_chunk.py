"""Merges chunks of input files into one column chunk: writes its footer entry and page indexes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from tidyberg.execute.kernel.write.floats import FloatFacts
from tidyberg.execute.kernel.write.source_chunks import LOWER, UPPER, SourceChunk, sort_key
from tidyberg.parquet.fields import (
    ChunkField,
    IndexField,
    LocationField,
    MetadataField,
    StatisticsField,
    changed,
)
from tidyberg.parquet.footer import SchemaLeaf
from tidyberg.parquet.pages import PLAIN, RLE, DataPage
from tidyberg.parquet.thrift import (
    BINARY,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftList,
    write_struct,
)

_NULL_PAGES, _LOWERS, _UPPERS, _BOUNDARY_ORDER, _NULL_COUNTS = range(1, 6)  # of a column index
_UNORDERED = 0
_YES, _NO = TRUE, FALSE  # booleans in a list


@dataclass(frozen=True, slots=True)
class MergedChunk:
    """A chunk of an output whose pages are written. Page indexes and bloom filters follow after all row groups."""

    struct: Struct
    column_index: bytes | None
    offset_index: bytes | None
    compressed: int
    uncompressed: int
    bloom_filter: bytes | None = None

    @property
    def metadata(self) -> Struct:
        found: Struct = self.struct[ChunkField.METADATA][1]
        return found


def merge_chunks(
    chunks: Sequence[SourceChunk],
    start: int,
    leaf: SchemaLeaf,
    kind: pa.DataType,
    codec: int,
    floats: FloatFacts | None,
) -> MergedChunk:
    """Returns the chunk whose pages begin at `start`, one after another. `kind` is the column's type in the table."""
    pages = [page for chunk in chunks for page in chunk.pages]
    compressed, uncompressed = sum(page.length for page in pages), sum(page.uncompressed for page in pages)
    kinds = Counter(page.kind for page in pages)
    statistics = _statistics(chunks, leaf, kind) if floats is None else floats.statistics(leaf.value_bytes)
    metadata: dict[int, tuple[int, Any] | None] = {
        MetadataField.TYPE: (I32, leaf.type),
        MetadataField.ENCODINGS: (LIST, ThriftList(I32, [PLAIN, RLE])),
        MetadataField.PATH: (LIST, ThriftList(BINARY, list(leaf.path))),
        MetadataField.CODEC: (I32, codec),
        MetadataField.VALUES: (I64, sum(chunk.rows for chunk in chunks)),
        MetadataField.UNCOMPRESSED: (I64, uncompressed),
        MetadataField.COMPRESSED: (I64, compressed),
        MetadataField.DATA_PAGE: (I64, start),
        MetadataField.STATISTICS: (STRUCT, statistics) if statistics else None,
        MetadataField.ENCODING_STATS: (
            LIST,
            ThriftList(
                STRUCT, [{1: (I32, found), 2: (I32, PLAIN), 3: (I32, count)} for found, count in sorted(kinds.items())]
            ),
        ),
    }
    chunk: Struct = {ChunkField.FILE_OFFSET: (I64, 0), ChunkField.METADATA: (STRUCT, changed({}, metadata))}
    return MergedChunk(chunk, _column_index(chunks), _offset_index(pages, start), compressed, uncompressed)


def _statistics(chunks: Sequence[SourceChunk], leaf: SchemaLeaf, kind: pa.DataType) -> Struct:
    """A statistic that one of the chunks lacks is omitted."""
    found: dict[int, tuple[int, Any] | None] = {}
    known = [chunk.statistics for chunk in chunks]
    nulls = [one.nulls for one in known if one.nulls is not None]
    if len(nulls) == len(known):
        found[StatisticsField.NULLS] = (I64, sum(nulls))
    bounded = [
        chunk.statistics for chunk in chunks if chunk.statistics.nulls != chunk.rows
    ]  # a chunk with nulls only has no bounds
    lowers = [one.lower for one in bounded if one.lower is not None]
    uppers = [one.upper for one in bounded if one.upper is not None]
    if not bounded or len(lowers) < len(bounded) or len(uppers) < len(bounded) or pa.types.is_floating(kind):
        return changed({}, found)

    def key(bound: bytes) -> Any:
        return sort_key(bound, leaf, kind)

    found[LOWER] = (BINARY, min(lowers, key=key))
    found[UPPER] = (BINARY, max(uppers, key=key))
    for field, flags in (
        (StatisticsField.LOWER_IS_EXACT, [one.lower_is_exact for one in bounded]),
        (StatisticsField.UPPER_IS_EXACT, [one.upper_is_exact for one in bounded]),
    ):
        if False in flags or None not in flags:  # a bound that may be truncated must not be called exact
            found[field] = (TRUE, False not in flags)
    return changed({}, found)


def _offset_index(pages: Sequence[DataPage], start: int) -> bytes:
    locations: list[Struct] = []
    position, row = start, 0
    for page in pages:
        locations.append(
            {
                LocationField.OFFSET: (I64, position),
                LocationField.LENGTH: (I32, page.length),
                LocationField.FIRST_ROW: (I64, row),
            }
        )
        position += page.length
        row += page.values
    return write_struct({IndexField.PAGE_LOCATIONS: (LIST, ThriftList(STRUCT, locations))})


def _column_index(chunks: Sequence[SourceChunk]) -> bytes | None:
    """Joins the column indexes of the chunks; None if one chunk has none. Pages of several files are unordered."""
    found = [chunk.page_bounds for chunk in chunks if chunk.page_bounds is not None]
    if len(found) < len(chunks):
        return None
    nulls = [one.nulls for one in found if one.nulls is not None]
    flags = [_YES if flag else _NO for one in found for flag in one.all_null]
    fields: dict[int, tuple[int, Any] | None] = {
        _NULL_PAGES: (LIST, ThriftList(TRUE, flags)),
        _LOWERS: (LIST, ThriftList(BINARY, [bound for one in found for bound in one.lowers])),
        _UPPERS: (LIST, ThriftList(BINARY, [bound for one in found for bound in one.uppers])),
        _BOUNDARY_ORDER: (I32, _UNORDERED),
        _NULL_COUNTS: (LIST, ThriftList(I64, list(chain.from_iterable(nulls)))) if len(nulls) == len(found) else None,
    }
    return write_struct(changed({}, fields))
