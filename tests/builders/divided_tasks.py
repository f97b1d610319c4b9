"""File groups that are divided among several tasks, and their joined results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from tests.builders.tasks import field, make_task, read_rows, run
from tidyberg.execute.tasks.division import divided
from tidyberg.model.task import Task, TaskInput, TaskResult
from tidyberg.verify.parts import Joining

COLUMNS = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2), field("ratio", pa.float64(), 3)])

EVOLVED = pa.schema([*COLUMNS, field("added", pa.string(), 4)])

TABLE = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "ratio", DoubleType(), required=False),
    NestedField(4, "added", StringType(), required=False),
)


def write_groups(path: Path, row_groups: Sequence[int], first: int, **about: Any) -> TaskInput:
    """Writes a file with row groups of these sizes and consecutive ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = sum(row_groups)
    ids = range(first, first + rows)
    ratios = [float("nan") if i % 7 == 0 else i / 3 for i in ids]
    names = [None if i % 5 == 0 else f"name {i}" for i in ids]
    table = pa.table([pa.array(ids, pa.int64()), pa.array(names), pa.array(ratios)], schema=COLUMNS)
    with pq.ParquetWriter(path, COLUMNS, store_schema=False) as writer:
        done = 0
        for group in row_groups:
            writer.write_table(table.slice(done, group), row_group_size=max(1, group))
            done += group
    return TaskInput(str(path), path.stat().st_size, rows, **about)


def run_divided(task: Task, schema: Schema = TABLE) -> TaskResult:
    """Runs all parts of a task, the last one first, and joins their results."""
    joining = Joining({task.group_id: task}, schema)
    parts = divided([task])
    assert [part.part for part in parts] == list(range(task.parts))
    *some, whole = [joining.take(run(part)) for part in reversed(parts)]
    assert some == [None] * (task.parts - 1)
    assert whole is not None
    return whole


def assert_same(divided_result: TaskResult, alone: TaskResult) -> None:
    found, expected = (repr(read_rows([o.path for o in r.outputs])) for r in (divided_result, alone))
    assert found == expected  # as text, because NaN is not equal to itself
    for name in ("rows_read", "rows_deleted", "rows_written", "bytes_read", "checksum", "input_facts"):
        assert getattr(divided_result, name) == getattr(alone, name), name
    assert divided_result.bytes_written == sum(Path(o.path).stat().st_size for o in divided_result.outputs)


@st.composite
def groups_of_files(draw: st.DrawFn) -> list[list[int]]:
    files = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6), min_size=1, max_size=3)
    return draw(files.filter(lambda found: sum(map(sum, found)) > 0))


def divided_task(inputs: list[TaskInput], directory: Path, *, parts: int, target: int, lineage: bool = False) -> Task:
    task = make_task(inputs, EVOLVED, directory, outputs=2 * parts, target=target, constants={4: "old"})
    return replace(
        task, write=replace(task.write, dictionary=False), parts=parts, max_bytes=1 << 30, splices=True, lineage=lineage
    )


def made_plain(file: TaskInput) -> TaskInput:
    path, groups = Path(file.path), pq.ParquetFile(file.path)
    tables = [groups.read_row_group(number) for number in range(groups.num_row_groups)]
    with pq.ParquetWriter(path, groups.schema_arrow, store_schema=False, use_dictionary=False, compression="zstd",
                          write_page_index=True) as writer:  # fmt: skip
        for table in tables:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
    return replace(file, size=path.stat().st_size)
