"""Writes an output whose columns are encoded on several cores. The file is what Arrow itself would write."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidyberg.execute.kernel.write.encoders import ColumnEncoders, PendingRowGroup
from tidyberg.execute.kernel.write.output import FinishedOutput
from tidyberg.execute.kernel.write.paged_output import PagedOutput
from tidyberg.execute.kernel.write.table_columns import TableColumns
from tidyberg.storage.file_io import Place, Storage


class ParallelOutput:
    """A file that is being written; threads encode its columns."""

    def __init__(
        self,
        storage: Storage,
        place: Place,
        schema: pa.Schema,
        options: Mapping[str, Any],
        encoders: ColumnEncoders,
    ) -> None:
        columns = TableColumns(schema)
        self.place = place
        self._storage = storage
        self._options = options
        self._encoders = encoders
        self._leaf_numbers = [column.leaf_numbers for column in columns.columns]
        self._encoding: tuple[int, PendingRowGroup] | None = None
        self._file = PagedOutput(storage, place, schema, columns.leaves)

    @property
    def nan_counts(self) -> dict[int, int]:
        return self._file.nan_counts

    def write(self, table: pa.Table) -> None:
        """Begins a row group. Call `finish_row_group` before the next one."""
        assert self._encoding is None
        self._encoding = table.num_rows, self._encoders.begin(table, self._options, self._leaf_numbers)

    def finish_row_group(self) -> int:
        """Waits for the row group and writes it. Returns the size of the file so far."""
        assert self._encoding is not None
        (rows, encoding), self._encoding = self._encoding, None
        with self._storage.guard(self.place.location, writing=True):
            encoded = encoding.result()
        return self._file.write(rows, {}, encoded, {})

    def finish(self, iceberg_schema: str) -> FinishedOutput:
        return self._file.finish(iceberg_schema)

    def abandon(self) -> bool:
        return self._file.abandon()
