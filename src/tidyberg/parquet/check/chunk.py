"""Checks a column chunk: compares the footer, the page indexes and the Bloom filter with its decoded pages."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidyberg.parquet.check.bloom import BloomFilter
from tidyberg.parquet.check.bounds import TrueStatistics, check_statistics
from tidyberg.parquet.check.indexes import TruePage, check_column_index, check_offset_index
from tidyberg.parquet.check.order import Extremes, Order
from tidyberg.parquet.check.pages import (
    Batch,
    LevelArray,
    PageDamage,
    StoredPage,
    batches,
    declared_nulls,
    declared_rows,
    walk,
)
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import MetadataField, items, optional_number, structs, substruct
from tidyberg.parquet.footer import BYTE_ARRAY, Extent, SchemaLeaf
from tidyberg.parquet.page_headers import DICTIONARY_PAGE
from tidyberg.parquet.pages import DATA_PAGE_V2
from tidyberg.parquet.thrift import I32, I64, Struct, read_struct

_DISTINCT = 4
_HARMLESS_ENCODINGS = {0, 3, 4}  # plain, RLE and bit-packed; levels and dictionaries use them too

Read = Callable[[int, int], Any]  # takes offset and length, returns bytes


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """A leaf of the file's schema."""

    leaf: SchemaLeaf
    order: Order | None
    name: str


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """The byte ranges of the parts of a column chunk."""

    metadata: Struct
    pages: Extent
    column_index: Extent | None
    offset_index: Extent | None
    bloom: Extent | None  # with its header
    bloom_header: int = 0


@dataclass
class ChunkTruth:
    """The decoded contents of a column chunk."""

    pages: list[TruePage] = field(default_factory=list)
    distinct: set[Any] | None = None
    distinct_bits: set[Any] = field(default_factory=set)  # by bit pattern: -0.0 and 0.0 differ
    rows_of_values: list[tuple[LevelArray | None, pa.Array]] = field(default_factory=list)
    has_negative_zero: bool = False
    has_positive_zero: bool = False

    def truth(self, value_bytes: int | None) -> TrueStatistics:
        truths = [page.truth for page in self.pages]
        return TrueStatistics(
            values=sum(one.values for one in truths),
            nulls=sum(one.nulls for one in truths),
            nans=sum(one.nans for one in truths),
            lower=min((one.lower for one in truths if one.lower is not None), default=None),
            upper=max((one.upper for one in truths if one.upper is not None), default=None),
            value_bytes=value_bytes,
            distinct=None if self.distinct is None else (len(self.distinct), len(self.distinct_bits)),
        )


def check_chunk(
    read: Read, layout: ChunkLayout, column: CheckedColumn, rows: int, findings: Findings, *, keeps_values: bool = False
) -> ChunkTruth | None:
    """Checks a chunk. Returns None if its pages cannot be decoded. `keeps_values` is set for sorting columns."""
    try:
        stored = walk(
            memoryview(read(layout.pages.offset, layout.pages.length)).cast("B"), layout.pages.offset, findings
        )
        _check_sizes(stored, layout, findings)
        _check_encodings(stored, layout.metadata, findings)
        truth = _decode(read, stored, layout, column, findings, keeps_values)
    except (PageDamage, CannotCopy) as damage:
        findings.add("pages", str(damage))
        return None
    _check_counts(truth, layout.metadata, rows, findings)
    _check_footer(truth, layout.metadata, column, findings)
    _check_indexes(read, layout, truth, column, findings)
    return truth


def _check_sizes(stored: Sequence[StoredPage], layout: ChunkLayout, findings: Findings) -> None:
    metadata = layout.metadata
    uncompressed = sum(page.header_bytes + page.uncompressed for page in stored)
    said = optional_number(metadata, MetadataField.UNCOMPRESSED, "the uncompressed length of a column")
    findings.equal("chunk-size", "the uncompressed size", said, uncompressed)
    # The compressed size needs no check: `walk` raises if a page ends beyond it.
    dictionaries = [page for page in stored if page.kind == DICTIONARY_PAGE]
    if dictionaries and (len(dictionaries) > 1 or stored[0].kind != DICTIONARY_PAGE):
        findings.add("dictionary-page", "the dictionary is not the first page")
    data = [page for page in stored if page.kind != DICTIONARY_PAGE]
    first = optional_number(metadata, MetadataField.DATA_PAGE, "the offset of the first data page")
    if data:
        findings.equal("data-page-offset", "the offset of the first data page", first, data[0].offset)
    stated = optional_number(metadata, MetadataField.DICTIONARY_PAGE, "the offset of the dictionary") or None
    true = dictionaries[0].offset if dictionaries else None
    findings.equal("dictionary-page-offset", "the offset of the dictionary page", stated, true)


