"""One table as four Parquet writers write it."""

from pathlib import Path

import pyarrow as pa

from tests.builders import copy_tasks, parquet_writers
from tests.builders.copy_tasks import given
from tests.builders.footers import edit_footer
from tests.builders.parquet_writers import Writer
from tests.builders.tasks import field
from tidyberg.model.task import TaskInput
from tidyberg.parquet.fields import ElementField, FileField
from tidyberg.parquet.thrift import I32, Struct

SCHEMA = pa.schema([field("id", pa.int64(), 1), *list(copy_tasks.SCHEMA)[1:9]])

IDS = {"id": 1, "small": 2, "name": 3, "ratio": 4, "at": 5, "price": 6, "tags": 7, "element": 8, "place": 9, "x": 10}
IDS |= {"label": 11, "day": 12}

ROWS = 4000


def table(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    return pa.Table.from_pydict(
        {
            "id": list(numbers),
            "small": [None if n % 7 == 0 else n for n in numbers],
            "name": [f"näme {n % 100}" for n in numbers],
            "ratio": [n / 3 for n in numbers],
            "at": pa.array([n * 1_000_000 for n in numbers], pa.int64()).cast(pa.timestamp("us")),
            "price": pa.array(list(numbers), pa.int64()).cast(pa.decimal128(22, 2)).cast(pa.decimal128(20, 2)),
            "tags": [None if n % 3 == 0 else [n, n + 1] for n in numbers],
            "place": [None if n % 5 == 0 else {"x": n, "label": "here"} for n in numbers],
            "day": pa.array([n % 9000 for n in numbers], pa.int32()).cast(pa.date32()),
        },
        schema=SCHEMA,
    )


def by_arrow(rows: pa.Table, path: Path) -> None:
    bloom = {"id": {"ndv": 1000, "fpp": 0.0001}}
    write = parquet_writers.by_arrow(row_group_size=1000, write_page_index=True, bloom_filter_options=bloom)
    write(rows, path)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    parquet_writers.by_duckdb(", ROW_GROUP_SIZE 2048, COMPRESSION zstd")(rows, path)
    edit_footer(path, give_ids)


def by_polars(rows: pa.Table, path: Path) -> None:
    without_ids = rows.cast(pa.schema([pa.field(column.name, column.type) for column in SCHEMA]))
    parquet_writers.by_polars(row_group_size=1000)(without_ids, path)
    edit_footer(path, give_ids)


def by_arrow_rs(rows: pa.Table, path: Path) -> None:
    write = parquet_writers.by_arrow_rs(
        max_row_group_size=1000,
        data_page_row_count_limit=100,
        write_batch_size=100,
        bloom_filter_enabled=True,
        bloom_filter_ndv=1000,
        bloom_filter_fpp=0.0001,
        compression="zstd(1)",
    )
    write(rows, path)


def give_ids(footer: Struct) -> None:
    """Adds the field ids, which these writers do not write in full."""
    for element in footer[FileField.SCHEMA][1].items[1:]:
        name = element[ElementField.NAME][1].decode()
        if name in IDS:
            element[ElementField.FIELD_ID] = (I32, IDS[name])
            ordered = dict(sorted(element.items()))
            element.clear()
            element.update(ordered)


WRITERS: list[Writer] = [by_arrow, by_arrow_rs, by_duckdb, by_polars]


def inputs_of(write: Writer, directory: Path, files: int = 3) -> list[TaskInput]:
    found = []
    for number in range(files):
        path = directory / f"{write.__name__}-{number}.parquet"
        write(table(number * ROWS), path)
        found.append(given(path, ROWS))
    return found
