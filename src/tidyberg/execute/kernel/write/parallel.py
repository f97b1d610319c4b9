"""An output whose columns are encoded beside each other, on several cores, and put together as Arrow would have."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidyberg.execute.kernel.write.encoders import ColumnEncoders, Encoding
from tidyberg.execute.kernel.write.output import Output
from tidyberg.execute.kernel.write.paged import SplicedFile
from tidyberg.execute.kernel.write.table_columns import TableColumns
from tidyberg.storage.file_io import Place, Storage


class AssembledOutput:
    """The file being written; encoding goes on in the background."""

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
        self._encoding: tuple[int, Encoding] | None = None
        self._file = SplicedFile(storage, place, schema, columns.leaves)

    @property
    def nan_counts(self) -> dict[int, int]:
        return self._file.nan_counts

    def write(self, table: pa.Table) -> None:
        """Begins a row group; how large it is turns out when it is settled, before the next one."""
        assert self._encoding is None
        self._encoding = table.num_rows, self._encoders.begin(table, self._options, self._leaf_numbers)

    def settle(self) -> int:
        """Waits for the row group; returns the bytes that the file has on storage now."""
        assert self._encoding is not None
        (rows, encoding), self._encoding = self._encoding, None
        with self._storage.guard(self.place.location, writing=True):
            encoded = encoding.result()
        return self._file.write(rows, {}, encoded, {})

    def finish(self, iceberg_schema: str) -> Output:
        return self._file.finish(iceberg_schema)

    def abandon(self) -> bool:
        return self._file.abandon()
