"""An input file of a splice: finds the pages that can be moved."""

from tidyberg.execute.kernel.read.open_files import OpenFile
from tidyberg.execute.kernel.read.source import Source, check_writer, open_source
from tidyberg.execute.kernel.write.source_chunks import SourceChunk, source_chunks
from tidyberg.execute.kernel.write.table_columns import (
    TableColumns,
    TopLevelColumn,
    by_field_id,
    columns,
    matching_column,
)
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.thrift import Bytes
from tidyberg.storage.file_io import Storage


class SplicedInput:
    """An open file, and its parsed footer if its pages can be moved at all."""

    def __init__(self, file: OpenFile, storage: Storage) -> None:
        self.file = file
        self._storage = storage
        self._columns: dict[int, list[TopLevelColumn]] = {}
        self._source = self._open_source()

    def chunks(self, table: TableColumns, position: int, settings: WriteSettings) -> list[list[SourceChunk]]:
        """Returns the chunks of every leaf of a table column. Raises CannotCopy if their pages cannot be moved."""
        if isinstance(self._source, CannotCopy):
            raise self._source
        if not is_whole(self.file):
            raise CannotCopy("other tasks read some of its rows")
        column = matching_column(self._columns, table.columns[position])
        table_leaves = list(table.leaves_of(position).values())
        return source_chunks(self._source, column, table_leaves, self._view, settings, own=False)

    def _open_source(self) -> Source | CannotCopy:
        try:
            source = open_source(self.file.input, lambda _, offset, length: self._read(offset, length))
            check_writer(source)
            self._columns = by_field_id(columns(source.footer.schema))
        except CannotCopy as refusal:
            return refusal
        return source

    def _view(self, offset: int, length: int) -> Bytes:
        """Returns a view if the file is in memory; the view keeps the file alive until its pages are written."""
        if self.file.content is None:
            return self._read(offset, length)
        return memoryview(self.file.content).cast("B")[offset : offset + length]

    def _read(self, offset: int, length: int) -> bytes:
        with self._storage.guard(self.file.input.path):
            return bytes(self.file.source.read_at(length, offset))


def is_whole(file: OpenFile) -> bool:
    """Whether the task reads all rows of the file."""
    return bool(file.end_row - file.first_row == file.footer.num_rows)
