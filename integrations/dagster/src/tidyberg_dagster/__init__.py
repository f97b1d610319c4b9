"""Dagster assets and checks for tidyberg: compacts Iceberg tables after their upstream assets."""

from tidyberg_dagster.assets import tidyberg_compacted_table, tidyberg_health_check
from tidyberg_dagster.in_process import TidybergInProcess
from tidyberg_dagster.jobs import JobRunner, TableJob, TableRequest, TidybergError
from tidyberg_dagster.service import TidybergService

__version__ = "0.1.0"
__all__ = [
    "JobRunner",
    "TableJob",
    "TableRequest",
    "TidybergError",
    "TidybergInProcess",
    "TidybergService",
    "tidyberg_compacted_table",
    "tidyberg_health_check",
]
