"""Puts a scenario's tables on a real S3 server, and reads the requests of a rewrite from its access log."""

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyiceberg.io import load_file_io
from tests.servers.s3 import S3Server

from benchmarks.warehouse import SMALL_TABLE, TABLE, Bench, inventory_of
from tidyberg.benchmarking.copy_table import copy_table, write_metadata
from tidyberg.benchmarking.sample import choose_sample
from tidyberg.control.control import Control
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.record.process import is_alive
from tidyberg.record.sqlite import SqliteStore
from tidyberg.testing import Warehouse

BUCKET = "bench"
_EVERYTHING = PlanOptions(strategy=Strategy.FULL, min_input_files=1, force=True)
# The price classes of requests. These operations read or delete; all others cost as much as a PUT.
_KINDS = {"GetObject": "get", "HeadObject": "head", "DeleteObject": "delete", "AbortMultipartUpload": "abort"}


class S3Bench(Bench):
    """The tables of a local warehouse, copied into a bucket of the server."""

    def __init__(self, bench: Bench, server: S3Server) -> None:
        super().__init__(bench.directory, bench.scenario)
        self.catalog = self.directory / "on-s3"
        self.properties = {"warehouse": f"s3://{BUCKET}", **server.properties}
        self._server = server
        self._asked_before = 0

    def restore(self) -> None:
        super().restore()
        for old in (self.catalog, self._server.data / BUCKET):
            shutil.rmtree(old, ignore_errors=True)
        self._server.make_bucket(BUCKET)
        with (
            Warehouse(self.live) as disk,
            Warehouse(self.catalog, properties=self.properties) as lake,
            Control(lambda _: disk.catalog, InlineEngine, SqliteStore(self.catalog / "jobs.db", is_alive)) as control,
        ):
            lake.catalog.create_namespace("db")
            for name in (TABLE, SMALL_TABLE):
                self._copy(disk, lake, name, control)

    def data_files(self) -> list[Path]:
        """Returns the objects as files on the disk of the server."""
        paths = self.inventory().data_files["path"].to_pylist()
        return [self._server.data / path.removeprefix("s3://") for path in paths]

    def begin(self) -> None:
        self._asked_before = len(self._server.asked(BUCKET))

    def facts(self) -> dict[str, Any]:
        """Returns all requests since the side began, including those of its driver and of PyIceberg."""
        asked = Counter(operation for operation, _ in self._server.asked(BUCKET)[self._asked_before :])
        return {"requests": {_KINDS.get(operation, operation): number for operation, number in sorted(asked.items())}}

    def _copy(self, disk: Warehouse, lake: Warehouse, name: str, control: Control) -> None:
        table = disk.catalog.load_table(name)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        choice = choose_sample(control.plan(TableRef.parse(name, disk.name), _EVERYTHING), sys.maxsize)
        assert len(choice.files) == inventory_of(self.live, name).data_files.num_rows
        location = f"s3://{BUCKET}/{name.replace('.', '/')}"
        io = load_file_io(self.properties, location)
        path = f"{location}/metadata/00000-copied.metadata.json"
        write_metadata(copy_table(table, snapshot, choice, io, location), io, path)
        lake.catalog.register_table(name, path)
