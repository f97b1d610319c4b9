"""The asyncio client."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from types import TracebackType
from typing import Unpack

import httpx

from tidyberg.client import calls
from tidyberg.client.calls import (
    Call,
    ExpireArguments,
    JobListArguments,
    MaintainArguments,
    PlanArguments,
    SubmitArguments,
    T,
)
from tidyberg.client.connection import RETRIES, TIMEOUT_SECONDS, httpx_arguments
from tidyberg.client.models import (
    JobCreated,
    JobPage,
    Readiness,
    RemoteEvent,
    RemoteExpiryPlan,
    RemoteJob,
    RemoteMaintenancePlan,
    RemotePause,
    RemotePlan,
    RemoteSchedule,
    RemoteTable,
    TableHealth,
)
from tidyberg.client.responses import is_final, read
from tidyberg.client.retrying import JobPolling, Retrying
from tidyberg.client.stream import EventReader


class AsyncClient:
    """A client of the REST API, to be used as a context manager.

    It retries calls that get no answer. A retried submission still makes only one job.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(transport=transport, **httpx_arguments(url, token, timeout_seconds))
        self._retries = retries

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def submit(self, table: str, **arguments: Unpack[SubmitArguments]) -> JobCreated:
        """Queues a compaction."""
        return await self._send(calls.submit(table, arguments))

    async def expire(self, table: str, **arguments: Unpack[ExpireArguments]) -> JobCreated:
        """Queues a job that expires old snapshots and deletes the files that only they need."""
        return await self._send(calls.expire(table, arguments))

    async def maintain(self, table: str, **arguments: Unpack[MaintainArguments]) -> JobCreated:
        """Queues a job that does all that the table needs, in order."""
        return await self._send(calls.maintain(table, arguments))

    async def job(self, job_id: str) -> RemoteJob:
        return await self._send(calls.job(job_id))

    async def jobs(self, **arguments: Unpack[JobListArguments]) -> JobPage:
        """Returns one page of jobs."""
        return await self._send(calls.jobs(arguments))

    async def cancel(self, job_id: str) -> RemoteJob:
        """Cancels a job. A queued job ends at once, a running job soon. A finished job stays."""
        return await self._send(calls.cancel(job_id))

    async def wait(self, job_id: str, *, timeout_seconds: float | None = None) -> RemoteJob:
        """Waits until the job has ended and returns it. Raises TimeoutError after `timeout_seconds`."""
        polling = JobPolling(job_id, timeout_seconds)
        while not (job := await self.job(job_id)).has_ended:
            await asyncio.sleep(polling.pause(job))
        return job

    async def watch(self, job_id: str, *, after: int = 0) -> AsyncIterator[RemoteEvent]:
        """Yields the events of the job until it has ended. Reconnects if the connection breaks."""
        reader, retrying = EventReader(last=after), Retrying(self._retries, self._http.base_url)
        while True:
            call = calls.events(job_id, reader.last)
            try:
                async with self._http.stream(call.method, call.path, headers=dict(call.headers)) as response:
                    if not response.is_success:
                        await response.aread()
                        retrying.refused(response)
                    else:
                        async for line in response.aiter_lines():
                            if (event := reader.line(line)) is not None:
                                retrying.worked()
                                yield event
                                if event.kind == "end":
                                    return
            except httpx.TransportError as error:
                retrying.failed(error)
            await asyncio.sleep(retrying.pause())

    async def plan(self, table: str, **arguments: Unpack[PlanArguments]) -> RemotePlan:
        """Returns what a job would do, and changes nothing. `apply` runs the plan by its hash."""
        return await self._send(calls.plan(table, arguments))

    async def plan_expire(self, table: str, **arguments: Unpack[ExpireArguments]) -> RemoteExpiryPlan:
        """Returns what `expire` would remove, and changes nothing."""
        return await self._send(calls.plan_expire(table, arguments))

    async def plan_maintain(self, table: str, **arguments: Unpack[MaintainArguments]) -> RemoteMaintenancePlan:
        """Returns what each step of `maintain` would do, and changes nothing."""
        return await self._send(calls.plan_maintain(table, arguments))

    async def apply(self, plan_hash: str, *, priority: int = 0, key: str | None = None) -> JobCreated:
        return await self._send(calls.apply(plan_hash, priority, key))

    async def tables(self, *, catalog: str | None = None, namespace: str | None = None) -> list[RemoteTable]:
        return await self._send(calls.tables(catalog, namespace))

    async def health(self, catalog: str, namespace: str, table: str) -> TableHealth:
        return await self._send(calls.health(catalog, namespace, table))

    async def schedules(self) -> list[RemoteSchedule]:
        return await self._send(calls.schedules())

    async def schedule(self, schedule_id: str) -> RemoteSchedule:
        return await self._send(calls.schedule(schedule_id))

    async def save_schedule(self, schedule: RemoteSchedule) -> RemoteSchedule:
        """Creates the schedule, or replaces the one with the same id."""
        return await self._send(calls.save_schedule(schedule))

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._send(calls.delete_schedule(schedule_id))

    async def pauses(self) -> list[RemotePause]:
        return await self._send(calls.pauses())

    async def pause(
        self, table: str, *, reason: str, until: datetime | None = None, catalog: str | None = None
    ) -> RemotePause:
        """Pauses a table: the service accepts and starts no job for it until then, or until it is resumed."""
        return await self._send(calls.pause(table, reason, until, catalog))

    async def resume(self, table: str, *, catalog: str | None = None) -> None:
        await self._send(calls.resume(table, catalog))

    async def ready(self) -> Readiness:
        return await self._send(calls.ready())

    async def _send(self, call: Call[T]) -> T:
        retrying = Retrying(self._retries, self._http.base_url)
        while True:
            try:
                response = await self._http.request(
                    call.method, call.path, params=dict(call.query), json=call.body, headers=dict(call.headers)
                )
                if is_final(call, response):
                    return read(call, response)
                retrying.refused(response)
            except httpx.TransportError as error:
                retrying.failed(error)
            await asyncio.sleep(retrying.pause())
