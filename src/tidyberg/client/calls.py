"""The calls of the API as values, shared by the synchronous and the asyncio client."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

from tidyberg.client import models
from tidyberg.client.models import ResponseModel
from tidyberg.model.job import JobStatus

T = TypeVar("T")
A = TypeVar("A", bound=ResponseModel)

PREFIX = "/api/v1"


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and how to read its response. Every call can be repeated: submissions have an idempotency key."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    accepted: frozenset[int] = frozenset()  # statuses besides 2xx that carry a result


class PlanArguments(TypedDict, total=False):
    """Optional arguments of a plan."""

    catalog: str
    namespace: str
    strategy: str
    options: Mapping[str, Any]
    tenant: str


class SubmitArguments(PlanArguments, total=False):
    priority: int
    verify: str
    key: str  # a second submission with the same key returns the first job


class JobListArguments(TypedDict, total=False):
    """Optional arguments of a job list."""

    status: Sequence[JobStatus | str]
    table: str
    catalog: str
    tenant: str
    created_by: str  # who submitted the job, such as "schedule:nightly"
    oldest_first: bool
    limit: int
    cursor: str  # the `next_cursor` of the previous page


def submit(table: str, arguments: SubmitArguments) -> Call[models.JobCreated]:
    key = arguments.get("key")
    body = {"table": table, **{name: value for name, value in arguments.items() if name != "key"}}
    return Call("POST", f"{PREFIX}/compact", _one(models.JobCreated), body=body, headers=_key(key))


class ExpireArguments(TypedDict, total=False):
    catalog: str
    namespace: str
    tenant: str
    older_than: str  # an age, such as 5d
    retain_last: int
    snapshot_ids: Sequence[int]
    clean_metadata: bool
    verify: bool
    priority: int
    key: str  # a second submission with the same key returns the first job


class MaintainArguments(TypedDict, total=False):
    catalog: str
    namespace: str
    tenant: str
    options: Mapping[str, Any]  # values of the policy, such as {"expire": {"older_than": "5d"}}
    priority: int
    key: str  # a second submission with the same key returns the first job


_EXPIRE_OPTIONS = ("older_than", "retain_last", "snapshot_ids", "clean_metadata", "verify")


def expire(table: str, arguments: ExpireArguments) -> Call[models.JobCreated]:
    options = {name: value for name, value in arguments.items() if name in _EXPIRE_OPTIONS}
    rest = {name: value for name, value in arguments.items() if name not in (*_EXPIRE_OPTIONS, "key")}
    body = {"table": table, **rest, "options": options}
    return Call("POST", f"{PREFIX}/expire", _one(models.JobCreated), body=body, headers=_key(arguments.get("key")))


def plan_expire(table: str, arguments: ExpireArguments) -> Call[models.RemoteExpiryPlan]:
    options = {name: value for name, value in arguments.items() if name in _EXPIRE_OPTIONS}
    rest = {name: value for name, value in arguments.items() if name not in (*_EXPIRE_OPTIONS, "key", "priority")}
    body = {"table": table, **rest, "options": options}
    return Call("POST", f"{PREFIX}/expire/plan", _one(models.RemoteExpiryPlan), body=body)


def plan_maintain(table: str, arguments: MaintainArguments) -> Call[models.RemoteMaintenancePlan]:
    body = {"table": table, **{name: value for name, value in arguments.items() if name not in ("key", "priority")}}
    return Call("POST", f"{PREFIX}/maintain/plan", _one(models.RemoteMaintenancePlan), body=body)


def maintain(table: str, arguments: MaintainArguments) -> Call[models.JobCreated]:
    body = {"table": table, **{name: value for name, value in arguments.items() if name != "key"}}
    return Call("POST", f"{PREFIX}/maintain", _one(models.JobCreated), body=body, headers=_key(arguments.get("key")))


def plan(table: str, arguments: PlanArguments) -> Call[models.RemotePlan]:
    return Call("POST", f"{PREFIX}/plan", _one(models.RemotePlan), body={"table": table, **arguments})


def apply(plan_hash: str, priority: int, key: str | None) -> Call[models.JobCreated]:
    path = f"{PREFIX}/plans/{_part(plan_hash)}/apply"
    return Call("POST", path, _one(models.JobCreated), body={"priority": priority}, headers=_key(key))


def job(job_id: str) -> Call[models.RemoteJob]:
    return Call("GET", _job(job_id), _one(models.RemoteJob))


def jobs(arguments: JobListArguments) -> Call[models.JobPage]:
    query: dict[str, Any] = {name: value for name, value in arguments.items() if name not in ("status", "oldest_first")}
    query["sort"] = "created_at" if arguments.get("oldest_first") else "-created_at"
    if status := arguments.get("status"):
        query["status"] = [JobStatus(one).value for one in status]
    return Call("GET", f"{PREFIX}/jobs", _one(models.JobPage), query=query)


def cancel(job_id: str) -> Call[models.RemoteJob]:
    return Call("DELETE", _job(job_id), _one(models.RemoteJob))


def events(job_id: str, after: int) -> Call[None]:
    """The response is a stream; `EventReader` reads it."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    return Call("GET", f"{_job(job_id)}/events", lambda _: None, headers=headers)


