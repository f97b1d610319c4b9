"""Columns with NaN have no bounds: readers that sort NaN above all numbers would miss rows."""

from collections.abc import Callable
from pathlib import Path

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import STORAGE, field, make_task, write_file
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.kernel.write import rolling as write
from tidyberg.model.task import TaskResult, WrittenFile
from tidyberg.parquet.check.file import check_path

SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("x", pa.float64(), 2),
        field("same", pa.float32(), 3),
        field("calm", pa.float64(), 4),
        field("place", pa.struct([field("y", pa.float64(), 6)]), 5),
    ]
)
NAN = float("nan")


def rows(first: int, values: list[float]) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "id": range(first, first + count),
            "x": values,
            "same": [NAN if value != value else 1.5 for value in values],
            "calm": [float(number) for number in range(count)],
            "place": [{"y": value} for value in values],
        },
        schema=SCHEMA,
    )


@pytest.fixture(params=[1, 2], ids=["one core", "two cores"])
def output(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrittenFile:
    monkeypatch.setattr(write, "MIN_PARALLEL_BYTES", 0)
    tables = [rows(0, [1.0, 2.0, 3.0]), rows(3, [NAN, 4.0]), rows(5, [NAN])]
    inputs = [write_file(tmp_path / f"{number}.parquet", each) for number, each in enumerate(tables)]
    result = run_task(make_task(inputs, SCHEMA, tmp_path / "out", mode="encode", cores=request.param), 0, STORAGE)
    assert isinstance(result, TaskResult)
    (written,) = result.outputs
    return written


def by_duckdb(path: str, where: str) -> list[int]:
    return sorted(row[0] for row in duckdb.execute(f"SELECT id FROM read_parquet('{path}') WHERE {where}").fetchall())


def by_datafusion(path: str, where: str) -> list[int]:
    context = datafusion.SessionContext()
    context.register_parquet("t", path)
    return sorted(context.sql(f"SELECT id FROM t WHERE {where}").to_pydict().get("id", []))


Read = Callable[[str, str], list[int]]
READERS: list[Read] = [by_duckdb, by_datafusion]


@pytest.mark.parametrize("read", READERS)
def test_nan_is_found_above_all_numbers(output: WrittenFile, read: Read) -> None:
    assert read(output.path, "x > 100") == [3, 5]
    assert read(output.path, "place['y'] > 100") == [3, 5]
    assert read(output.path, "x = 2") == [1]
    assert read(output.path, "calm > 100") == []


def test_nan_is_not_mistaken_for_the_only_other_value(output: WrittenFile) -> None:
    context = datafusion.SessionContext()
    context.register_parquet("t", output.path)
    found = context.sql("SELECT same FROM t ORDER BY id").to_pydict()["same"]
    assert repr(found) == "[1.5, 1.5, 1.5, nan, 1.5, nan]"


def test_only_columns_with_nan_lose_their_bounds_in_footers_and_manifests(output: WrittenFile) -> None:
    group = pq.read_metadata(output.path).row_group(0)
    assert [group.column(number).statistics.has_min_max for number in range(5)] == [True, False, False, True, False]
    assert [group.column(number).has_column_index for number in range(5)] == [True, False, False, True, False]
    assert all(group.column(number).has_offset_index for number in range(5))
    assert set(output.lower_bounds) == set(output.upper_bounds) == {1, 4}
    assert output.nan_value_counts == {2: 2, 3: 2, 4: 0, 6: 2}
    assert not check_path(output.path).problems
