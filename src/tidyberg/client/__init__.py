"""A typed client of the REST API: `Client`, and `AsyncClient` for asyncio."""

from tidyberg.client.asynchronous import AsyncClient
from tidyberg.client.client import Client
from tidyberg.client.models import JobCreated, JobError, JobPage, Readiness, TableHealth
from tidyberg.client.models import RemoteEvent as Event
from tidyberg.client.models import RemoteExpiryPlan as ExpiryPlan
from tidyberg.client.models import RemoteJob as Job
from tidyberg.client.models import RemoteMaintenancePlan as MaintenancePlan
from tidyberg.client.models import RemotePause as Pause
from tidyberg.client.models import RemotePlan as Plan
from tidyberg.client.models import RemoteSchedule as Schedule
from tidyberg.client.models import RemoteTable as Table

__all__ = [
    "AsyncClient",
    "Client",
    "Event",
    "ExpiryPlan",
    "Job",
    "JobCreated",
    "JobError",
    "JobPage",
    "MaintenancePlan",
    "Pause",
    "Plan",
    "Readiness",
    "Schedule",
    "Table",
    "TableHealth",
]
