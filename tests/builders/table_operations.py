"""Table operations on a warehouse in a directory, and short ways to call them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidyberg.app import build_control, table_operations
from tidyberg.operations.operations import TableOperations
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

USERS = {"fields": {"name": {"type": "string", "required": True}, "age": {"type": "integer", "required": False}}}


@dataclass(frozen=True)
class Tables:
    """Calls operations as a tenant on one table, and expects a status."""

    operations: TableOperations
    warehouse: Warehouse
    tenant: str = "test-tenant"
    table: str = "users"

    def call(self, operation: str, status: int = 200, **fields: Any) -> dict[str, Any]:
        body = {"operation": operation, "tenant_id": self.tenant, "namespace": "default", "table": self.table, **fields}
        answer = self.operations.handle(body, None)
        assert answer.status == status, answer.body
        assert answer.body["success"] is (status < 400)
        return answer.body

    def refused(self, operation: str, status: int = 422, **fields: Any) -> str:
        """Returns the text of the error."""
        return str(self.call(operation, status, **fields)["error"])

    def create(self, schema: Mapping[str, Any] = USERS, **fields: Any) -> "Tables":
        self.call("CREATE_TABLE", schema=schema, **fields)
        return self

    def rows(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("QUERY", sql=sql)["records"]
        return found


@contextmanager
def open_tables(directory: Path, **settings: Any) -> Iterator[Tables]:
    with Warehouse(directory / "lake", name="default") as warehouse:
        values = {
            "engine": "inline",
            "catalog": warehouse.properties,
            "store": {"path": str(directory / "jobs.db")},
            **settings,
        }
        made = Settings.model_validate(values)
        with build_control(made) as control:
            yield Tables(table_operations(made, control), warehouse)
