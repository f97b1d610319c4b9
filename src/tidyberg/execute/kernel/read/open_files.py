"""Opens data files and reads their footers, a few files ahead of the one in use."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.read.row_ranges import row_group_starts, row_range
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import TaskInput
from tidyberg.storage.file_io import Storage
from tidyberg.storage.prefetch import FILES_AHEAD, prefetched
from tidyberg.storage.s3.reading import S3InputFile

MB = 1024 * 1024
FETCHED_WHOLE = 16 * MB  # one request fetches a file of up to this size
SMALL_FILE = MB // 4
_SMALL_FILES_AHEAD = 16  # remote storage: reading a small file is mostly latency
_LOCAL_FILES_AHEAD = 1  # more would only hold memory


@dataclass(frozen=True)
class OpenFile:
    """A data file whose footer has been read."""

    input: TaskInput
    source: pa.NativeFile
    footer: pq.FileMetaData
    content: pa.Buffer | None  # the whole file, if it is in memory
    stream: S3InputFile | None = None  # set if the store sends the file in order, with one request
    rows_taken: tuple[int, int] | None = None  # first row and end row; set if other tasks read the rest

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
        """The row groups that hold rows of this task."""
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


def fetch_source(storage: Storage, path: str, known_size: int) -> tuple[pa.NativeFile, pa.Buffer | None]:
    """Returns the open file, and its bytes if they were fetched whole."""
    place = storage.place(path)
    if place.object is not None:
        # The manifest gives the size, so one request for the bytes is enough.
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
        raise KernelFailure(FailureKind.STORAGE, f"Reading {path} returned {content.size} of its {size} bytes.")
    return pa.BufferReader(content), content


def open_run(storage: Storage, file: TaskInput) -> OpenFile:
    """Opens a file without fetching it, because many files are open side by side."""
    return _opened(storage, file, storage.open_input(storage.place(file.path), file.size))


def open_file(storage: Storage, file: TaskInput) -> OpenFile:
    stream = storage.open_streaming(storage.place(file.path), file.size) if file.size > FETCHED_WHOLE else None
    source, content = fetch_source(storage, file.path, file.size) if stream is None else (stream.as_arrow(), None)
    return _opened(storage, file, source, content, stream)


def _opened(
    storage: Storage,
    file: TaskInput,
    source: pa.NativeFile,
    content: pa.Buffer | None = None,
    stream: S3InputFile | None = None,
) -> OpenFile:
    with storage.guard(file.path):
        footer = pq.read_metadata(source)
        rows_taken = None if file.share is None else row_range(footer, file)
    if footer.num_rows != file.records:
        raise KernelFailure(
            FailureKind.DAMAGED,
            f"{file.path} holds {footer.num_rows} rows, but the table's manifest says {file.records}.",
        )
    return OpenFile(file, source, footer, content, stream, rows_taken)


def open_prefetched(storage: Storage, files: Sequence[TaskInput]) -> Generator[OpenFile, None, None]:
    """Opens files in order, a few ahead of the one in use."""
    bunches = list(_bunches(storage, files))
    with closing(prefetched(partial(_open_all, storage), bunches, _files_ahead(storage, files))) as opened:
        for bunch in opened:
            yield from bunch


def _files_ahead(storage: Storage, files: Sequence[TaskInput]) -> int:
    """Looks at the first file only: this is about speed, and the files of a table nearly always share one store."""
    if not files or storage.place(files[0].path).is_local:
        return _LOCAL_FILES_AHEAD
    return _SMALL_FILES_AHEAD if sum(file.size for file in files) <= len(files) * SMALL_FILE else FILES_AHEAD


def _open_all(storage: Storage, files: Sequence[TaskInput]) -> list[OpenFile]:
    return [open_file(storage, file) for file in files]


def _bunches(storage: Storage, files: Sequence[TaskInput]) -> Iterator[list[TaskInput]]:
    """Groups small local files: opening one is faster than passing it between threads."""
    bunch: list[TaskInput] = []
    size = 0
    for file in files:
        if bunch and (size + file.size > SMALL_FILE or not storage.place(file.path).is_local):
            yield bunch
            bunch, size = [], 0
        bunch.append(file)
        size += file.size
    if bunch:
        yield bunch
