"""Streams the rows of Parquet files in the table's schema, in batches of bounded size."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.field_ids import Path, field_id
from tidyberg.execute.kernel.columns.metrics import first_page
from tidyberg.execute.kernel.columns.project import Leaf, Projector, Selection, leaves, select
from tidyberg.execute.kernel.read.arrow_schemas import without_dictionaries
from tidyberg.execute.kernel.read.open_files import MB, SMALL_FILE, OpenFile
from tidyberg.execute.kernel.read.row_ranges import row_group_starts, stored_bytes
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.parquet.joined import Outline
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import prefetched
from tidyberg.storage.s3.reading import PieceOfFile

_BUFFERED_AT_ONCE = 64 * MB  # compressed bytes of the row groups that one read fetches
_STREAMED_AT_ONCE = 32 * MB  # the same for a streamed file, whose next piece is fetched meanwhile
_CHUNK_PADDING = 100  # Old parquet-mr files understate the size of a chunk; Arrow reads this many bytes more
_BATCH_BYTES = 32 * MB  # a batch should stay below this size, uncompressed
_MAX_CACHED_SCHEMAS = 16
# Arrow cannot read strings in other encodings (DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY) as dictionaries.
_READ_AS_DICTIONARIES = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))


@dataclass(frozen=True)
class FileSchema:
    """What the reader derives from a Parquet schema, shared by all files with that schema."""

    schema: pa.Schema
    leaves: list[Leaf]
    selection: Selection
    outline: Outline | None  # set for small files that may be joined


class Reader:
    """Reads files as batches of one target schema."""

    def __init__(
        self,
        storage: Storage,
        target: pa.Schema,
        *,
        batch_rows: int,
        constants: Mapping[int, Any],
        should_stop: Callable[[], bool],
        name_mapping: Mapping[Path, int] | None = None,
        joins: bool = False,
        cores: int = 1,
        stream_buffer: int = 0,
    ) -> None:
        """With `joins`, the reader finds out which small files it may join. That costs a closer look at the first.

        With a `stream_buffer`, it holds only so many bytes of each column chunk, because many files are open at once.
        """
        self._storage = storage
        self._target = target
        ids = [field_id(column) for column in target if pa.types.is_dictionary(column.type)]
        self._dictionary_ids = [identifier for identifier in ids if identifier is not None]
        self._nanosecond_ids = {leaf.field_id for leaf in leaves(target) if _is_nanoseconds(leaf.type)}
        self._batch_rows = batch_rows
        self._projector = Projector(target, constants)
        self._should_stop = should_stop
        self._name_mapping = name_mapping
        self._joins = joins
        self._cores = cores
        self._stream_buffer = stream_buffer
        if cores > pa.cpu_count():
            pa.set_cpu_count(cores)  # Spark limits its workers to one thread
        self._file_schemas: deque[FileSchema] = deque(maxlen=_MAX_CACHED_SCHEMAS)

    def selection(self, file: OpenFile) -> Selection:
        return self.file_schema(file).selection

    def file_schema(self, file: OpenFile) -> FileSchema:
        """Thousands of files share a few schemas, so each schema is analysed once."""
        small = file.content if self._joins and file.input.size <= SMALL_FILE else None
        if small is not None:
            for file_schema in tuple(self._file_schemas):  # threads may share a reader
                if file_schema.outline is not None and file_schema.outline.fits(small, file.footer):
                    return file_schema
        with self._storage.guard(file.input.path):
            schema = file.footer.schema.to_arrow_schema()
        outline = Outline.of(small, file.footer) if small is not None else None
        if outline is None:
            for file_schema in tuple(self._file_schemas):  # threads may share a reader
                # Field ids are metadata.
                if file_schema.outline is None and file_schema.schema.equals(schema, check_metadata=True):
                    return file_schema
        with _naming_file(file):
            file_schema = FileSchema(schema, leaves(schema), select(schema, self._target, self._name_mapping), outline)
        self._file_schemas.appendleft(file_schema)
        return file_schema

    def batches(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Yields the task's rows of the file, then closes it. Raises if the number of rows is wrong."""
        with file.source:
            yield from self.scan(file, selection)

    def scan(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Like `batches`, but leaves the file open so that it can be read again."""
        rows, wanted = 0, file.end_row - file.first_row
        for batch in self._batches_in_range(file, selection):
            if self._should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            rows += batch.num_rows
            with _naming_file(file):
                projected = self.projected(batch, selection)
            yield projected
        if rows != wanted:
            raise KernelFailure(
                FailureKind.DAMAGED,
                f"{file.input.path} is damaged: {rows} rows could be read, but {wanted} were expected.",
            )

    def _batches_in_range(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Drops the rows of other tasks, if a file is divided inside a row group."""
        if file.rows_taken is None:
            yield from self._raw_batches(file, selection)
            return
        row_groups = file.row_groups
        place = row_group_starts(file.footer)[row_groups[0]] if row_groups else 0
        with closing(self._raw_batches(file, selection)) as batches:
            for batch in batches:
                begin, end = max(0, file.first_row - place), min(batch.num_rows, file.end_row - place)
                place += batch.num_rows
                if begin < end:
                    yield batch.slice(begin, end - begin)
                if place >= file.end_row:
                    return

    def _raw_batches(self, file: OpenFile, selection: Selection) -> Generator[pa.RecordBatch, None, None]:
        with _naming_file(file):
            self._int96_unit(file.footer, selection)  # raises if there is none
        if self._stream_buffer and not file.in_memory:
            with self._storage.guard(file.input.path):
                batches = self.decoded(
                    file.source, file.footer, selection, file.row_groups, buffer_size=self._stream_buffer
                )
            yield from self._guarded(batches, file)
            return
        for row_groups, together, source in self._sources(file, selection):
            in_memory = source is not file.source or file.in_memory
            buffered = not in_memory and together <= 2 * _BUFFERED_AT_ONCE
            with self._storage.guard(file.input.path):
                buffer_size = 0 if buffered or in_memory else 4 * MB
                batches = self.decoded(
                    source, file.footer, selection, row_groups, pre_buffer=buffered, buffer_size=buffer_size
                )
            yield from self._guarded(batches, file)

    def decoded(
        self,
        source: pa.NativeFile,
        footer: pq.FileMetaData,
        selection: Selection,
        row_groups: Sequence[int] | None = None,
        *,
        pre_buffer: bool = False,
        buffer_size: int = 0,
        encoded_as: pq.FileMetaData | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Decodes the selected columns of these row groups, or of all, in the file's own schema.

        `encoded_as` is a footer that lists the encodings, if the file's own footer does not.
        """
        chosen = range(footer.num_row_groups) if row_groups is None else row_groups
        names = self._dictionary_columns(encoded_as or footer, selection, None if encoded_as else chosen)
        decode = partial(self._decode, source, selection, chosen, pre_buffer=pre_buffer, buffer_size=buffer_size)
        return _with_plain_fallback(decode, footer, names)

    def _decode(
        self,
        source: pa.NativeFile,
        selection: Selection,
        row_groups: Sequence[int],
        footer: pq.FileMetaData,
        as_dictionaries: list[str],
        *,
        pre_buffer: bool,
        buffer_size: int,
    ) -> Iterator[pa.RecordBatch]:
        parquet = pq.ParquetFile(
            source,
            metadata=footer,
            pre_buffer=pre_buffer,
            buffer_size=buffer_size,
            read_dictionary=as_dictionaries,
            coerce_int96_timestamp_unit=self._int96_unit(footer, selection),
            thrift_string_size_limit=1 << 30,
            thrift_container_size_limit=1 << 30,
        )
        rows_at_once = self._rows_per_batch(footer)
        options = {
            "column_indices": selection.columns,
            "use_threads": self._cores > 1,
        }  # with one core per task, threads would compete
        if len(row_groups) == 1 and footer.row_group(row_groups[0]).num_rows <= rows_at_once:
            # Arrow frees each column's pages when it has decoded them; a stream keeps all pages until its end.
            return iter(parquet.reader.read_row_groups(row_groups, **options).to_batches())
        batches: Iterator[pa.RecordBatch] = parquet.reader.iter_batches(rows_at_once, row_groups=row_groups, **options)
        return batches

    def _int96_unit(self, footer: pq.FileMetaData, selection: Selection) -> str:
        """Returns microseconds if possible: Arrow's nanoseconds overflow silently outside 1677-2262."""
        if not self._nanosecond_ids:
            return "us"
        stored = [one for one, index in selection.source_of.items() if _is_int96(footer, index)]
        nanoseconds = [one for one in stored if one in self._nanosecond_ids]
        if nanoseconds and len(nanoseconds) < len(stored):
            raise KernelFailure(
                FailureKind.SCHEMA,
                "INT96 columns of microseconds and of nanoseconds in one file cannot be read without losing values.",
            )
        return "ns" if nanoseconds else "us"

    def projected(self, batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
        """Returns a decoded batch in the target schema."""
        return self._projector.project(batch, selection.ids)

    def _sources(self, file: OpenFile, selection: Selection) -> Iterator[tuple[list[int], int, pa.NativeFile]]:
        """Yields row groups to decode together, their size and their source. Streams are fetched one piece ahead."""
        stream = file.stream
        if stream is None or _largest_piece(file) > 2 * _BUFFERED_AT_ONCE or not _reads_half(file.footer, selection):
            yield from ((row_groups, together, file.source) for row_groups, together in _pieces(file))
            return

        def fetch(piece: tuple[list[int], int]) -> tuple[list[int], int, pa.NativeFile]:
            row_groups, together = piece
            start, end = _span(file.footer, row_groups, file.input.size)
            return row_groups, together, pa.PythonFile(PieceOfFile(stream.take(start, end), start), mode="r")

        pieces = prefetched(fetch, _pieces(file, _STREAMED_AT_ONCE), ahead=1)
        with closing(pieces):
            while True:
                with self._storage.guard(file.input.path):
                    piece = next(pieces, None)
                if piece is None:
                    return
                yield piece

    def _dictionary_columns(
        self, footer: pq.FileMetaData, selection: Selection, row_groups: Sequence[int] | None
    ) -> list[str]:
        """Returns the file's names of the columns that Arrow can and should read as dictionaries."""
        if not self._dictionary_ids:
            return []
        groups = [footer.row_group(number) for number in row_groups or range(footer.num_row_groups)]
        wanted = [selection.source_of[one] for one in self._dictionary_ids if one in selection.source_of]
        return [
            footer.schema.column(index).path
            for index in wanted
            if all(_READ_AS_DICTIONARIES.issuperset(group.column(index).encodings) for group in groups)
        ]

    def _guarded(self, batches: Iterator[pa.RecordBatch], file: OpenFile) -> Iterator[pa.RecordBatch]:
        while True:
            with self._storage.guard(file.input.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _rows_per_batch(self, footer: pq.FileMetaData) -> int:
        """Wide rows come in smaller batches: no string or list column of a batch may exceed 2 GB."""
        groups = map(footer.row_group, range(footer.num_row_groups))
        widest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0.0)
        return max(1, min(self._batch_rows, int(_BATCH_BYTES / max(1.0, widest))))


def _with_plain_fallback(
    decode: Callable[[pq.FileMetaData, list[str]], Iterator[pa.RecordBatch]],
    footer: pq.FileMetaData,
    as_dictionaries: list[str],
) -> Iterator[pa.RecordBatch]:
    """Reads dictionaries, and continues with plain values if Arrow fails: a footer need not list every encoding.

    A failure with another cause occurs again with plain values.
    """
    rows = 0
    try:
        for batch in decode(footer, as_dictionaries):
            rows += batch.num_rows
            yield batch
        return
    except (OSError, pa.ArrowException):
        plain = without_dictionaries(footer)
        if plain is footer and not as_dictionaries:
            raise
    for batch in decode(plain, []):
        left = batch.slice(rows)
        rows -= batch.num_rows - left.num_rows
        if left.num_rows:
            yield left


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _is_int96(footer: pq.FileMetaData, leaf: int) -> bool:
    return bool(footer.schema.column(leaf).physical_type == "INT96")


@contextmanager
def _naming_file(file: OpenFile) -> Iterator[None]:
    """Adds the name of the file to failures."""
    try:
        yield
    except KernelFailure as failure:
        raise KernelFailure(failure.kind, f"{file.input.path}: {failure.message}") from None


def _largest_piece(file: OpenFile) -> int:
    return max((together for _, together in _pieces(file, _STREAMED_AT_ONCE)), default=0)


def _reads_half(footer: pq.FileMetaData, selection: Selection) -> bool:
    """Below half of the bytes, separate requests for the few columns are cheaper."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    read = sum(group.column(i).total_compressed_size for group in groups for i in selection.columns)
    everything = sum(group.column(i).total_compressed_size for group in groups for i in range(group.num_columns))
    return bool(2 * read >= everything)


def _span(footer: pq.FileMetaData, row_groups: Sequence[int], size: int) -> tuple[int, int]:
    """Returns where the column chunks of these row groups begin and end in the file."""
    starts, ends = [], []
    for index in row_groups:
        group = footer.row_group(index)
        for chunk in map(group.column, range(group.num_columns)):
            first = first_page(chunk)
            starts.append(first)
            ends.append(first + chunk.total_compressed_size + _CHUNK_PADDING)
    return min(starts), min(max(ends), size)


def _pieces(file: OpenFile, at_once: int | None = None) -> Iterator[tuple[list[int], int]]:
    """Yields row groups to fetch together, and their compressed size. Arrow buffers everything in one request."""
    piece: list[int] = []
    together = 0
    for index in file.row_groups:
        size = stored_bytes(file.footer, index)
        if piece and together + size > (at_once or _BUFFERED_AT_ONCE):
            yield piece, together
            piece, together = [], 0
        piece.append(index)
        together += size
    if piece:
        yield piece, together
