"""Tasks that splice, and the same tasks that encode everything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.execute.builders import STORAGE, make_task
from tidyberg.execute.kernel import encode
from tidyberg.execute.kernel.run import run_task
from tidyberg.execute.kernel.splice import eligibility as judge
from tidyberg.execute.kernel.write import source_chunks as parts
from tidyberg.model.task import TaskInput, TaskResult, WrittenFile

METRICS = [one.name for one in fields(WrittenFile) if one.name.endswith(("_counts", "_bounds"))]


@contextmanager
def small_files_count(judged: int = 1) -> Iterator[None]:
    """Without this, splicing pays only for files of tens of thousands of rows. The first files decide for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_SAMPLED_FILES", judged)
        patch.setattr(judge, "MIN_DICTIONARY_ROWS", 0)
        patch.setattr(judge, "_MIN_MOVED_SHARE", 0.0)
        patch.setattr(judge, "_FILES_PER_OUTPUT", 0)
        patch.setattr(judge, "MIN_PAGE_VALUES", 0)
        patch.setattr(parts, "MIN_PAGE_VALUES", 0)
        yield


def rewrite(inputs: Sequence[TaskInput], directory: Path, schema: pa.Schema, **changes: Any) -> TaskResult:
    """Runs a task that splices by default. `write` changes some of its settings."""
    settings = {"dictionary": False, **changes.pop("write", {})}
    task = make_task(inputs, schema, directory, **{"splices": True, **changes})
    result = run_task(replace(task, write=replace(task.write, **settings)), 0, STORAGE)
    assert isinstance(result, TaskResult)
    return result


def both(
    inputs: Sequence[TaskInput], directory: Path, schema: pa.Schema, **changes: Any
) -> tuple[TaskResult, TaskResult]:
    """Runs the task twice: spliced, and encoded."""
    spliced = rewrite(inputs, directory / "spliced", schema, **changes)
    encoded = rewrite(inputs, directory / "encoded", schema, splices=False, **changes)
    assert encoded.bytes_spliced == 0
    return spliced, encoded


def assert_alike(spliced: TaskResult, encoded: TaskResult) -> None:
    """Compares everything that verification and manifests receive."""
    assert (spliced.mode, spliced.rows_read, spliced.rows_written) == (
        "encode",
        encoded.rows_read,
        encoded.rows_written,
    )
    assert spliced.input_facts == encoded.input_facts
    assert spliced.output_facts == encoded.output_facts
    for one, other in zip(spliced.outputs, encoded.outputs, strict=True):
        assert one.records == other.records
        for metric in METRICS:
            assert getattr(one, metric) == getattr(other, metric), metric


def rows_of(result: TaskResult) -> pa.Table:
    return pa.concat_tables([pq.read_table(output.path) for output in result.outputs])


def moved_columns(result: TaskResult) -> set[str]:
    """Returns the columns whose pages are all plain, according to the footers."""
    footer = pq.read_metadata(result.outputs[0].path)
    columns = map(footer.row_group(0).column, range(footer.num_columns))
    return {column.path_in_schema for column in columns if not column.has_dictionary_page}
