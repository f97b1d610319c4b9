"""A copy in the object store of the table is rewritten there and removed."""

from pathlib import Path

from pyiceberg.table import Table

from tests.builders.bench_plans import FULL, NO_LIMIT, planned, put_copy
from tests.builders.s3_warehouse import S3Warehouse, noise, properties_of
from tests.servers.s3 import S3Server
from tidyberg.benchmarking.sample import choose_sample
from tidyberg.benchmarking.scratch import REF, Scratch
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore


def rows_read(table: Table) -> list[str]:
    return sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))


def test_a_copy_on_s3_is_rewritten_there_and_removed(tmp_path: Path, s3_server: S3Server, bucket: str) -> None:
    lake = S3Warehouse(tmp_path / "lab", properties_of(s3_server, bucket))
    with lake:
        table = lake.create_table(schema=noise(1, 0).schema)
        lake.append_files(table, 4, rows=lambda number: noise(500, number))
        before, rows = s3_server.objects(bucket), rows_read(table)
        with Scratch(f"s3://{bucket}/tmp/", table) as scratch:
            copy = put_copy(scratch, table, choose_sample(planned(lake, tmp_path), NO_LIMIT))
            assert rows_read(copy) == rows
            store = SqliteStore(scratch.directory / "jobs.db", is_alive)
            with Control(lambda _: scratch.open_catalog(), InlineEngine, store) as control:
                result = control.compact(REF, FULL)
            assert result.job.requests["get"] > 0
            assert rows_read(copy) == rows
            written = s3_server.objects(bucket) - before
            assert written
            assert all(path.startswith(f"s3://{bucket}/tmp/tidyberg-bench-") for path in written)
        assert s3_server.objects(bucket) == before
        assert not scratch.directory.exists()
