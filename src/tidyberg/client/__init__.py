"""A typed client of the REST API: `Client`, and `AsyncClient` for asyncio."""

from tidyberg.client.asynchronous import AsyncClient
from tidyberg.client.client import Client
from tidyberg.client.shapes import (
    Event,
    Job,
    JobCreated,
    JobError,
    JobPage,
    Pause,
    Plan,
    Readiness,
    Schedule,
    Table,
    TableHealth,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Event",
    "Job",
    "JobCreated",
    "JobError",
    "JobPage",
    "Pause",
    "Plan",
    "Readiness",
    "Schedule",
    "Table",
    "TableHealth",
]
