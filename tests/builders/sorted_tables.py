"""Tables with a sort order, and files that claim to be in it, truly or not."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from tidyberg.execute.kernel.order.sorting import is_sorted, sorted_positions
from tidyberg.model.sort_key import SortField as KeyField
from tidyberg.model.sort_key import SortKey
from tidyberg.testing import Warehouse
from tidyberg.testing.warehouse import local_path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)
ORDER = SortOrder(
    SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
    SortField(2, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
)
KEY = SortKey((KeyField(1, descending=True, nulls_last=True), KeyField(2)), order_id=1)


def create_sorted_table(warehouse: Warehouse, name: str = "db.events") -> Table:
    warehouse.catalog.create_namespace_if_not_exists("db")
    return warehouse.catalog.create_table(name, SCHEMA, sort_order=ORDER)


def rows_from(first: int, count: int, step: int = 1) -> pa.Table:
    """Rows with ids from `first`, every seventh of them null, in no order."""
    ids = [None if number % 7 == 3 else first + step * (number * 37 % count) for number in range(count)]
    return pa.table([ids, [f"name {number % 10}" for number in range(count)]], schema=schema_to_pyarrow(SCHEMA))


def in_order(rows: pa.Table, key: SortKey = KEY) -> pa.Table:
    return rows.take(pa.array(sorted_positions(rows, key)))


def append_claiming(table: Table, contents: Sequence[pa.Table], claim: int | None = 1, name: str = "run") -> None:
    """Appends each of the tables as a file that claims the sort order, whatever its rows are."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number, rows in enumerate(contents):
            path = f"{local_path(table.location())}/data/{name}-{number}.parquet"
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path, store_schema=False)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=rows.num_rows,
                file_size_in_bytes=Path(path).stat().st_size,
                column_sizes={},
                value_counts={},
                null_value_counts={},
                nan_value_counts={},
                lower_bounds={},
                upper_bounds={},
                sort_order_id=claim,
            )
            file.spec_id = table.spec().spec_id
            append.append_data_file(file)


def claims(table: Table) -> list[int | None]:
    return [file["sort_order_id"] for file in table.refresh().inspect.files().to_pylist()]


def files_in_order(table: Table, key: SortKey = KEY) -> bool:
    """Whether the rows of every live file are in the order."""
    paths = [local_path(path) for path in table.refresh().inspect.files()["file_path"].to_pylist()]
    return all(is_sorted(pq.ParquetFile(path).read().select(["id", "name"]), key) for path in paths)
