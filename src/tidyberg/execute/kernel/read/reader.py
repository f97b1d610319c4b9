"""Streams the rows of Parquet files in the table's schema, a bounded piece at a time."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.metrics import first_page
from tidyberg.execute.kernel.columns.names import Path, field_id
from tidyberg.execute.kernel.columns.project import Leaf, Projector, Selection, leaves, select
from tidyberg.execute.kernel.read.shares import row_group_starts, rows_of_share, stored_bytes
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput
from tidyberg.parquet.joined import Outline
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import FILES_AHEAD, run_ahead
from tidyberg.storage.s3.reading import PieceOfFile, S3InputFile

MB = 1024 * 1024
FETCHED_WHOLE = 16 * MB  # a file up to this size costs one request for its bytes
_BUFFERED_AT_ONCE = 64 * MB  # compressed bytes of row groups asked for together
_STREAMED_AT_ONCE = 32 * MB  # the same of a streamed file, whose next piece is fetched meanwhile
_CHUNK_PADDING = 100  # Arrow reads so much more of a chunk of old parquet-mr files, whose sizes are too small
_BATCH_BYTES = 32 * MB  # uncompressed bytes a batch should stay below, whatever its row count
_SMALL_FILE = MB // 4
_SMALL_FILES_AHEAD = 16  # on remote storage, where small files are all latency
_LOCAL_FILES_AHEAD = 1  # more would only hold memory
_MOST_SHAPES = 16
# Strings in other encodings (DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY) Arrow reads only one by one.
_READ_AS_DICTIONARIES = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))


@dataclass(frozen=True)
class OpenFile:
    """A data file with its footer read."""

    input: TaskInput
    source: pa.NativeFile
    footer: pq.FileMetaData
    content: pa.Buffer | None  # all of its bytes, where they are in memory
    stream: S3InputFile | None = None  # of a store that sends the rest in order, by one request
    rows_taken: tuple[int, int] | None = None  # from, up to: of a file that the task shares with others

    @property
    def in_memory(self) -> bool:
        return self.content is not None

    @property
    def first_row(self) -> int:
        return 0 if self.rows_taken is None else self.rows_taken[0]

    @property
    def end_row(self) -> int:
        return self.input.records if self.rows_taken is None else self.rows_taken[1]

    @property
    def row_groups(self) -> list[int]:
        """Those with rows that are taken."""
        if self.rows_taken is None:
            return list(range(self.footer.num_row_groups))
        starts = row_group_starts(self.footer)
        ends = [*starts[1:], self.footer.num_rows]
        return [
            number
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
            if max(start, self.first_row) < min(end, self.end_row)
        ]

    @property
    def uncompressed_bytes(self) -> int:
        return sum(self.footer.row_group(i).total_byte_size for i in range(self.footer.num_row_groups))


@dataclass(frozen=True)
class Shape:
    """What all files of one Parquet schema have in common."""

    schema: pa.Schema
    leaves: list[Leaf]
    selection: Selection
    outline: Outline | None  # of tiny files that may be joined


def fetch_source(storage: Storage, path: str, known_size: int) -> tuple[pa.NativeFile, pa.Buffer | None]:
    """An open file, and all of its bytes where they are in memory already."""
    place = storage.place(path)
    if place.object is not None:
        # An object store is asked for bytes and nothing else: their number is known from the manifest.
        if known_size <= FETCHED_WHOLE:
            content = storage.read_whole(place, known_size)
            return pa.BufferReader(content), content
        return storage.open_input(place, known_size), None
    source = storage.open_input(place)
    with storage.guard(path):
        size = source.size()
        if size > FETCHED_WHOLE:
            return source, None
        with source:
            content = source.read_buffer()
    if content.size != size:
        raise KernelFailure(FailureKind.STORAGE, f"Reading {path} gave {content.size} of its {size} bytes.")
    return pa.BufferReader(content), content


def open_file(storage: Storage, file: TaskInput) -> OpenFile:
    stream = storage.open_streaming(storage.place(file.path), file.size) if file.size > FETCHED_WHOLE else None
    source, content = fetch_source(storage, file.path, file.size) if stream is None else (stream.as_arrow(), None)
    with storage.guard(file.path):
        footer = pq.read_metadata(source)
        rows_taken = None if file.share is None else rows_of_share(footer, file)
    if footer.num_rows != file.records:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"{file.path} holds {footer.num_rows} rows, but the table's manifest says {file.records}.",
        )
    return OpenFile(file, source, footer, content, stream, rows_taken)


def open_ahead(storage: Storage, files: Sequence[TaskInput]) -> Generator[OpenFile, None, None]:
    """Open files in order, a few ahead of the one in use."""
    bunches = list(_bunches(storage, files))
    with closing(run_ahead(partial(_open_all, storage), bunches, _files_ahead(storage, files))) as opened:
        for bunch in opened:
            yield from bunch


def _files_ahead(storage: Storage, files: Sequence[TaskInput]) -> int:
    """By the first of them: it is only about speed, and a table's files lie in one store, but for rare ones."""
    if not files or storage.place(files[0].path).is_local:
        return _LOCAL_FILES_AHEAD
    return _SMALL_FILES_AHEAD if sum(file.size for file in files) <= len(files) * _SMALL_FILE else FILES_AHEAD