def tables(catalog: str | None, namespace: str | None) -> Call[list[models.RemoteTable]]:
    given = {"catalog": catalog, "namespace": namespace}
    query = {name: value for name, value in given.items() if value is not None}
    return Call("GET", f"{PREFIX}/tables", _many("tables", models.RemoteTable), query=query)


def health(catalog: str, namespace: str, table: str) -> Call[models.TableHealth]:
    path = f"{PREFIX}/tables/{_part(catalog)}/{_part(namespace)}/{_part(table)}/health"
    return Call("GET", path, _one(models.TableHealth))


def schedules() -> Call[list[models.RemoteSchedule]]:
    return Call("GET", f"{PREFIX}/schedules", _many("schedules", models.RemoteSchedule))


def schedule(schedule_id: str) -> Call[models.RemoteSchedule]:
    return Call("GET", _schedule(schedule_id), _one(models.RemoteSchedule))


_READ_ONLY_FIELDS = {"schedule_id", "source", "last_due", "next_due"}


def save_schedule(schedule: models.RemoteSchedule) -> Call[models.RemoteSchedule]:
    body = schedule.model_dump(mode="json", exclude=_READ_ONLY_FIELDS, exclude_none=True)
    return Call("PUT", _schedule(schedule.schedule_id), _one(models.RemoteSchedule), body=body)


def delete_schedule(schedule_id: str) -> Call[None]:
    return Call("DELETE", _schedule(schedule_id), lambda _: None)


def pauses() -> Call[list[models.RemotePause]]:
    return Call("GET", f"{PREFIX}/pauses", _many("pauses", models.RemotePause))


def pause(table: str, reason: str, until: datetime | None, catalog: str | None) -> Call[models.RemotePause]:
    given = {"catalog": catalog, "until": None if until is None else until.astimezone().isoformat()}
    body = {"table": table, "reason": reason, **{name: value for name, value in given.items() if value is not None}}
    return Call("POST", f"{PREFIX}/pauses", _one(models.RemotePause), body=body)


def resume(table: str, catalog: str | None) -> Call[None]:
    query = {"table": table} | ({} if catalog is None else {"catalog": catalog})
    return Call("DELETE", f"{PREFIX}/pauses", lambda _: None, query=query)


def ready() -> Call[models.Readiness]:
    return Call("GET", "/health/ready", _one(models.Readiness), accepted=frozenset((503,)))


def _one(shape: type[A]) -> Callable[[Any], A]:
    return shape.model_validate


def _many(name: str, shape: type[A]) -> Callable[[Any], list[A]]:
    return lambda document: [shape.model_validate(one) for one in document[name]]


def _key(key: str | None) -> dict[str, str]:
    """Returns an idempotency header, so that a repeated request makes only one job."""
    return {"Idempotency-Key": key or str(uuid.uuid4())}


def _job(job_id: str) -> str:
    return f"{PREFIX}/jobs/{_part(job_id)}"


def _schedule(schedule_id: str) -> str:
    return f"{PREFIX}/schedules/{_part(schedule_id)}"


def _part(text: str) -> str:
    return quote(text, safe="")
