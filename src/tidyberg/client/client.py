"""The synchronous client."""

import time
from collections.abc import Iterator
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


class Client:
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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(transport=transport, **httpx_arguments(url, token, timeout_seconds))
        self._retries = retries

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, table: str, **arguments: Unpack[SubmitArguments]) -> JobCreated:
        """Queues a compaction."""
        return self._send(calls.submit(table, arguments))

    def expire(self, table: str, **arguments: Unpack[ExpireArguments]) -> JobCreated:
        """Queues a job that expires old snapshots and deletes the files that only they need."""
        return self._send(calls.expire(table, arguments))

    def maintain(self, table: str, **arguments: Unpack[MaintainArguments]) -> JobCreated:
        """Queues a job that does all that the table needs, in order."""
        return self._send(calls.maintain(table, arguments))

    def job(self, job_id: str) -> RemoteJob:
        return self._send(calls.job(job_id))

    def jobs(self, **arguments: Unpack[JobListArguments]) -> JobPage:
        """Returns one page of jobs."""
        return self._send(calls.jobs(arguments))

    def cancel(self, job_id: str) -> RemoteJob:
        """Cancels a job. A queued job ends at once, a running job soon. A finished job stays."""
        return self._send(calls.cancel(job_id))

    def wait(self, job_id: str, *, timeout_seconds: float | None = None) -> RemoteJob:
        """Waits until the job has ended and returns it. Raises TimeoutError after `timeout_seconds`."""
        polling = JobPolling(job_id, timeout_seconds)
        while not (job := self.job(job_id)).has_ended:
            time.sleep(polling.pause(job))
        return job

    def watch(self, job_id: str, *, after: int = 0) -> Iterator[RemoteEvent]:
        """Yields the events of the job until it has ended. Reconnects if the connection breaks."""
        reader, retrying = EventReader(last=after), Retrying(self._retries, self._http.base_url)
        while True:
            call = calls.events(job_id, reader.last)
            try:
                with self._http.stream(call.method, call.path, headers=dict(call.headers)) as response:
                    if not response.is_success:
                        response.read()
                        retrying.refused(response)
                    else:
                        for line in response.iter_lines():
                            if (event := reader.line(line)) is not None:
                                retrying.worked()
                                yield event
                                if event.kind == "end":
                                    return
            except httpx.TransportError as error:
                retrying.failed(error)
            time.sleep(retrying.pause())

    def plan(self, table: str, **arguments: Unpack[PlanArguments]) -> RemotePlan:
        """Returns what a job would do, and changes nothing. `apply` runs the plan by its hash."""
        return self._send(calls.plan(table, arguments))

    def plan_expire(self, table: str, **arguments: Unpack[ExpireArguments]) -> RemoteExpiryPlan:
        """Returns what `expire` would remove, and changes nothing."""
        return self._send(calls.plan_expire(table, arguments))

    def plan_maintain(self, table: str, **arguments: Unpack[MaintainArguments]) -> RemoteMaintenancePlan:
        """Returns what each step of `maintain` would do, and changes nothing."""
        return self._send(calls.plan_maintain(table, arguments))

    def apply(self, plan_hash: str, *, priority: int = 0, key: str | None = None) -> JobCreated:
        return self._send(calls.apply(plan_hash, priority, key))

    def tables(self, *, catalog: str | None = None, namespace: str | None = None) -> list[RemoteTable]:
        return self._send(calls.tables(catalog, namespace))

    def health(self, catalog: str, namespace: str, table: str) -> TableHealth:
        return self._send(calls.health(catalog, namespace, table))

    def schedules(self) -> list[RemoteSchedule]:
        return self._send(calls.schedules())

    def schedule(self, schedule_id: str) -> RemoteSchedule:
        return self._send(calls.schedule(schedule_id))

    def save_schedule(self, schedule: RemoteSchedule) -> RemoteSchedule:
        """Creates the schedule, or replaces the one with the same id."""
        return self._send(calls.save_schedule(schedule))

    def delete_schedule(self, schedule_id: str) -> None:
        self._send(calls.delete_schedule(schedule_id))

    def pauses(self) -> list[RemotePause]:
        return self._send(calls.pauses())

    def pause(
        self, table: str, *, reason: str, until: datetime | None = None, catalog: str | None = None
    ) -> RemotePause:
        """Pauses a table: the service accepts and starts no job for it until then, or until it is resumed."""
        return self._send(calls.pause(table, reason, until, catalog))

    def resume(self, table: str, *, catalog: str | None = None) -> None:
        self._send(calls.resume(table, catalog))

    def ready(self) -> Readiness:
        return self._send(calls.ready())

    def _send(self, call: Call[T]) -> T:
        retrying = Retrying(self._retries, self._http.base_url)
        while True:
            try:
                response = self._http.request(
                    call.method, call.path, params=dict(call.query), json=call.body, headers=dict(call.headers)
                )
                if is_final(call, response):
                    return read(call, response)
                retrying.refused(response)
            except httpx.TransportError as error:
                retrying.failed(error)
            time.sleep(retrying.pause())
