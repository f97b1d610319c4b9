"""Checks the footer alone, before any page is read: its values must be consistent and its ranges within the file."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tidyberg.parquet.check.bloom import HEADER_BYTES, header_of
from tidyberg.parquet.check.chunk import ChunkLayout, Read
from tidyberg.parquet.check.problems import Findings
from tidyberg.parquet.errors import BadThriftError, CannotCopy
from tidyberg.parquet.fields import (
    ChunkField,
    ElementField,
    FileField,
    GroupField,
    MetadataField,
    items,
    known_only,
    number,
    optional_number,
    structs,
    substruct,
    text,
)
from tidyberg.parquet.footer import ENDING, MAGIC, Extent, SchemaLeaf, footer_length, schema_leaves
from tidyberg.parquet.thrift import BINARY, Struct, read_struct

_ARROW_SCHEMA = b"ARROW:schema"
_ORDERS = (1, 2)  # TYPE_ORDER and IEEE 754 total order


@dataclass(frozen=True, slots=True)
class SortingEntry:
    position: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class RowGroupLayout:
    rows: int
    chunks: tuple[ChunkLayout | None, ...]  # None if the footer does not describe one
    sorting: tuple[SortingEntry, ...]

    @property
    def start(self) -> int | None:
        return min((chunk.pages.offset for chunk in self.chunks if chunk is not None), default=None)

    @property
    def end(self) -> int | None:
        return max((chunk.pages.end for chunk in self.chunks if chunk is not None), default=None)


@dataclass(frozen=True, slots=True)
class Structure:
    schema: list[Struct]
    leaves: Sequence[SchemaLeaf]
    rows: int
    row_groups: tuple[RowGroupLayout, ...]
    created_by: str


def read_structure(read: Read, size: int, findings: Findings) -> Structure:
    """Reads and checks the footer. Raises CannotCopy if it cannot be parsed."""
    if size < ENDING + len(MAGIC) or bytes(read(0, len(MAGIC))) != MAGIC:
        raise CannotCopy("it does not begin like a Parquet file")
    length = footer_length(bytes(read(size - ENDING, ENDING)), size)
    start = size - ENDING - length
    try:
        footer, end = read_struct(bytes(read(start, length)))
    except BadThriftError as error:
        raise CannotCopy(f"its footer is damaged: {error}") from None
    findings.expect(end == length, "footer", "the footer has bytes after its end")
    known_only(footer, FileField.KNOWN, "its footer")
    schema = structs(footer, FileField.SCHEMA, "the schema")
    leaves = schema_leaves(schema)
    data = Extent(len(MAGIC), start - len(MAGIC))
    raw_groups = structs(footer, FileField.ROW_GROUPS, "the list of row groups")
    groups = tuple(_group(read, raw, leaves, data, findings.at(row_group=at)) for at, raw in enumerate(raw_groups))
    rows = number(footer, FileField.ROWS, "the number of rows")
    findings.equal("row-count", "the number of rows", rows, sum(group.rows for group in groups))
    _check_ordinals(raw_groups, findings)
    _check_disjoint(groups, findings)
    _check_orders(footer, leaves, findings)
    _check_key_values(footer, schema, findings)
    writer = text(footer, FileField.CREATED_BY, "the writer's name") or b""
    return Structure(schema, leaves, rows, groups, writer.decode(errors="replace"))


def _group(read: Read, raw: Struct, leaves: Sequence[SchemaLeaf], data: Extent, findings: Findings) -> RowGroupLayout:
    known_only(raw, GroupField.KNOWN, "a row group")
    rows = number(raw, GroupField.ROWS, "the number of rows of a row group")
    columns = structs(raw, GroupField.COLUMNS, "the list of columns")
    if len(columns) != len(leaves):
        raise CannotCopy("one of its row groups does not have the columns of the schema")
    chunks: list[ChunkLayout | None] = []
    for column, leaf in zip(columns, leaves, strict=True):
        of_column = findings.at(column=b".".join(leaf.path).decode(errors="replace"))
        try:
            chunks.append(_chunk(read, column, leaf, rows, data, of_column))
        except CannotCopy as damage:
            of_column.add("chunk", str(damage))
            chunks.append(None)
    group = RowGroupLayout(rows, tuple(chunks), _sorting(raw, len(leaves), findings))
    _check_sums(raw, group, findings)
    return group


def _chunk(read: Read, raw: Struct, leaf: SchemaLeaf, rows: int, data: Extent, findings: Findings) -> ChunkLayout:
    known_only(raw, ChunkField.KNOWN, "the column")
    metadata = substruct(raw, ChunkField.METADATA, "the metadata of the column")
    if metadata is None or ChunkField.FILE_PATH in raw:
        raise CannotCopy("the column is not described here or lies in another file")
    known_only(metadata, MetadataField.KNOWN, "the column")
    findings.equal("schema", "the type", number(metadata, MetadataField.TYPE, "the type of the column"), leaf.type)
    path = tuple(items(metadata, MetadataField.PATH, BINARY, "the path of the column"))
    findings.equal("schema", "the path", path, leaf.path)
    values = number(metadata, MetadataField.VALUES, "the number of values of the column")
    fits = values >= rows if leaf.repeated else values == rows
    findings.expect(fits, "value-count", f"there are {values} values in {rows} rows")
    length = number(metadata, MetadataField.COMPRESSED, "the length of the column")
    first = number(metadata, MetadataField.DATA_PAGE, "the offset of the column")
    dictionary = optional_number(metadata, MetadataField.DICTIONARY_PAGE, "the offset of the dictionary")
    # A column without values may have a dictionary but no data page. Then the offset of the data page is zero.
    starts = [offset for offset in (first, dictionary) if offset]
    pages = Extent(min(starts, default=0), length)
    if length:
        _within(pages, data, "the column")
    _check_file_offset(raw, pages, findings)
    bloom, header = _bloom(read, metadata, data, findings)
    return ChunkLayout(
        metadata,
        pages,
        _index(raw, ChunkField.COLUMN_INDEX, "the column index", data, findings),
        _index(raw, ChunkField.OFFSET_INDEX, "the offset index", data, findings),
        bloom,
        header,
    )


def _within(extent: Extent, data: Extent, what: str) -> None:
    if extent.offset < data.offset or extent.end > data.end:
        raise CannotCopy(f"{what} would lie outside of the file")


def _check_file_offset(raw: Struct, pages: Extent, findings: Findings) -> None:
    """The file offset must be zero today. Old writers set it to the offset of the chunk or to the end of its pages."""
    said = optional_number(raw, ChunkField.FILE_OFFSET, "the offset of the column")
    if said is None:
        findings.add("file-offset", "the column has no file offset, which the format requires")
    elif said and not pages.offset <= said <= pages.end:
        findings.add("file-offset", f"the file offset {said} is neither zero nor within the column")


def _index(raw: Struct, field: int, what: str, data: Extent, findings: Findings) -> Extent | None:
    offset = optional_number(raw, field, f"the offset of {what}")
    length = optional_number(raw, field + 1, f"the length of {what}")
    if offset is None and length is None:
        return None
    if not offset or not length:
        findings.add("index-place", f"{what} has no offset or no length")
        return None
    extent = Extent(offset, length)
    _within(extent, data, what)
    return extent


def _bloom(read: Read, metadata: Struct, data: Extent, findings: Findings) -> tuple[Extent | None, int]:
    offset = optional_number(metadata, MetadataField.BLOOM, "the offset of the bloom filter")
    if offset is None:
        return None, 0
    said = optional_number(metadata, MetadataField.BLOOM_LENGTH, "the length of the bloom filter")
    _within(Extent(offset, said or 1), data, "the bloom filter")
    try:
        header, bits = header_of(bytes(read(offset, min(HEADER_BYTES, data.end - offset))))
    except CannotCopy as damage:
        findings.add("bloom-filter", f"the bloom filter cannot be used: {damage}")
        return None, 0
    extent = Extent(offset, header + bits)
    _within(extent, data, "the bloom filter")
    if said is not None:
        findings.equal("bloom-filter", "the length of the bloom filter", said, extent.length)
    return extent, header


def _sorting(raw: Struct, columns: int, findings: Findings) -> tuple[SortingEntry, ...]:
    found = []
    for entry in structs(raw, GroupField.SORTING_COLUMNS, "the columns that rows are sorted by"):
        position = optional_number(entry, 1, "a sorting column")
        if position is None or position >= columns:
            findings.add("sorting-columns", f"rows are said to be sorted by column {position}, which does not exist")
            return ()
        found.append(SortingEntry(position, entry.get(2, (0, False))[1], entry.get(3, (0, False))[1]))
    return tuple(found)


def _check_sums(raw: Struct, group: RowGroupLayout, findings: Findings) -> None:
    chunks = [chunk for chunk in group.chunks if chunk is not None]
    if len(chunks) < len(group.chunks):
        return
    uncompressed = sum(
        optional_number(chunk.metadata, MetadataField.UNCOMPRESSED, "the length of a column") or 0 for chunk in chunks
    )
    compressed = sum(
        optional_number(chunk.metadata, MetadataField.COMPRESSED, "the length of a column") or 0 for chunk in chunks
    )
    said = number(raw, GroupField.TOTAL_BYTES, "the length of a row group")
    findings.equal("row-group-size", "the uncompressed size", said, uncompressed)
    total = optional_number(raw, GroupField.TOTAL_COMPRESSED, "the length of a row group")
    if total is not None:
        findings.equal("row-group-size", "the compressed size", total, compressed)
    offset = optional_number(raw, GroupField.FILE_OFFSET, "the offset of a row group")
    if offset is not None and group.rows:
        findings.equal("row-group-offset", "the file offset", offset, group.start)


def _check_ordinals(groups: Sequence[Struct], findings: Findings) -> None:
    """Readers that use ordinals need them in all row groups or in none."""
    found = [optional_number(group, GroupField.ORDINAL, "the ordinal of a row group") for group in groups]
    present = [ordinal for ordinal in found if ordinal is not None]
    if present and len(present) < len(found):
        findings.add("ordinals", f"{len(present)} of {len(found)} row groups have an ordinal: all or none must")
    for at, ordinal in enumerate(found):
        if ordinal is not None and ordinal != at:
            findings.at(row_group=at).add("ordinals", f"the ordinal is {ordinal}, but it should be {at}")


def _check_disjoint(groups: Sequence[RowGroupLayout], findings: Findings) -> None:
    pieces: list[tuple[Extent, str]] = []
    for at, group in enumerate(groups):
        for position, chunk in enumerate(group.chunks):
            if chunk is None:
                continue
            of_chunk = f"of column {position} in row group {at}"
            for extent, what in (
                (chunk.pages, "pages"),
                (chunk.column_index, "column index"),
                (chunk.offset_index, "offset index"),
                (chunk.bloom, "bloom filter"),
            ):
                if extent is not None and extent.length:
                    pieces.append((extent, f"the {what} {of_chunk}"))
    pieces.sort(key=lambda piece: (piece[0].offset, piece[0].end))
    for (before, first), (after, second) in pairwise(pieces):
        if after.offset < before.end:
            findings.add("overlap", f"{first} and {second} overlap")
    # Readers use the first offset to assign a row group to a split. If it is wrong, they compute it from the row group
    # before.
    spans = [(at, group.start, group.end) for at, group in enumerate(groups) if group.rows]
    for (_, _, end), (at, start, _) in pairwise(spans):
        if end is not None and start is not None and start < end:
            findings.at(row_group=at).add("row-group-order", "the row group begins before the end of the one before it")


def _check_orders(footer: Struct, leaves: Sequence[SchemaLeaf], findings: Findings) -> None:
    if FileField.COLUMN_ORDERS not in footer:
        return
    orders = structs(footer, FileField.COLUMN_ORDERS, "the orders of columns")
    findings.equal("column-orders", "the number of column orders", len(orders), len(leaves))
    for order in orders:
        findings.expect(len(order) == 1 and next(iter(order)) in _ORDERS, "column-orders", "a column order is unknown")


def _check_key_values(footer: Struct, schema: list[Struct], findings: Findings) -> None:
    seen: dict[bytes, bytes | None] = {}
    for pair in structs(footer, FileField.KEY_VALUES, "the list of properties"):
        key, value = text(pair, 1, "a property's name"), text(pair, 2, "a property")
        if not key or not _is_utf8(key) or (value is not None and not _is_utf8(value)):
            findings.add("key-values", f"the property {key!r} has no name or is not text")
            continue
        findings.expect(key not in seen, "key-values", f"the property {key!r} occurs twice")
        seen[key] = value
    if (spelled := seen.get(_ARROW_SCHEMA)) is not None:
        _check_arrow_schema(spelled, schema, findings)


def _check_arrow_schema(spelled: bytes, schema: list[Struct], findings: Findings) -> None:
    try:
        found = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(spelled, validate=True)))
    except (binascii.Error, pa.ArrowException, OSError, ValueError) as error:
        findings.add("arrow-schema", f"Arrow's schema cannot be read: {error}")
        return
    names = [name.decode(errors="replace") for name in _top_level(schema)]
    findings.equal("arrow-schema", "the columns of Arrow's schema", found.names, names)


def _top_level(schema: list[Struct]) -> list[bytes]:
    names: list[bytes] = []
    position = 1
    while position < len(schema):
        names.append(text(schema[position], ElementField.NAME, "a field's name") or b"")
        position = _behind(schema, position)
    return names


def _behind(schema: list[Struct], position: int) -> int:
    children = optional_number(schema[position], ElementField.CHILDREN, "the number of fields of a group") or 0
    position += 1
    for _ in range(children):
        position = _behind(schema, position)
    return position


def _is_utf8(content: Any) -> bool:
    try:
        bytes(content).decode()
    except UnicodeDecodeError:
        return False
    return True
