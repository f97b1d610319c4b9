"""Event streams of a job: every event once, also after a reconnect, and without a thread per stream."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.builders.api import Ended, Serve
from tidyberg.api.security import Authenticator
from tidyberg.api.watched_jobs import HELD_EVENTS
from tidyberg.errors import StoreUnreachable
from tidyberg.service.service import Service
from tidyberg.settings.access import ApiKey, hash_key
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


@pytest.fixture
def job(service: Service, client: httpx.Client) -> Ended:
    return Ended(service, client)


def watched(client: httpx.Client, path: str, **more: Any) -> list[Event]:
    with client.stream("GET", path, **more) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        return list(events_of(stream.iter_lines()))


def test_stream_shows_events_as_they_happen_and_the_end(client: httpx.Client, job: Ended) -> None:
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


def test_stream_continues_after_the_last_event(client: httpx.Client, job: Ended) -> None:
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


def test_stream_of_a_quiet_job_sends_comments(serve: Serve, service: Service) -> None:
    client = serve(Server(heartbeat_seconds=0.5))
    quiet = Ended(service, client)
    with client.stream("GET", f"/jobs/{quiet.job_id}/events") as stream:
        assert next(line for line in stream.iter_lines() if line.startswith(":"))


def test_many_streams_need_few_threads(serve: Serve, service: Service) -> None:
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


def test_short_store_outage_ends_no_stream(serve: Serve, service: Service) -> None:
    away = threading.Event()
    found: Any = service.records.queue.news

    def news(*asked: Any, **more: Any) -> Any:
        if away.is_set():
            raise StoreUnreachable("away")
        return found(*asked, **more)

    service.records.queue.news = news  # type: ignore[method-assign]
    client = serve()
    job = Ended(service, client)
    with client.stream("GET", f"/jobs/{job.job_id}/events") as stream:
        events = events_of(stream.iter_lines())
        job.tell(stage="observe")
        assert next(event for event in events if event.data.get("stage") == "observe")
        away.set()
        time.sleep(1.2)
        away.clear()
        job.tell(stage="plan")
        assert next(event for event in events if event.data.get("stage") == "plan")


def test_streams_share_one_read_of_the_store(serve: Serve, service: Service) -> None:
    queue: Any = service.records.queue
    asked: Counter[str] = Counter()

    def counted(name: str, call: Any) -> Any:
        def count(*args: Any, **more: Any) -> Any:
            asked[name] += 1
            return call(*args, **more)

        return count

    for name in ("submission", "events", "news"):
        setattr(queue, name, counted(name, getattr(queue, name)))
    client = serve()
    job = Ended(service, client)
    with ExitStack() as stack:
        streams = [
            stack.enter_context(httpx.stream("GET", f"{client.base_url}/jobs/{job.job_id}/events", timeout=30))
            for _ in range(20)
        ]
        asked.clear()
        time.sleep(2)
        assert asked["submission"] == asked["events"] == 0
        assert 0 < asked["news"] <= 6, "about twice a second, for all of them"
        job.tell(stage="commit")
        for stream in streams:
            assert next(events_of(stream.iter_lines())).data["stage"] == "commit"


def test_streams_per_principal_are_limited(serve: Serve, service: Service) -> None:
    client = serve(Server(max_streams_per_principal=2))
    job = Ended(service, client)
    path = f"/api/v1/jobs/{job.job_id}/events"
    with client.stream("GET", path), client.stream("GET", path):
        refused = client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate-limited")
        assert int(refused.headers["retry-after"]) > 0
        assert client.get(f"/api/v1/jobs/{job.job_id}").status_code == 200
    deadline = time.monotonic() + 10
    while (status := _status(client, path)) == 429 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert status == 200, "those that ended make room"
    assert client.get("/api/v1/jobs/unknown/events").status_code == 404
    assert "http_streams " in service.metrics.render().decode()


def _status(client: httpx.Client, path: str) -> int:
    with client.stream("GET", path) as stream:
        return stream.status_code


def test_unknown_event_numbers_do_not_disturb_other_streams(client: httpx.Client, job: Ended) -> None:
    with client.stream("GET", f"/jobs/{job.job_id}/events", headers={"Last-Event-ID": "9" * 15}) as stream:
        assert stream.status_code == 200
        with client.stream("GET", f"/jobs/{job.job_id}/events") as second:
            events = events_of(second.iter_lines())
            for number in range(HELD_EVENTS + 5):
                job.tell(stage="execute", step=number)
            steps = [next(events).data["step"] for _ in range(HELD_EVENTS + 5)]
    assert steps == list(range(HELD_EVENTS + 5)), "none lost, none twice"


def test_stalled_reader_uses_no_memory_and_is_closed(
    serve: Serve, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidyberg.api.event_streams.SEND_SECONDS", 0.5)
    client = serve()
    job = Ended(service, client)
    address = (client.base_url.host, int(client.base_url.port or 0))
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(address)
        lazy.sendall(f"GET /jobs/{job.job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        deadline = time.monotonic() + 60
        reported = 0
        while "http_streams 1\n" in service.metrics.render().decode() or reported < 10:
            assert time.monotonic() < deadline, "it stays"
            job.tell(stage="execute", words="x" * 100_000)
            reported += 1
            time.sleep(0.02)
    watched = client.get(f"/jobs/{job.job_id}")
    assert watched.status_code == 200


def test_final_status_event_precedes_the_end_event(client: httpx.Client, service: Service, job: Ended) -> None:
    """A worker writes the final event just after the job ended."""
    with client.stream("GET", f"/jobs/{job.job_id}/events") as stream:
        events = events_of(stream.iter_lines())
        job.end()
        time.sleep(0.7)
        service.records.queue.add_event(job.job_id, service.now_ms(), "status", {"status": "succeeded"})
        reported = [(event.kind, event.data["status"]) for event in events]
    assert reported == [("status", "succeeded"), ("end", "succeeded")]


def test_removed_key_loses_its_streams_and_others_continue(serve: Serve, service: Service) -> None:
    kept, revoked = (
        ApiKey.model_validate({"name": name, "hash": hash_key(f"tdb_{name}"), "role": "operator"})
        for name in ("kept", "revoked")
    )
    authenticator = Authenticator(service.settings)
    authenticator.take_keys((kept, revoked))
    client = serve(Server(heartbeat_seconds=600), identify=authenticator)
    client.headers["X-API-Key"] = "tdb_kept"
    job = Ended(service, client)
    url = f"/api/v1/jobs/{job.job_id}/events"
    with (
        client.stream("GET", url, timeout=30) as going_on,
        client.stream("GET", url, headers={"X-API-Key": "tdb_revoked"}, timeout=30) as closed,
    ):
        lines = going_on.iter_lines()
        next(lines)
        authenticator.take_keys((kept,))
        assert not any("event: end" in line for line in closed.iter_lines()), "it ends before the job does"
        job.end()
        assert any("event: end" in line for line in lines)
    assert client.get(url, headers={"X-API-Key": "tdb_revoked"}).status_code == 401
