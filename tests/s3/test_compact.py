"""Tables on a real S3 server, compacted: rows equal, requests few, nothing left."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.conftest import make_control
from tests.s3.lab import OPTIONS, REF, S3Warehouse, noise
from tests.servers.s3 import S3Server
from tidyberg.execute.inline import InlineEngine


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    warehouse = S3Warehouse(tmp_path / "lab", s3_server, bucket)
    with warehouse:
        yield warehouse


def test_small_files_cost_one_request_each(lake: S3Warehouse) -> None:
    table = lake.create_table(schema=noise(1, 0).schema)
    lake.append_files(table, 6, files_per_commit=3, rows=lambda number: noise(1000, number))
    inputs = {file.path.partition(f"{lake.bucket}/")[2] for file in lake.live_files(table)}
    expected = lake.rows_read(table)
    before = len(lake.server.asked(lake.bucket))
    with make_control(lake, InlineEngine()) as control:
        control.compact(REF, OPTIONS)
    asked = lake.server.asked(lake.bucket)[before:]
    assert Counter(operation for operation, key in asked if key in inputs) == {"GetObject": 6}
    assert lake.rows_read(table) == expected
    assert len(lake.live_files(table)) == 1
    assert lake.objects() == lake.referenced(table)