def _check_encodings(stored: Sequence[StoredPage], metadata: Struct, findings: Findings) -> None:
    listed = set(items(metadata, MetadataField.ENCODINGS, I32, "the list of encodings"))
    used = {page.encoding for page in stored if page.kind != DICTIONARY_PAGE}
    of_dictionary = {page.encoding for page in stored if page.kind == DICTIONARY_PAGE}
    findings.expect(used <= listed, "encodings", f"encodings {sorted(used - listed)} are used but not listed")
    findings.expect(
        of_dictionary <= listed, "dictionary-encoding", f"encodings do not list {of_dictionary} of the dictionary"
    )
    unused = listed - used - of_dictionary - _HARMLESS_ENCODINGS
    findings.expect(not unused, "encodings", f"encodings {sorted(unused)} are listed but not used")
    stats = structs(metadata, MetadataField.ENCODING_STATS, "the counts of encodings")
    if stats:
        stated: Counter[tuple[int, int]] = Counter()
        for entry in stats:
            stated[entry.get(1, (0, -1))[1], entry.get(2, (0, -1))[1]] += entry.get(3, (0, 0))[1]
        true = Counter((page.kind, page.encoding) for page in stored)
        if stated == true:
            return
        if _by_encoding(stated) == _by_encoding(true):
            findings.equal("page-kinds", "pages by kind and encoding", dict(stated), dict(true))
        else:
            findings.equal("encoding-stats", "pages by kind and encoding", dict(stated), dict(true))


def _by_encoding(counts: Counter[tuple[int, int]]) -> Counter[tuple[bool, int]]:
    """Drops the version of data pages, because some writers count version 2 pages as version 1."""
    found: Counter[tuple[bool, int]] = Counter()
    for (kind, encoding), count in counts.items():
        found[kind == DICTIONARY_PAGE, encoding] += count
    return +found


def _decode(
    read: Read,
    stored: Sequence[StoredPage],
    layout: ChunkLayout,
    column: CheckedColumn,
    findings: Findings,
    keeps_values: bool,
) -> ChunkTruth:
    metadata = layout.metadata
    statistics = substruct(metadata, MetadataField.STATISTICS, "the statistics") or {}
    truth = ChunkTruth(distinct=set() if _DISTINCT in statistics else None)
    bloom = None
    if layout.bloom is not None:
        bits = layout.bloom.length - layout.bloom_header
        bloom = BloomFilter(read(layout.bloom.offset + layout.bloom_header, bits))
    codec = optional_number(metadata, MetadataField.CODEC, "the compression codec") or 0
    missing = 0
    for batch in batches(stored, column.leaf, codec):
        _add_pages(batch, column, truth, findings)
        if len(batch.values):
            if bloom is not None:
                missing += bloom.missing(batch.values)
            if truth.distinct is not None:
                _add_distinct(batch.values, truth)
            if column.order is not None and column.order.is_float:
                _note_zeros(column.order.numbers(batch.values), truth)
        if keeps_values:
            truth.rows_of_values.append((batch.definitions, batch.values))
    findings.expect(not missing, "bloom-filter", f"the bloom filter lacks {missing} values of the column")
    return truth


def _add_distinct(values: pa.Array, truth: ChunkTruth) -> None:
    assert truth.distinct is not None
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        truth.distinct.update(np.unique(numbers).tolist())
        truth.distinct_bits.update(np.unique(numbers.view(f"u{numbers.itemsize}")).tolist())
    else:
        truth.distinct.update(pc.unique(values).to_pylist())


