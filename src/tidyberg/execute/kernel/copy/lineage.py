"""Row lineage of copied row groups: two added columns store what the rows inherit from their file [I8]."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.lineage import LAST_UPDATED_NAME, LINEAGE_FIELDS, ROW_ID_NAME
from tidyberg.execute.kernel.read.source import Source, open_source
from tidyberg.model.task import TaskInput, WriteSettings
from tidyberg.parquet.codecs import writer_option
from tidyberg.parquet.errors import CannotCopy

COLUMNS = len(LINEAGE_FIELDS)
_SCHEMA = pa.schema(LINEAGE_FIELDS)
_MOST_ROWS = 64 * 1024 * 1024  # Arrow begins another row group after this many rows, whatever its options say
LINEAGE = bytes(_SCHEMA.serialize())


class RowGroupWithLineage:
    """A row group with the added lineage columns; behaves like Arrow's `RowGroupMetaData`."""

    def __init__(self, group: pq.RowGroupMetaData, added: pq.RowGroupMetaData) -> None:
        self._group = group
        self._added = added
        self.num_rows = group.num_rows

    def column(self, index: int) -> Any:
        own = self._group.num_columns
        return self._group.column(index) if index < own else self._added.column(index - own)


def check_stored_lineage(source: Source) -> None:
    """Raises CannotCopy if a stored value may be null: in a new file, the row would inherit another value."""
    footer = source.arrow_footer
    for number in source.groups_with_rows:
        group = footer.row_group(number)
        for index in range(group.num_columns - COLUMNS, group.num_columns):
            chunk = group.column(index)
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                raise CannotCopy(f"{source.input.path}: some of its rows may inherit their row lineage from the file")


def inherited_lineage(source: Source, number: int, settings: WriteSettings) -> Source:
    """Writes the lineage of a row group's rows into a file in memory, whose columns a copy adds to the row group."""
    before = sum(group.rows for group in source.footer.row_groups[:number])
    rows = source.footer.row_groups[number].rows
    if rows > _MOST_ROWS:
        raise CannotCopy(f"a row group of {source.input.path} has {rows} rows, too many to add their row lineage")
    first = source.input.first_row_id
    if first is None:  # the commit assigns the ids
        ids = pa.nulls(rows, pa.int64())
    else:
        ids = pa.array(np.arange(first + before, first + before + rows, dtype=np.int64))
    updated = pa.array(np.full(rows, source.input.sequence_number, dtype=np.int64))
    sink = io.BytesIO()
    pq.write_table(
        pa.table([ids, updated], schema=_SCHEMA),
        sink,
        row_group_size=rows,
        use_dictionary=[LAST_UPDATED_NAME],
        compression=writer_option(settings.compression),
        write_page_index=True,
        store_schema=False,
    )
    content = sink.getvalue()

    def read(_: str, offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    name = f"{ROW_ID_NAME} of row group {number} of {source.input.path}"
    return open_source(TaskInput(name, len(content), rows), read, whole=content)
