"""Waits until the health of a table is at most, or at least, a given score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseSensorOperator

from tidyberg_airflow.hook import TidybergHook


class TidybergHealthSensor(BaseSensorOperator):
    """Succeeds when the score of a table is in the given range. `at_most=70` waits until the table needs work."""

    template_fields: Sequence[str] = ("table",)

    def __init__(
        self,
        *,
        table: str,
        at_most: int = 100,
        at_least: int = 0,
        catalog: str = "default",
        tidyberg_conn_id: str = TidybergHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.at_most = at_most
        self.at_least = at_least
        self.catalog = catalog
        self.tidyberg_conn_id = tidyberg_conn_id

    def poke(self, context: Any) -> bool:
        del context
        score = TidybergHook(self.tidyberg_conn_id).health(self.table, self.catalog)["score"]
        self.log.info("%s has health %d", self.table, score)
        return bool(self.at_least <= score <= self.at_most)
