"""Tables with every kind of column, and tasks that copy files of them."""

import datetime as dt
import decimal
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.execute.builders import STORAGE, field, make_task
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskInput, TaskResult

SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1, nullable=False),
        field("small", pa.int32(), 2),
        field("name", pa.string(), 3),
        field("ratio", pa.float64(), 4),
        field("at", pa.timestamp("us"), 5),
        field("price", pa.decimal128(20, 2), 6),
        field("tags", pa.list_(field("element", pa.int32(), 8)), 7),
        field("place", pa.struct([field("x", pa.int64(), 10), field("label", pa.string(), 11)]), 9),
        field("day", pa.date32(), 12),
        field("flag", pa.bool_(), 13),
        field("raw", pa.binary(), 14),
        field("key", pa.uuid(), 15),
        field("zoned", pa.timestamp("us", tz="UTC"), 16),
        field("clock", pa.time64("us"), 17),
        field("counts", pa.map_(field("key", pa.string(), 19, nullable=False), field("value", pa.int64(), 20)), 18),
        field("cents", pa.decimal128(9, 2), 21),
        field("fixed", pa.binary(4), 22),
        field("weight", pa.float32(), 23),
    ]
)


def row(number: int) -> dict[str, Any]:
    """Returns a row made from its number, with some nulls."""
    day = dt.date(2020, 1, 1) + dt.timedelta(days=number % 4000)
    moment = dt.datetime(2021, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number)
    values: dict[str, Any] = {
        "small": number % 100,
        "name": f"näme {number % 50}",
        "ratio": number / 7,
        "at": moment.replace(tzinfo=None),
        "price": decimal.Decimal(number) * 100,
        "tags": [number, None, number + 1][: number % 4],
        "place": {"x": number, "label": None if number % 5 == 0 else "here"},
        "day": day,
        "flag": number % 2 == 0,
        "raw": number.to_bytes(8, "big"),
        "key": uuid.UUID(int=number).bytes,
        "zoned": moment,
        "clock": dt.time(number % 24, number % 60, 1),
        "counts": [(f"k{position}", position) for position in range(number % 3)],
        "cents": decimal.Decimal(number) / 4,
        "fixed": (number % 1000).to_bytes(4, "little"),
        "weight": float(number % 9),
    }
    left_out = {name for position, name in enumerate(values) if (number + position) % 11 == 0}
    return {"id": number} | {name: None if name in left_out else value for name, value in values.items()}


def rows(first: int, count: int) -> pa.Table:
    made = [row(number) for number in range(first, first + count)]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def given(path: Path, records: int) -> TaskInput:
    return TaskInput(str(path), path.stat().st_size, records)


def write_files(directory: Path, tables: Sequence[pa.Table], **options: Any) -> list[TaskInput]:
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for number, table in enumerate(tables):
        path = directory / f"in-{number}.parquet"
        pq.write_table(table, path, **{"store_decimal_as_integer": True, "store_schema": False, **options})
        made.append(given(path, table.num_rows))
    return made


def copy(inputs: Sequence[TaskInput], directory: Path, schema: pa.Schema = SCHEMA, **changes: Any) -> TaskResult:
    """Copies files if that is provably safe, and encodes them otherwise. The result says which."""
    result = run_task(make_task(inputs, schema, directory, **{"mode": "copy", **changes}), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result


def read_back(result: TaskResult, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.concat_tables([pq.read_table(output.path).cast(schema) for output in result.outputs])
