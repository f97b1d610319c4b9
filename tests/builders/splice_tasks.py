"""Tasks that splice pages, and the same tasks that encode everything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.tasks import field, make_task, write_file
from tests.builders.tasks import run as run_kernel
from tidyberg.execute.kernel import encode
from tidyberg.execute.kernel.splice import eligibility as judge
from tidyberg.execute.kernel.write import source_chunks as parts
from tidyberg.model.task import TaskInput, TaskResult, WrittenFile

METRICS = [one.name for one in fields(WrittenFile) if one.name.endswith(("_counts", "_bounds"))]


@contextmanager
def small_files_count(judged: int = 1) -> Iterator[None]:
    """Makes splicing worthwhile for small files. Otherwise it takes tens of thousands of rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_SAMPLED_FILES", judged)
        patch.setattr(judge, "MIN_DICTIONARY_ROWS", 0)
        patch.setattr(judge, "_MIN_MOVED_SHARE", 0.0)
        patch.setattr(judge, "_FILES_PER_OUTPUT", 0)
        patch.setattr(judge, "MIN_PAGE_VALUES", 0)
        patch.setattr(parts, "MIN_PAGE_VALUES", 0)
        yield


def rewrite(inputs: Sequence[TaskInput], directory: Path, schema: pa.Schema, **changes: Any) -> TaskResult:
    """Splices, unless `changes` say otherwise. `write` changes some write settings."""
    settings = {"dictionary": False, **changes.pop("write", {})}
    task = make_task(inputs, schema, directory, **{"splices": True, **changes})
    return run_kernel(replace(task, write=replace(task.write, **settings)))


def both(
    inputs: Sequence[TaskInput], directory: Path, schema: pa.Schema, **changes: Any
) -> tuple[TaskResult, TaskResult]:
    """Runs the task twice: spliced, and encoded."""
    spliced = rewrite(inputs, directory / "spliced", schema, **changes)
    encoded = rewrite(inputs, directory / "encoded", schema, splices=False, **changes)
    assert encoded.bytes_spliced == 0
    return spliced, encoded


def assert_alike(spliced: TaskResult, encoded: TaskResult) -> None:
    """Checks that both results report the same to verification and to manifests."""
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
    """Returns the columns without a dictionary page."""
    footer = pq.read_metadata(result.outputs[0].path)
    columns = map(footer.row_group(0).column, range(footer.num_columns))
    return {column.path_in_schema for column in columns if not column.has_dictionary_page}


PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "zstd", "write_page_index": True}

NUMBERS = pa.schema([field("id", pa.int64(), 1), field("kind", pa.string(), 2), field("ratio", pa.float64(), 3)])


def numbers(first: int, count: int) -> pa.Table:
    random = np.random.default_rng(first)
    kinds = np.array([f"kind {number}" for number in range(7)])
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "kind": kinds[random.integers(0, 7, count)],
            "ratio": pa.array(random.random(count), mask=random.random(count) < 0.1),
        },
        schema=NUMBERS,
    )


def large_files(directory: Path, files: int = 3, count: int = 25_000, **options: Any) -> list[Any]:
    given_options = {"compression": "zstd", "use_dictionary": ["kind"], "write_page_index": True, **options}
    return [
        write_file(directory / f"{number}.parquet", numbers(number * count, count), **given_options)
        for number in range(files)
    ]
