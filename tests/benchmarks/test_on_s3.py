"""The tables of a scenario on a real S3 server: the same rows, and every request counted."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from benchmarks.on_s3 import S3Bench
from benchmarks.scenarios import SCENARIOS
from benchmarks.warehouse import TABLE, Bench

from tests.builders.scenarios import tiny
from tests.servers.s3 import S3Server
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse


@pytest.mark.parametrize("name", ["encode", "position-deletes"])
def test_tables_on_s3_are_rewritten_there_and_requests_counted(name: str, tmp_path: Path, s3_server: S3Server) -> None:
    disk = Bench(tmp_path / "bench", tiny(SCENARIOS[name]))
    expected = disk.prepare()
    bench = S3Bench(disk, s3_server)
    for _ in range(2):  # fresh for each run
        bench.restore()
        before = bench.data_files()
        assert len(before) == 6
        bench.begin()
        counted = compact(bench, tmp_path / "jobs.db")
        requests = bench.facts()["requests"]
        assert bench.rows_left() == expected
        assert len(bench.data_files()) == 1
        assert not set(before) & set(bench.data_files())
        assert requests["get"] > counted["get"], "the driver reads metadata, too"
        assert requests["PutObject"] > counted["put"]


def compact(bench: S3Bench, store: Path) -> Mapping[str, int]:
    """The requests of its tasks."""
    options = PlanOptions(strategy=Strategy.FULL, min_input_files=2, force=True)
    with (
        Warehouse(bench.catalog, properties=bench.properties) as lake,
        Control(lambda _: lake.catalog, InlineEngine, SqliteStore(store, is_alive)) as control,
    ):
        return control.compact(TableRef.parse(TABLE, lake.name), options).job.requests
