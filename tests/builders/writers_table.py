"""One table as four Parquet writers write it."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from arro3.io import write_parquet

from tests.builders import copy_tasks
from tests.builders.copy_tasks import given
from tests.builders.footers import edit_footer
from tests.builders.tasks import field
from tidyberg.model.task import TaskInput
from tidyberg.parquet.fields import ElementField, FileField
from tidyberg.parquet.thrift import I32, Struct

SCHEMA = pa.schema([field("id", pa.int64(), 1), *list(copy_tasks.SCHEMA)[1:9]])

IDS = {"id": 1, "small": 2, "name": 3, "ratio": 4, "at": 5, "price": 6, "tags": 7, "element": 8, "place": 9, "x": 10}

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
    pq.write_table(rows, path, row_group_size=1000, write_page_index=True, bloom_filter_options=bloom)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"COPY given TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION zstd)")
    edit_footer(path, give_ids)


def by_polars(rows: pa.Table, path: Path) -> None:
    frame = polars.from_arrow(rows.cast(pa.schema([pa.field(column.name, column.type) for column in bare(SCHEMA)])))
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(path, row_group_size=1000)
    edit_footer(path, give_ids)


def by_arrow_rs(rows: pa.Table, path: Path) -> None:
    write_parquet(
        rows,
        path,
        max_row_group_size=1000,
        data_page_row_count_limit=100,
        write_batch_size=100,
        bloom_filter_enabled=True,
        bloom_filter_ndv=1000,
        bloom_filter_fpp=0.0001,
        compression="zstd(1)",
    )


def bare(schema: pa.Schema) -> list[pa.Field]:
    return [pa.field(column.name, column.type) for column in schema]


def give_ids(footer: Struct) -> None:
    """These writers know field ids little or not at all."""
    for element in footer[FileField.SCHEMA][1].items[1:]:
        name = element[ElementField.NAME][1].decode()
        if name in IDS:
            element[ElementField.FIELD_ID] = (I32, IDS[name])
            ordered = dict(sorted(element.items()))
            element.clear()
            element.update(ordered)


Writer = Callable[[pa.Table, Path], None]

WRITERS: list[Writer] = [by_arrow, by_arrow_rs, by_duckdb, by_polars]


def inputs_of(write: Writer, directory: Path, files: int = 3) -> list[TaskInput]:
    found = []
    for number in range(files):
        path = directory / f"{write.__name__}-{number}.parquet"
        write(table(number * ROWS), path)
        found.append(given(path, ROWS))
    return found
