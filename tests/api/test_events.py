"""Watching a job: every event once, also after a break, and no thread held."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.api.conftest import Serve
from tidyberg.errors import StoreUnreachable
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server


@dataclass(frozen=True)
class Event:
    number: int | None
    kind: str
    data: dict[str, Any]


def events_of(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Event(number, fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


class Ended:
    """A job with events of its own, which ends when it is told."""

    def __init__(self, service: Service, client: httpx.Client) -> None:
        self._queue = service.records.queue
        self.job_id = client.post("/compact", json={"table": "public.events"}).json()["job_id"]
        claimed = self._queue.claim("w", now_ms=service.now_ms(), ttl_ms=600_000, limits=Limits(running=100))
        assert claimed is not None
        assert claimed.job_id == self.job_id
        assert claimed.claim is not None
        self._token = claimed.claim.token
        self._now = service.now_ms

    def tell(self, **data: Any) -> None:
        self._queue.add_event(self.job_id, self._now(), "stage", data)

    def end(self) -> None:
        assert self._queue.finish(self.job_id, self._token, JobStatus.SUCCEEDED, now_ms=self._now(), changes={})


@pytest.fixture
def job(service: Service, client: httpx.Client) -> Ended:
    return Ended(service, client)


def watched(client: httpx.Client, path: str, **more: Any) -> list[Event]:
    with client.stream("GET", path, **more) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        return list(events_of(stream.iter_lines()))


def test_a_watcher_sees_events_as_they_come_and_the_end(client: httpx.Client, job: Ended) -> None:
    job.tell(stage="observe")
    with client.stream("GET", f"/api/v1/jobs/{job.job_id}/events") as stream:
        events = events_of(stream.iter_lines())
        first = next(events)
        assert (first.kind, first.data["stage"]) == ("stage", "observe")
        assert first.data["at"].endswith("Z")
        job.tell(stage="plan")
        second = next(events)
        assert (second.data["stage"], second.number) == ("plan", (first.number or 0) + 1)
        job.end()
        rest = list(events)
    assert rest[-1] == Event(None, "end", {"status": "succeeded"})


def test_a_watcher_goes_on_where_it_was(client: httpx.Client, job: Ended) -> None:
    for number in range(250):
        job.tell(stage="execute", step=number)
    job.end()
    path = f"/jobs/{job.job_id}/events"
    every = [event.data["step"] for event in watched(client, path) if event.kind == "stage"]
    assert every == list(range(250))[-len(every) :]
    middle = next(event.number for event in watched(client, path) if event.data.get("step") == 200)
    for parameters in ({"headers": {"Last-Event-ID": str(middle)}}, {"params": {"after": middle}}):
        later = [event.data["step"] for event in watched(client, path, **parameters) if event.kind == "stage"]
        assert later == list(range(201, 250))
    assert client.get(path, headers={"Last-Event-ID": "x"}).status_code == 422


def test_a_quiet_job_is_heard_of(serve: Serve, service: Service) -> None:
    client = serve(Server(heartbeat_seconds=0.5))
    quiet = Ended(service, client)
    with client.stream("GET", f"/jobs/{quiet.job_id}/events") as stream:
        assert next(line for line in stream.iter_lines() if line.startswith(":"))


def test_many_watch_with_few_threads(serve: Serve, service: Service) -> None:
    client = serve(Server(threads=2))
    job = Ended(service, client)
    seen: list[list[Event]] = []

    def look() -> None:
        with httpx.Client(base_url=client.base_url, timeout=60) as own:
            seen.append(watched(own, f"/jobs/{job.job_id}/events"))

    watchers = [threading.Thread(target=look) for _ in range(40)]
    for watcher in watchers:
        watcher.start()
    assert client.get(f"/jobs/{job.job_id}").json()["status"] == "running", "others are answered meanwhile"
    names = [thread.name for thread in threading.enumerate() if "AnyIO" in thread.name]
    assert len(names) <= 3 * 2, names
    job.tell(stage="commit")
    job.end()
    for watcher in watchers:
        watcher.join()
    assert len(seen) == 40
    assert all(events[-1].kind == "end" and any(e.data.get("stage") == "commit" for e in events) for events in seen)


def test_a_store_that_is_away_for_a_moment_ends_no_watch(
    client: httpx.Client, service: Service, job: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.stream("GET", f"/jobs/{job.job_id}/events") as stream:
        events = events_of(stream.iter_lines())
        job.tell(stage="observe")
        assert next(event for event in events if event.data.get("stage") == "observe")
        with monkeypatch.context() as patch:

            def away(*_: object, **__: object) -> Any:
                raise StoreUnreachable("away")

            patch.setattr(service.records.queue, "events", away)
            time.sleep(1.2)
        job.tell(stage="plan")
        assert next(event for event in events if event.data.get("stage") == "plan")
