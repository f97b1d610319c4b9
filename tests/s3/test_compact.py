"""Compacts tables on a real S3 server: rows stay equal, requests are few, and nothing is left after a kill."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.control import make_control
from tests.builders.events_table import REF
from tests.builders.s3_warehouse import OPTIONS, S3Warehouse, noise, properties_of
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Asked, Delay, Fault, S3Proxy
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.model.options import RewriteMode, VerifyMode
from tidyberg.model.sizes import MB
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import S3Store


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    warehouse = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with warehouse:
        yield warehouse


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(InlineEngine, id="inline"),
        pytest.param(
            lambda: SparkEngine("local[2]"),
            id="spark",
            marks=[pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")],
        ),
    ],
)
def test_small_files_cost_one_request_each(
    lake: S3Warehouse, s3_server: S3Server, bucket: str, engine: Callable[[], Engine]
) -> None:
    table = lake.create_table(schema=noise(1, 0).schema)
    lake.append_files(table, 6, files_per_commit=3, rows=lambda number: noise(1000, number))
    inputs = {file.path.partition(f"{bucket}/")[2] for file in lake.live_files(table)}
    expected = table.scan().to_arrow().sort_by("id")
    before = len(s3_server.asked(bucket))
    with make_control(lake, engine()) as control:
        control.compact(REF, OPTIONS)
        asked = s3_server.asked(bucket)[before:]
        assert Counter(operation for operation, key in asked if key in inputs) == {"GetObject": 6}
        assert table.refresh().scan().to_arrow().sort_by("id") == expected
        lake.append_files(table, 2, rows=lambda number: noise(1000, 6 + number))
        control.compact(REF, replace(OPTIONS, mode=RewriteMode.COPY), verify=VerifyMode.FULL)
    assert table.refresh().scan().to_arrow().sort_by("id").slice(0, expected.num_rows) == expected
    assert len(lake.live_files(table)) == 1
    assert s3_server.objects(bucket) == lake.referenced(table)


@pytest.mark.parametrize("mode", [RewriteMode.ENCODE, RewriteMode.AUTO, RewriteMode.COPY])
def test_full_verification_finds_nothing_false_in_sound_outputs(lake: S3Warehouse, mode: RewriteMode) -> None:
    table = lake.create_table(schema=noise(1, 0).schema)
    lake.append_files(table, 4, files_per_commit=2, rows=lambda number: noise(1000, number))
    with make_control(lake, InlineEngine()) as control:
        result = control.compact(REF, replace(OPTIONS, mode=mode), verify=VerifyMode.FULL)
    assert result.outcome == "committed"


@pytest.mark.parametrize("mode", [RewriteMode.ENCODE, RewriteMode.COPY])
def test_a_worker_killed_while_it_uploads_leaves_nothing(
    tmp_path: Path, lake: S3Warehouse, s3_server: S3Server, bucket: str, mode: RewriteMode
) -> None:
    """A listing of objects does not show an open upload, but the store charges for it [I6]."""
    table = lake.create_table(schema=noise(1, 0).schema)
    lake.append_files(table, 3, rows=lambda number: noise(250_000, number))
    expected = table.scan().to_arrow().sort_by("id")

    def hold_parts(asked: Asked) -> Fault:
        return Delay(60) if "partNumber" in asked.path and "/data/" in asked.path else None

    with S3Proxy(s3_server.port, hold_parts) as proxy:
        small_parts = {"s3.multipart.part-size-bytes": str(5 * MB)}
        properties = json.dumps({**properties_of(s3_server, bucket, proxy.endpoint), **small_parts})
        command = [sys.executable, "-m", "tests.s3.victim", str(lake.directory), properties, mode.value]
        with subprocess.Popen(command) as victim:
            deadline = time.monotonic() + 120
            while not proxy.held and time.monotonic() < deadline:
                time.sleep(0.05)
            victim.kill()
    assert proxy.held
    assert _begun(lake, bucket)
    with make_control(lake, InlineEngine()) as control:
        control.compact(REF, replace(OPTIONS, mode=RewriteMode.ENCODE))
    assert table.refresh().scan().to_arrow().sort_by("id") == expected
    assert s3_server.objects(bucket) == lake.referenced(table)
    assert not _begun(lake, bucket)
    assert not s3_server.unfinished_uploads(bucket)


def _begun(lake: S3Warehouse, bucket: str) -> list[str]:
    settings = S3Settings.of(lake.properties)
    assert settings is not None
    return [upload.target.key for upload in S3Store(settings).uploads(bucket, "")]
