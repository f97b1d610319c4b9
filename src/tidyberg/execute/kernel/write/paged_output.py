"""Writes an output from pages: moved from inputs, or encoded in memory. Writes page indexes and the footer."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg._version import __version__
from tidyberg.execute.kernel.columns.project import Leaf
from tidyberg.execute.kernel.read.source import Source, moved_index, open_source
from tidyberg.execute.kernel.write.digest import DigestingSink
from tidyberg.execute.kernel.write.floats import FloatFacts
from tidyberg.execute.kernel.write.merged_chunk import MergedChunk, merge_chunks
from tidyberg.execute.kernel.write.output import FinishedOutput, abandon_sink
from tidyberg.execute.kernel.write.source_chunks import SourceChunk
from tidyberg.model.task import TaskInput
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.fields import ChunkField, FileField, GroupField, MetadataField, changed
from tidyberg.parquet.footer import MAGIC, SchemaLeaf, as_ending, schema_leaves
from tidyberg.parquet.nan_bounds import with_nans, without_bounds
from tidyberg.parquet.schema import schema_of
from tidyberg.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, Bytes, Struct, ThriftList
from tidyberg.parquet.uniform import PageIndexes, partial_statistics, with_whole_statistics, without_statistics
from tidyberg.storage.file_io import Place, Storage

_CREATED_BY = f"tidyberg version {__version__} (build splice)".encode()
_VERSION = 2


class PagedOutput:
    """A file that is being written."""

    def __init__(
        self, storage: Storage, place: Place, schema: pa.Schema, all_leaves: Sequence[Leaf], codec: int = 0
    ) -> None:
        self.place = place
        self.nan_counts: dict[int, int] = {}
        self._storage = storage
        self._schema = schema_of(bytes(schema.serialize()))
        self._schema_leaves = schema_leaves(self._schema)
        self._leaves = all_leaves
        self._codec = codec  # of moved pages
        self._created_by: bytes | None = None
        self._groups: list[list[MergedChunk]] = []
        self._rows: list[int] = []
        self._starts: list[int] = []
        self._sink = DigestingSink(storage.open_output(place))
        try:
            self._write(MAGIC)
        except BaseException:
            self._sink.abandon()
            storage.delete(place)
            raise

    def write(
        self,
        rows: int,
        moved: Mapping[int, Sequence[SourceChunk]],
        encoded: Mapping[int, tuple[Source, int]],
        floats: Mapping[int, FloatFacts],
    ) -> int:
        """Writes one row group. Each leaf number is in `moved`, or in `encoded` with its file and its number there.

        Returns the size of the file so far.
        """
        self._starts.append(self._sink.tell())
        self._rows.append(rows)
        group = []
        if moved:
            self._created_by = _CREATED_BY
        for number, (leaf, table_leaf) in enumerate(zip(self._schema_leaves, self._leaves, strict=True)):
            start = self._sink.tell()
            if number in moved:
                chunks = moved[number]
                assert sum(chunk.rows for chunk in chunks) == rows
                for chunk in chunks:
                    for piece in chunk.content:
                        self._write(piece)
                group.append(merge_chunks(chunks, start, leaf, table_leaf.type, self._codec, floats.get(number)))
            else:
                source, index = encoded[number]
                group.append(self._place(source, index, start, leaf))
        self._groups.append(group)
        return self._sink.tell()

    def finish(self, iceberg_schema: str) -> FinishedOutput:
        chunks = [chunk for group in self._groups for chunk in group]
        if self._created_by == _CREATED_BY:
            self._omit_partial_statistics()
        for chunk in chunks:
            if chunk.bloom_filter is not None:
                place: dict[int, tuple[int, Any] | None] = {MetadataField.BLOOM: (I64, self._write(chunk.bloom_filter))}
                chunk.struct[ChunkField.METADATA] = (STRUCT, changed(chunk.metadata, place))
        indexes = PageIndexes.of(self._groups)
        for chunk in chunks if indexes.bounds else ():
            if chunk.column_index is not None:
                chunk.struct[ChunkField.COLUMN_INDEX] = (I64, self._write(chunk.column_index))
                chunk.struct[ChunkField.COLUMN_INDEX_LENGTH] = (I32, len(chunk.column_index))
        for chunk in chunks if indexes.offsets else ():
            if chunk.offset_index is not None:
                chunk.struct[ChunkField.OFFSET_INDEX] = (I64, self._write(chunk.offset_index))
                chunk.struct[ChunkField.OFFSET_INDEX_LENGTH] = (I32, len(chunk.offset_index))
        footer = self._footer(iceberg_schema)
        self._write(as_ending(without_bounds(with_whole_statistics(footer), with_nans(self.nan_counts))))
        with self._storage.guard(self.place.location, writing=True):
            size = self._sink.tell()
            self._sink.close()
        arrow_footer = pq.read_metadata(pa.BufferReader(MAGIC + as_ending(footer)))
        return FinishedOutput(self.place.location, size, self._sink.hexdigest(), arrow_footer, self.nan_counts)

    def abandon(self) -> bool:
        """Gives the file up. Returns True if storage accepted that."""
        return abandon_sink(self._sink, self._storage, self.place)

    def _write(self, content: Bytes) -> int:
        """Returns where the content begins."""
        start = self._sink.tell()
        with self._storage.guard(self.place.location, writing=True):
            self._sink.write(content)
        return start

    def _place(self, source: Source, index: int, start: int, leaf: SchemaLeaf) -> MergedChunk:
        """Writes the pages of a chunk that Arrow encoded in memory."""
        assert source.whole is not None
        chunk = source.footer.row_groups[0].chunks[index]
        bloom_filter = source.bloom_filter(chunk)
        # Readers trust statistics by their writer, so a file with only Arrow's columns names Arrow.
        self._created_by = self._created_by or source.footer.created_by
        self._write(memoryview(source.whole)[chunk.pages.offset : chunk.pages.end])
        shift = start - chunk.pages.offset
        metadata: dict[int, tuple[int, Any] | None] = {
            field: (I64, chunk.metadata[field][1] + shift)
            for field in (MetadataField.DATA_PAGE, MetadataField.DICTIONARY_PAGE)
            if field in chunk.metadata
        }
        assert tuple(chunk.metadata[MetadataField.PATH][1].items) == leaf.path
        struct: Struct = {
            ChunkField.FILE_OFFSET: (I64, 0),
            ChunkField.METADATA: (STRUCT, changed(chunk.metadata, metadata)),
        }
        return MergedChunk(
            struct,
            None if chunk.column_index is None else source.bytes_of(chunk.column_index),
            moved_index(source, chunk, shift),
            chunk.pages.length,
            chunk.metadata[MetadataField.UNCOMPRESSED][1],
            None if bloom_filter is None else source.bytes_at(bloom_filter.offset, bloom_filter.length),
        )

    def _omit_partial_statistics(self) -> None:
        """Some readers apply the statistics of some row groups to the file."""
        left_out = partial_statistics([[chunk.metadata for chunk in group] for group in self._groups])
        for group in self._groups:
            for chunk, fields in zip(group, left_out, strict=True):
                if fields:
                    left = without_statistics(chunk.metadata, fields)
                    renewed = changed(chunk.metadata, {MetadataField.STATISTICS: left})
                    chunk.struct[ChunkField.METADATA] = (STRUCT, renewed)

    def _footer(self, iceberg_schema: str) -> Struct:
        in_order: Struct = {1: (STRUCT, {})}
        return {
            FileField.VERSION: (I32, _VERSION),
            FileField.SCHEMA: (LIST, ThriftList(STRUCT, self._schema)),
            FileField.ROWS: (I64, sum(self._rows)),
            FileField.ROW_GROUPS: (LIST, ThriftList(STRUCT, list(map(self._group, range(len(self._groups)))))),
            FileField.KEY_VALUES: (
                LIST,
                ThriftList(STRUCT, [{1: (BINARY, b"iceberg.schema"), 2: (BINARY, iceberg_schema.encode())}]),
            ),
            FileField.CREATED_BY: (BINARY, self._created_by or _CREATED_BY),
            FileField.COLUMN_ORDERS: (LIST, ThriftList(STRUCT, [in_order] * len(self._schema_leaves))),
        }

    def _group(self, number: int) -> Struct:
        placed = self._groups[number]
        return {
            GroupField.COLUMNS: (LIST, ThriftList(STRUCT, [dict(sorted(chunk.struct.items())) for chunk in placed])),
            GroupField.TOTAL_BYTES: (I64, sum(chunk.uncompressed for chunk in placed)),
            GroupField.ROWS: (I64, self._rows[number]),
            GroupField.FILE_OFFSET: (I64, self._starts[number]),
            GroupField.TOTAL_COMPRESSED: (I64, sum(chunk.compressed for chunk in placed)),
        }


def in_memory(table: pa.Table, options: Mapping[str, Any]) -> Source:
    """Encodes a table with Arrow into a file in memory with one row group."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    content = memoryview(sink.getvalue())

    def read(_: str, offset: int, length: int) -> bytes:
        return bytes(content[offset : offset + length])

    source = open_source(TaskInput("a file in memory", len(content), table.num_rows), read, whole=content)
    if len(source.footer.row_groups) != 1:
        raise CannotCopy("Arrow divided a row group")
    return source
