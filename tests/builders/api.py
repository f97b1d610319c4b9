"""The HTTP API: a served app on a real socket, and short ways to read its answers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from tidyberg.api.app import create_app
from tidyberg.api.server import ApiServer, listen
from tidyberg.app import build_service
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Limits
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server
from tidyberg.settings.settings import Settings


class Ended:
    """A running job whose events and end the test controls."""

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


def code_of(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    return answer.status_code, problem["code"]


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


Serve = Callable[..., httpx.Client]


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Serves the app from a thread of this process, and yields its address."""
    socket = listen(Server(port=port))
    server = ApiServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def running_service(settings: Settings, port: int = 0) -> Iterator[str]:
    """Starts a service with its workers, and yields the address of its API."""
    service = build_service(settings)
    service.start()
    try:
        with serving(create_app(service), port) as address:
            yield address
    finally:
        service.stop()
