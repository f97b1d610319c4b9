"""Small Parquet files and tasks over them, for the tests of this package."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidyberg.execute.kernel.columns.project import leaves
from tidyberg.model.task import Task, TaskInput, WriteSettings
from tidyberg.storage.access import StorageAccess

STORAGE = StorageAccess()


def field(name: str, kind: pa.DataType, identifier: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"PARQUET:field_id": str(identifier)})


def write_file(path: Path, table: pa.Table, **options: Any) -> TaskInput:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **{"store_schema": False, **options})
    return TaskInput(str(path), path.stat().st_size, table.num_rows)


def make_task(
    inputs: Sequence[TaskInput],
    schema: pa.Schema,
    directory: Path,
    *,
    outputs: int = 1,
    target: int | None = None,
    **changes: Any,
) -> Task:
    size = sum(file.size for file in inputs)
    modes = {leaf.field_id: "full" for leaf in leaves(schema) if leaf.field_id is not None}
    task = Task(
        job_id="job",
        group_id=0,
        inputs=tuple(inputs),
        arrow_schema=bytes(schema.serialize()),
        iceberg_schema='{"type":"struct"}',
        output_directory=str(directory),
        outputs=outputs,
        target_bytes=target or max(1, size // outputs),
        max_bytes=int(1.8 * (target or max(1, size // outputs))) + 1,
        write=WriteSettings(metrics_modes=modes),
    )
    return dataclasses.replace(task, **changes)


NUMBERS = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])


def number_files(directory: Path, files: int, rows: int) -> list[TaskInput]:
    """Files of NUMBERS with consecutive ids from 0."""
    made = []
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        table = pa.table([pa.array(ids, pa.int64()), pa.array([f"name {i}" for i in ids])], schema=NUMBERS)
        made.append(write_file(directory / f"in-{number}.parquet", table))
    return made


def read_rows(paths: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in paths:
        rows += pq.ParquetFile(path).read().to_pylist()
    return rows
