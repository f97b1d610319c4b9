"""Reads many small files at once: joins files of one schema in memory, and falls back to one by one."""

from collections.abc import Callable, Generator, Iterable, Sequence

import pyarrow as pa

from tidyberg.execute.kernel.read.open_files import MB, OpenFile
from tidyberg.execute.kernel.read.reader import FileSchema, Reader
from tidyberg.failures import FailureKind, KernelFailure
from tidyberg.model.task import Task
from tidyberg.parquet.joined import join

_JOINED_BYTES = 16 * MB  # uncompressed size of the files that are read together
_MAX_REFUSED = 4  # after this many failed joins the reader stops trying: later files are usually alike


class SmallFileReader:
    """Reads the files of a task, several at once if they can be joined."""

    def __init__(self, task: Task, reader: Reader, should_stop: Callable[[], bool]) -> None:
        self._reader = reader
        self._should_stop = should_stop
        self._max_rows = task.batch_rows
        self._refused = 0

    def bunches(self, files: Iterable[OpenFile]) -> Generator[tuple[FileSchema, list[OpenFile]], None, None]:
        """Yields files of one schema that may be read together, in order; every other file comes alone."""
        bunch: list[OpenFile] = []
        schema_of_bunch: FileSchema | None = None
        rows = size = 0
        for file in files:
            file_schema = self._reader.file_schema(file)
            rows += file.footer.num_rows
            size += file.uncompressed_bytes
            is_full = rows > self._max_rows or size > _JOINED_BYTES
            if schema_of_bunch is not None and (
                is_full or file_schema is not schema_of_bunch or not self._joinable(file)
            ):
                yield schema_of_bunch, bunch
                bunch, schema_of_bunch = [], None
            if not self._joinable(file) or file_schema.outline is None:
                yield file_schema, [file]
                continue
            if schema_of_bunch is None:
                rows, size = file.footer.num_rows, file.uncompressed_bytes
            schema_of_bunch = file_schema
            bunch.append(file)
        if schema_of_bunch is not None:
            yield schema_of_bunch, bunch

    def read(self, files: Sequence[OpenFile], file_schema: FileSchema) -> list[pa.RecordBatch] | None:
        """Returns all rows of a bunch, in order; None if its files must be read one by one.

        Reading one by one also finds out which file is damaged.
        """
        if self._should_stop():
            raise KernelFailure(FailureKind.STOPPED, "Stopped on request.")
        contents = [file.content for file in files if file.content is not None]
        if len(files) == 1 or len(contents) != len(files) or file_schema.outline is None:
            return None
        found: list[pa.RecordBatch] = []
        try:
            joined = join(contents, [file.footer for file in files], file_schema.outline, file_schema.selection.columns)
            if joined is not None:
                content, footer = joined
                decoded = self._reader.decoded(
                    pa.BufferReader(content), footer, file_schema.selection, encoded_as=files[0].footer
                )
                found = [self._reader.projected(batch, file_schema.selection) for batch in decoded]
        except (OSError, pa.ArrowException, KernelFailure):
            found = []
        if sum(batch.num_rows for batch in found) != sum(file.input.records for file in files):
            self._refused += 1
            return None
        return found

    def _joinable(self, file: OpenFile) -> bool:
        return self._refused < _MAX_REFUSED and file.rows_taken is None and bool(file.footer.num_rows)
