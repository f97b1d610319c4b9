"""Arrow omits bounds of long values. Then no row group of the column has bounds, because DataFusion misuses them."""

from dataclasses import replace
from pathlib import Path

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import STORAGE, field, make_task, write_file
from tidyberg.execute.kernel.run import run_task
from tidyberg.model.task import TaskResult

SCHEMA = pa.schema([field("id", pa.int64(), 1), field("document", pa.string(), 2)])
LONG = "x" * 5_000  # Arrow stores no bounds above 4,096 bytes


@pytest.mark.parametrize("cores", [1, 2])
def test_a_column_has_bounds_in_all_row_groups_or_in_none(tmp_path: Path, cores: int) -> None:
    """DataFusion treats equal bounds of one row group as the values of the whole file."""
    documents = [LONG] * 4 + ["short"] * 4
    rows = pa.table({"id": range(8), "document": documents}, schema=SCHEMA)
    task = make_task([write_file(tmp_path / "in.parquet", rows)], SCHEMA, tmp_path / "out", batch_rows=4, cores=cores)
    result = run_task(replace(task, write=replace(task.write, row_group_bytes=1)), 0, STORAGE)
    assert isinstance(result, TaskResult)
    (output,) = result.outputs
    footer = pq.read_metadata(output.path)
    assert footer.num_row_groups > 1
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert {group.column(1).statistics.has_min_max for group in groups} == {False}
    assert {group.column(0).statistics.has_min_max for group in groups} == {True}
    found = datafusion.SessionContext().read_parquet(output.path).to_pydict()
    assert sorted(zip(found["id"], found["document"], strict=True)) == list(enumerate(documents))
