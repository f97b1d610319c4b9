"""An input file on its way into a splice: what can be moved of it."""

from tidyberg.execute.kernel.read.reader import OpenFile
from tidyberg.execute.kernel.read.source import Source, check_writer, open_source
from tidyberg.execute.kernel.write.chunk_parts import Part, parts_of
from tidyberg.execute.kernel.write.table_columns import Column, TableColumns, by_field_id, columns, same_column
from tidyberg.model.task import WriteSettings
from tidyberg.parquet.errors import CannotCopy
from tidyberg.parquet.thrift import Bytes
from tidyberg.storage.file_io import Storage


class SplicedInput:
    """An open file, and its footer as a copy sees it."""

    def __init__(self, file: OpenFile, storage: Storage) -> None:
        self.file = file
        self._storage = storage
        self._columns: dict[int, list[Column]] = {}
        self._source = self._as_for_copy()

    def parts(self, table: TableColumns, position: int, settings: WriteSettings) -> list[list[Part]]:
        """Of every leaf of one of the table's columns; raises CannotCopy where its pages cannot be moved."""
        if isinstance(self._source, CannotCopy):
            raise self._source
        if not is_whole(self.file):
            raise CannotCopy("others take some of its rows")
        column = same_column(self._columns, table.columns[position])
        table_leaves = list(table.leaves_of(position).values())
        return parts_of(self._source, column, table_leaves, self._view, settings, own=False)

    def _as_for_copy(self) -> Source | CannotCopy:
        try:
            source = open_source(self.file.input, lambda _, offset, length: self._read(offset, length))
            check_writer(source)
            self._columns = by_field_id(columns(source.footer.schema))
        except CannotCopy as refusal:
            return refusal
        return source

    def _view(self, offset: int, length: int) -> Bytes:
        """Of a file in memory a view: it is kept until what is moved of it is written."""
        if self.file.content is None:
            return self._read(offset, length)
        return memoryview(self.file.content).cast("B")[offset : offset + length]

    def _read(self, offset: int, length: int) -> bytes:
        with self._storage.guard(self.file.input.path):
            return bytes(self.file.source.read_at(length, offset))


def is_whole(file: OpenFile) -> bool:
    """Whether the task takes all of its rows."""
    return bool(file.end_row - file.first_row == file.footer.num_rows)
