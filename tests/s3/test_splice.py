"""Splices files in a store: one request per input, and nothing is left behind."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyiceberg.io.pyarrow as iceberg_writer
import pytest

from tests.builders.control import make_control
from tests.builders.engines import Watched
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, noise, properties_of
from tests.servers.s3 import S3Server
from tidyberg.errors import Cancelled
from tidyberg.execute.engine import CancelToken
from tidyberg.execute.kernel.write.paged_output import PagedOutput
from tidyberg.model.options import RewriteMode

FILES, ROWS = 6, 25_000


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table of files without dictionaries, as writers produce them if a dictionary saves nothing."""
    settings = iceberg_writer._get_parquet_writer_kwargs
    monkeypatch.setattr(
        iceberg_writer, "_get_parquet_writer_kwargs", lambda found: {**settings(found), "use_dictionary": False}
    )
    with S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket)) as made:
        table = made.create_table(schema=noise(1, 0).schema)
        made.append_files(table, FILES, rows=lambda number: noise(ROWS, number))
        yield made, table


def test_small_files_are_spliced_with_one_request_each(lake: Any, s3_server: S3Server, bucket: str) -> None:
    warehouse, table = lake
    expected = table.scan().to_arrow().sort_by("id")
    inputs = {file.path.partition(f"{bucket}/")[2] for file in warehouse.live_files(table)}
    before, engine = len(s3_server.asked(bucket)), Watched()
    with make_control(warehouse, engine) as control:
        job = control.compact(REF, OPTIONS).job
    asked = Counter(what for what, key in s3_server.asked(bucket)[before:] if key in inputs)
    assert asked == {"GetObject": FILES}
    (result,) = engine.results
    assert result.mode == "encode"
    assert 0.9 * result.bytes_read < result.bytes_spliced < result.bytes_written
    assert (job.spliced.groups, job.spliced.files, job.spliced.bytes) == (1, FILES, result.bytes_read)
    assert (job.spliced.bytes_spliced, job.spliced.bytes_written) == (result.bytes_spliced, result.bytes_written)
    assert 0 < job.spliced.seconds == job.task_seconds
    assert table.refresh().scan().to_arrow().sort_by("id") == expected
    (output,) = (s3_server.data / bucket / file.path.partition(f"{bucket}/")[2] for file in warehouse.live_files(table))
    assert pq.read_metadata(output).num_row_groups == 1
    assert s3_server.objects(bucket) == warehouse.referenced(table)
    assert not s3_server.unfinished_uploads(bucket)
    with make_control(warehouse, Watched()) as control:
        again = control.compact(REF, replace(OPTIONS, mode=RewriteMode.ENCODE, force=True)).job
    assert again.spliced.groups == 0


def test_a_job_that_is_cancelled_during_a_splice_leaves_nothing(
    lake: Any, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, table = lake
    before, cancel = s3_server.objects(bucket), CancelToken()
    finish = PagedOutput.finish

    def finish_then_cancel(*arguments: Any) -> Any:
        written = finish(*arguments)
        cancel.cancel()
        return written

    monkeypatch.setattr(PagedOutput, "finish", finish_then_cancel)
    with make_control(warehouse, Watched()) as control, pytest.raises(Cancelled):
        control.compact(REF, OPTIONS, cancel=cancel)
    assert s3_server.objects(bucket) == before == warehouse.referenced(table)
    assert not s3_server.unfinished_uploads(bucket)
