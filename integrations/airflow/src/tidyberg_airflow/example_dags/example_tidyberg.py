"""Compacts a table every six hours if its health is below 90, and lists what was done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

from tidyberg_airflow.operator import TidybergOperator
from tidyberg_airflow.sensor import TidybergHealthSensor


@dag(
    dag_id="iceberg_compaction",
    schedule="0 */6 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
)
def iceberg_compaction() -> None:
    untidy = TidybergHealthSensor(task_id="untidy", table="public.sales", at_most=90, timeout=60, soft_fail=True)
    compact = TidybergOperator(
        task_id="compact_sales_table",
        table="public.sales",
        options={"target_file_size": "1GB", "max_cost": 10.0},
        poll_seconds=1,
    )

    @task
    def report(job: dict[str, Any]) -> str:
        return str(job["outcome"])

    untidy >> compact
    report(compact.output)


iceberg_compaction()
