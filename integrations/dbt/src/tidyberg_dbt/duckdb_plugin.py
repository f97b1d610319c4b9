"""A plugin of dbt-duckdb: the SQL function `tidyberg_compact(table, key)`, which the macros of the dbt package call."""

import json
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin
from duckdb import DuckDBPyConnection

from tidyberg_dbt.service import Service


class Plugin(BasePlugin):
    """Its configuration in profiles.yml: `url`, `token`, `wait` and `poll_seconds`."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        self._service = Service(**plugin_config)

    def configure_connection(self, conn: DuckDBPyConnection) -> None:
        # Without side_effects, DuckDB might call it while it plans the query, too.
        conn.create_function("tidyberg_compact", self._compact, ["VARCHAR", "VARCHAR"], "VARCHAR", side_effects=True)

    def _compact(self, table: str, key: str) -> str:
        return json.dumps(self._service.compact(table, key))