def _open_all(storage: Storage, files: Sequence[TaskInput]) -> list[OpenFile]:
    return [open_file(storage, file) for file in files]


def _bunches(storage: Storage, files: Sequence[TaskInput]) -> Iterator[list[TaskInput]]:
    """Small local files, some at a time: to open one takes less than to hand it from thread to thread."""
    bunch: list[TaskInput] = []
    size = 0
    for file in files:
        if bunch and (size + file.size > _SMALL_FILE or not storage.place(file.path).is_local):
            yield bunch
            bunch, size = [], 0
        bunch.append(file)
        size += file.size
    if bunch:
        yield bunch


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
    ) -> None:
        """`joins` if tiny files are to be read many at once: that takes a close look at the first of them."""
        self._storage = storage
        self._target = target
        ids = [field_id(column) for column in target if pa.types.is_dictionary(column.type)]
        self._dictionary_ids = [identifier for identifier in ids if identifier is not None]
        self._batch_rows = batch_rows
        self._projector = Projector(target, constants)
        self._should_stop = should_stop
        self._name_mapping = name_mapping
        self._joins = joins
        self._cores = cores
        if cores > pa.cpu_count():
            pa.set_cpu_count(cores)  # Spark's workers are told to use one thread
        self._shapes: deque[Shape] = deque(maxlen=_MOST_SHAPES)

    def selection(self, file: OpenFile) -> Selection:
        return self.shape(file).selection

    def shape(self, file: OpenFile) -> Shape:
        """Thousands of files share a few schemas: what follows from one is worked out once."""
        tiny = file.content if self._joins and file.input.size <= _SMALL_FILE else None
        if tiny is not None:
            for shape in tuple(self._shapes):  # threads may share a reader
                if shape.outline is not None and shape.outline.fits(tiny, file.footer):
                    return shape
        with self._storage.guard(file.input.path):
            schema = file.footer.schema.to_arrow_schema()
        outline = Outline.of(tiny, file.footer) if tiny is not None else None
        if outline is None:
            for shape in tuple(self._shapes):  # threads may share a reader
                # Field ids are metadata.
                if shape.outline is None and shape.schema.equals(schema, check_metadata=True):
                    return shape
        with _naming(file):
            shape = Shape(schema, leaves(schema), select(schema, self._target, self._name_mapping), outline)
        self._shapes.appendleft(shape)
        return shape

    def batches(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """All rows that the task takes of the file, which is closed then; raises when they are not as many as said."""
        with file.source:
            yield from self.look_through(file, selection)

    def look_through(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """The same, but the file stays open, to be read again."""
        rows, wanted = 0, file.end_row - file.first_row
        for batch in self._taken_batches(file, selection):
            if self._should_stop():
                raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
            rows += batch.num_rows
            with _naming(file):
                projected = self.projected(batch, selection)
            yield projected
        if rows != wanted:
            raise KernelFailure(FailureKind.DAMAGED, f"{file.input.path}: read {rows} rows of {wanted}.")

    def _taken_batches(self, file: OpenFile, selection: Selection) -> Iterator[pa.RecordBatch]:
        """Without the rows of row groups that other tasks take, where a file is cut inside one."""
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
        """The selected columns of these row groups, or of all, as the file has them.

        `encoded_as` is a footer that tells the encodings, where that of the file does not.
        """
        chosen = range(footer.num_row_groups) if row_groups is None else row_groups
        names = self._dictionary_columns(encoded_as or footer, selection, None if encoded_as else chosen)
        decode = partial(
            self._decode, source, footer, selection, chosen, pre_buffer=pre_buffer, buffer_size=buffer_size
        )
        return _or_plain(partial(decode, names), partial(decode, [])) if names else decode([])

    def _decode(
        self,
        source: pa.NativeFile,
        footer: pq.FileMetaData,
        selection: Selection,
        row_groups: Sequence[int],
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
            # Arrow's nanoseconds wrap silently outside 1677-2262.
            coerce_int96_timestamp_unit="us",
            thrift_string_size_limit=1 << 30,
            thrift_container_size_limit=1 << 30,
        )
        rows_at_once = self._rows_per_batch(footer)
        options = {"column_indices": selection.columns, "use_threads": self._cores > 1}  # else each core has a task
        if len(row_groups) == 1 and footer.row_group(row_groups[0]).num_rows <= rows_at_once:
            # Arrow lets go of each column's pages when it is done; a stream keeps all of them to its end.
            return iter(parquet.reader.read_row_groups(row_groups, **options).to_batches())
        batches: Iterator[pa.RecordBatch] = parquet.reader.iter_batches(rows_at_once, row_groups=row_groups, **options)
        return batches

    def projected(self, batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
        """What was decoded, in the target's schema."""
        return self._projector.project(batch, selection.ids)

    def _sources(self, file: OpenFile, selection: Selection) -> Iterator[tuple[list[int], int, pa.NativeFile]]:
        """Row groups to decode together, and what to read them from: a streamed file's are fetched a piece ahead."""
        stream = file.stream
        if stream is None or _largest_piece(file) > 2 * _BUFFERED_AT_ONCE or not _reads_most(file.footer, selection):
            yield from ((row_groups, together, file.source) for row_groups, together in _pieces(file))
            return

        def fetch(piece: tuple[list[int], int]) -> tuple[list[int], int, pa.NativeFile]:
            row_groups, together = piece
            start, end = _span(file.footer, row_groups, file.input.size)
            return row_groups, together, pa.PythonFile(PieceOfFile(stream.take(start, end), start), mode="r")

        pieces = run_ahead(fetch, _pieces(file, _STREAMED_AT_ONCE), ahead=1)
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
        """The file's own names of the columns that the target wants dictionary-encoded, and Arrow can read so."""
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
        """Fewer rows where rows are wide: no string or list column of a batch may pass 2 GB."""
        groups = map(footer.row_group, range(footer.num_row_groups))
        widest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0.0)
        return max(1, min(self._batch_rows, int(_BATCH_BYTES / max(1.0, widest))))


def _or_plain(
    as_dictionaries: Callable[[], Iterator[pa.RecordBatch]], plain: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The first, and once Arrow cannot go on, what is left of the second: footers need not tell every encoding.

    What is wrong for another reason fails again.
    """
    rows = 0
    try:
        for batch in as_dictionaries():
            rows += batch.num_rows
            yield batch
        return
    except (OSError, pa.ArrowException):
        pass
    for batch in plain():
        left = batch.slice(rows)
        rows -= batch.num_rows - left.num_rows
        if left.num_rows:
            yield left


@contextmanager
def _naming(file: OpenFile) -> Iterator[None]:
    """Failures say which file they are about."""
    try:
        yield
    except KernelFailure as failure:
        raise KernelFailure(failure.kind, f"{file.input.path}: {failure.message}") from None


def _largest_piece(file: OpenFile) -> int:
    return max((together for _, together in _pieces(file, _STREAMED_AT_ONCE)), default=0)


def _reads_most(footer: pq.FileMetaData, selection: Selection) -> bool:
    """Else the few columns that are read are cheaper to ask for by themselves."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    read = sum(group.column(i).total_compressed_size for group in groups for i in selection.columns)
    everything = sum(group.column(i).total_compressed_size for group in groups for i in range(group.num_columns))
    return bool(2 * read >= everything)


def _span(footer: pq.FileMetaData, row_groups: Sequence[int], size: int) -> tuple[int, int]:
    """Where the column chunks of these row groups begin and end in the file."""
    starts, ends = [], []
    for index in row_groups:
        group = footer.row_group(index)
        for chunk in map(group.column, range(group.num_columns)):
            first = first_page(chunk)
            starts.append(first)
            ends.append(first + chunk.total_compressed_size + _CHUNK_PADDING)
    return min(starts), min(max(ends), size)


def _pieces(file: OpenFile, at_once: int | None = None) -> Iterator[tuple[list[int], int]]:
    """Row groups to fetch together, with their compressed bytes: Arrow buffers all it is asked for."""
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