def _note_zeros(numbers: npt.NDArray[Any], truth: ChunkTruth) -> None:
    negative = np.signbit(numbers[numbers == 0])
    truth.has_negative_zero |= bool(negative.any())
    truth.has_positive_zero |= bool((~negative).any())


def _add_pages(batch: Batch, column: CheckedColumn, truth: ChunkTruth, findings: Findings) -> None:
    starts = batch.starts
    extremes = (
        [Extremes(None, None)] * len(batch.pages)
        if column.order is None or not len(batch.values)
        else column.order.extremes(batch.values, starts)
    )
    unencoded = _unencoded(batch.values, starts, column.leaf)
    for at, page in enumerate(batch.pages):
        nulls = page.values - batch.present[at]
        found = extremes[at]
        page_truth = TrueStatistics(page.values, nulls, found.nans, found.lower, found.upper, column.leaf.value_bytes)
        rows = int(batch.repetition_counts[at, 0])
        true = TruePage(
            offset=page.offset,
            length=page.length,
            rows=rows,
            starts_row=batch.first_repetitions[at] == 0,
            truth=page_truth,
            repetitions=tuple(batch.repetition_counts[at].tolist()),
            definitions=tuple(batch.definition_counts[at].tolist()),
            unencoded=unencoded[at],
        )
        truth.pages.append(true)
        if page.kind == DATA_PAGE_V2:
            findings.equal("page-counts", "the number of nulls", declared_nulls(page), nulls, page.number)
            findings.equal("page-counts", "the number of rows", declared_rows(page), rows, page.number)
            findings.expect(true.starts_row, "page-counts", "the page begins in the middle of a row", page.number)
        if page.statistics:
            check_statistics(page.statistics, page_truth, column.order, findings, page.number)


def _unencoded(values: pa.Array, starts: Sequence[int], leaf: SchemaLeaf) -> list[int]:
    if leaf.type != BYTE_ARRAY or not len(values):
        return [0] * (len(starts) - 1)
    summed = np.concatenate([[0], np.cumsum(pc.binary_length(values).to_numpy(zero_copy_only=False), dtype=np.int64)])
    return [int(size) for size in np.diff(summed[starts])]


def _check_counts(truth: ChunkTruth, metadata: Struct, rows: int, findings: Findings) -> None:
    values = optional_number(metadata, MetadataField.VALUES, "the number of values of a column")
    findings.equal("value-count", "the number of values", values, sum(page.truth.values for page in truth.pages))
    findings.equal("row-count", "the number of rows in its pages", sum(page.rows for page in truth.pages), rows)


def _check_footer(truth: ChunkTruth, metadata: Struct, column: CheckedColumn, findings: Findings) -> None:
    statistics = substruct(metadata, MetadataField.STATISTICS, "the statistics") or {}
    check_statistics(statistics, truth.truth(column.leaf.value_bytes), column.order, findings)
    sizes = substruct(metadata, MetadataField.SIZE_STATISTICS, "the size statistics") or {}
    if 1 in sizes:
        unencoded = sum(page.unencoded for page in truth.pages)
        findings.equal("size-statistics", "the size of all values", sizes[1][1], unencoded)
    for field_id, name in ((2, "repetitions"), (3, "definitions")):
        stated = items(sizes, field_id, I64, "the levels of a column")
        if stated:
            true = [sum(counts) for counts in zip(*(getattr(page, name) for page in truth.pages), strict=True)]
            findings.equal("size-statistics", f"the {name[:-1]} levels", list(stated), true or [0] * len(stated))


def _check_indexes(
    read: Read, layout: ChunkLayout, truth: ChunkTruth, column: CheckedColumn, findings: Findings
) -> None:
    for extent, rule in ((layout.offset_index, "offset-index"), (layout.column_index, "column-index")):
        if extent is None:
            continue
        try:
            index, end = read_struct(bytes(read(extent.offset, extent.length)))
            findings.expect(end == extent.length, rule, f"the {rule.replace('-', ' ')} is shorter than the footer says")
            if rule == "offset-index":
                check_offset_index(index, truth.pages, findings)
            else:
                check_column_index(index, truth.pages, column.order, findings)
        except (BadThriftError, CannotCopy) as damage:
            findings.add(rule, f"the {rule.replace('-', ' ')} is damaged: {damage}")
