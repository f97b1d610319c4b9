"""A namespace on the REST catalog for one test, and `Control`s that reach it directly or through a proxy."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from pyiceberg.types import LongType, NestedField, StringType

from tests.servers.rest import RestServer
from tidyberg.app import build_control
from tidyberg.control.control import Control
from tidyberg.model.options import PlanOptions, Strategy
from tidyberg.model.table import TableRef
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)
FULL = PlanOptions(strategy=Strategy.FULL, min_input_files=2)


class RestLab(Warehouse):
    """The table-builder of the tests, on a namespace of its own of the REST catalog."""

    catalog: Any  # a RestCatalog here, where the base has a SqlCatalog

    def __init__(self, server: RestServer, directory: Path) -> None:
        self.directory = directory
        self.server = server
        self.name = "rest"
        self.properties = {"type": "rest", "uri": server.uri}
        self.catalog = RestCatalog(self.name, uri=server.uri)
        self.namespace = f"db_{uuid.uuid4().hex[:8]}"
        self.ref = TableRef(self.name, (self.namespace,), "events")

    def close(self) -> None:
        if self.catalog.namespace_exists(self.namespace):
            for identifier in self.catalog.list_tables(self.namespace):
                self.catalog.drop_table(identifier)
            self.catalog.drop_namespace(self.namespace)
        self.catalog.close()

    def untidy_table(self, files: int = 6, files_per_commit: int = 3, **options: Any) -> Table:
        table = self.create_table(str(self.ref), SCHEMA, **options)
        return self.append_files(table, files, 20, files_per_commit=files_per_commit)

    def upgrade(self, table: Table, format_version: int) -> Table:
        self.catalog.commit_table(table, (), (UpgradeFormatVersionUpdate(format_version=format_version),))
        return table.refresh()

    def control(self, uri: str | None = None, *, retries: int = 4, http_timeout_seconds: float = 20.0) -> Control:
        """As the command line builds it; `uri` may be a proxy's."""
        settings = self.settings(uri, retries=retries, http_timeout_seconds=http_timeout_seconds)
        return build_control(Settings.model_validate(settings))

    def settings(
        self, uri: str | None = None, *, retries: int = 4, http_timeout_seconds: float = 20.0
    ) -> dict[str, Any]:
        return {
            "engine": "inline",
            "catalog": {"name": self.name, "type": "rest", "uri": uri or self.server.uri},
            "commit": {"retries": retries, "min_wait_ms": 1, "max_wait_ms": 20},
            "store": {"path": str(self.directory / "jobs.db")},
            "http_timeout_seconds": http_timeout_seconds,
        }

    def files_on_disk(self, table: Table) -> set[str]:
        """Without the checksums that the server's Hadoop file system puts beside the metadata it writes."""
        return {path for path in super().files_on_disk(table) if not path.endswith(".crc")}

    def leftovers(self, table: Table) -> set[str]:
        return self.files_on_disk(table) - self.referenced_files(table)

    def missing(self, table: Table) -> set[str]:
        """Referenced and not there: what must never be."""
        return self.referenced_files(table) - self.files_on_disk(table)

    def operations(self, table: Table) -> Counter[str]:
        snapshots = table.refresh().metadata.snapshots
        return Counter(snapshot.summary.operation.value for snapshot in snapshots if snapshot.summary)
