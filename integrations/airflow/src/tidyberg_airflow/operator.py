"""Runs a job of the service. While it runs, the task is deferred."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator

from tidyberg_airflow.hook import FINAL, TidybergHook, succeeded
from tidyberg_airflow.trigger import TidybergJobTrigger


class TidybergOperator(BaseOperator):
    """Compacts, expires or maintains one table. It returns the job, with its outcome and its stats.

    A task that is tried again submits no second job while the first one of the same try exists: its idempotency key is
    made of the DAG, the run, the task and the try.
    """

    template_fields: Sequence[str] = ("table", "strategy", "options", "catalog", "namespace")

    def __init__(
        self,
        *,
        table: str,
        kind: str = "compact",
        strategy: str | None = None,
        options: Mapping[str, Any] | None = None,
        catalog: str | None = None,
        namespace: str | None = None,
        tidyberg_conn_id: str = TidybergHook.default_conn_name,
        deferrable: bool = True,
        poll_seconds: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.kind = kind
        self.strategy = strategy
        self.options = options
        self.catalog = catalog
        self.namespace = namespace
        self.tidyberg_conn_id = tidyberg_conn_id
        self.deferrable = deferrable
        self.poll_seconds = poll_seconds
        self._job_id: str | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        hook = TidybergHook(self.tidyberg_conn_id)
        named = {
            "table": self.table,
            "strategy": self.strategy,
            "options": self.options,
            "catalog": self.catalog,
            "namespace": self.namespace,
        }
        body = {name: value for name, value in named.items() if value is not None}
        self._job_id = job_id = hook.submit(self.kind, body, _key(context))["job_id"]
        self.log.info("job %s of table %s is submitted", job_id, self.table)
        if self.deferrable:
            trigger = TidybergJobTrigger(job_id, self.tidyberg_conn_id, self.poll_seconds)
            self.defer(trigger=trigger, method_name="execute_complete")
        while (job := hook.job(job_id))["status"] not in FINAL:
            time.sleep(self.poll_seconds)
        return self._end(job)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Continues the task when the trigger has seen the end of the job."""
        del context
        return self._end(event)

    def on_kill(self) -> None:
        if self._job_id is not None:
            TidybergHook(self.tidyberg_conn_id).cancel(self._job_id)

    def _end(self, job: Mapping[str, Any]) -> dict[str, Any]:
        ended = succeeded(job)
        self.log.info("job %s ended: %s", ended["job_id"], ended.get("outcome"))
        return ended


def _key(context: Any) -> str | None:
    instance = context.get("ti")
    if instance is None:
        return None
    parts = (instance.dag_id, instance.run_id, instance.task_id, instance.map_index, instance.try_number)
    return "airflow/" + "/".join(map(str, parts))
