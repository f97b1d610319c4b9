"""Joins of equality deletes with rows on an S3 store: their temporary files are objects, and none of them is left."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from tests.builders.events_table import append, compact, delete_files, make_table, options, paths
from tests.builders.s3_warehouse import S3Warehouse, properties_of
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Asked, Break, Delay, Error, Fault, S3Proxy
from tidyberg.execute.engine import Engine
from tidyberg.execute.inline import InlineEngine
from tidyberg.execute.spark.engine import SparkEngine
from tidyberg.model.options import Strategy
from tidyberg.model.sizes import MB
from tidyberg.model.task import SCRATCH_NAME
from tidyberg.storage.s3.settings import S3Settings
from tidyberg.storage.s3.store import S3Store
from tidyberg.testing.deletes import EqualTo, commit_deletes

GONE = {0, 11, 23, 42}
MANY_KEYS = 3_000_000  # their filter is larger than a part of an upload


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[S3Warehouse]:
    with S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket)) as warehouse:
        yield warehouse


def with_deletes(lake: S3Warehouse, format_version: int = 2) -> Table:
    """Creates a table whose rows are deleted by two sets of columns. Rows of its last file are too new for that."""
    table = make_table(lake, format_version=format_version)
    first = paths(lake, table)[0]
    keys = {"id": [23, 42], "note": ["note-2", "note-0"]}
    commit_deletes(table, EqualTo({"id": [0, 11, 60, 999]}, first), EqualTo(keys, first))
    return append(lake, table, [6], "eu")


def scanned(table: Table) -> list[int]:
    found: list[int] = table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    return sorted(found)


def is_scratch(asked: Asked, ending: str = "") -> bool:
    return SCRATCH_NAME.fullmatch(asked.key.rpartition("/")[2]) is not None and asked.key.endswith(ending)


def check_clean(lake: S3Warehouse, table: Table, server: S3Server, bucket: str) -> None:
    assert scanned(table) == [number for number in range(70) if number not in GONE]
    assert server.objects(bucket) == lake.referenced(table)
    assert not server.unfinished_uploads(bucket)


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
def test_deletes_are_joined_through_objects_that_are_removed(
    lake: S3Warehouse, s3_server: S3Server, bucket: str, engine: Callable[[], Engine]
) -> None:
    table = with_deletes(lake)
    assert compact(lake, replace(options(), join_delete_size=1), engine=engine()).outcome == "committed"
    assert delete_files(lake, table) == []
    check_clean(lake, table, s3_server, bucket)
    names = [(operation, key.rpartition("/")[2]) for operation, key in s3_server.asked(bucket)]
    of_joins = {(operation, name) for operation, name in names if SCRATCH_NAME.fullmatch(name)}
    written = {name for operation, name in of_joins if operation == "PutObject"}
    assert {name.rpartition(".")[2] for name in written} == {"filter", "parquet"}
    assert {name for operation, name in of_joins if operation == "GetObject"} == written


def test_a_minor_compaction_joins_too(lake: S3Warehouse, s3_server: S3Server, bucket: str) -> None:
    table = with_deletes(lake, format_version=3)
    how = replace(options(Strategy.DELETES_ONLY), join_delete_size=1)
    assert compact(lake, how).outcome == "committed"
    assert all(path.endswith(".puffin") for path in delete_files(lake, table))
    check_clean(lake, table, s3_server, bucket)


@pytest.mark.parametrize("fault", [Error(503, "SlowDown"), Break("before"), Break("after"), Break("within")])
def test_every_first_request_for_a_file_of_a_join_may_fail(
    tmp_path: Path, s3_server: S3Server, bucket: str, fault: Fault
) -> None:
    seen: set[tuple[str, str]] = set()

    def fail_first(asked: Asked) -> Fault:
        request = (asked.method, asked.key)
        if not is_scratch(asked) or request in seen:
            return None
        seen.add(request)
        return fault

    with S3Proxy(s3_server.port, fail_first) as proxy:
        fast = {"s3.retry.min-wait-ms": "5", "s3.retry.max-wait-ms": "100"}
        properties = {**properties_of(s3_server, bucket, proxy.endpoint), **fast}
        with S3Warehouse(tmp_path / "lab", properties) as lake:
            table = with_deletes(lake)
            assert compact(lake, replace(options(), join_delete_size=1)).outcome == "committed"
            check_clean(lake, table, s3_server, bucket)
    assert {method for method, _ in seen} == {"PUT", "GET", "DELETE"}


@pytest.mark.parametrize("ending", [".filter", ".parquet"])
def test_objects_of_a_join_that_was_killed_are_removed(
    lake: S3Warehouse, s3_server: S3Server, bucket: str, ending: str
) -> None:
    table = with_deletes(lake)
    kill_when_held(lake, s3_server, bucket, lambda asked: asked.method == "GET" and is_scratch(asked, ending))
    assert any(SCRATCH_NAME.fullmatch(path.rpartition("/")[2]) for path in s3_server.objects(bucket))
    assert compact(lake).outcome == "committed"
    check_clean(lake, table, s3_server, bucket)


def test_the_upload_of_a_large_filter_that_was_killed_is_aborted(
    lake: S3Warehouse, s3_server: S3Server, bucket: str
) -> None:
    """A listing of objects does not show an open upload, but the store charges for it [I6]."""
    table = with_deletes(lake)
    keys = pa.array(range(1000, 1000 + MANY_KEYS), pa.int64())
    commit_deletes(table, EqualTo({"id": keys}, paths(lake, table)[0]))
    kill_when_held(lake, s3_server, bucket, lambda asked: "partNumber" in asked.path and is_scratch(asked))
    settings = S3Settings.of(lake.properties)
    assert settings is not None
    (begun,) = S3Store(settings).uploads(bucket, "")
    assert begun.target.key.endswith(".filter")
    assert compact(lake, replace(options(), join_delete_size=1)).outcome == "committed"
    check_clean(lake, table, s3_server, bucket)


def kill_when_held(lake: S3Warehouse, server: S3Server, bucket: str, held: Callable[[Asked], bool]) -> None:
    """Compacts in a process of its own, and kills it while it waits for the answer to such a request."""
    with S3Proxy(server.port, lambda asked: Delay(60) if held(asked) else None) as proxy:
        small_parts = {"s3.multipart.part-size-bytes": str(5 * MB)}
        properties = json.dumps({**properties_of(server, bucket, proxy.endpoint), **small_parts})
        command = [sys.executable, "-m", "tests.s3.victim", str(lake.directory), properties, "encode", "1"]
        with subprocess.Popen(command) as victim:
            deadline = time.monotonic() + 120
            while not proxy.held and victim.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            victim.kill()
    assert proxy.held
