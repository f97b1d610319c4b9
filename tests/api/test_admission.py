"""Admission control refuses a submission that would wait too long, before it is read."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.builders.api import Serve, code_of
from tidyberg.api.admission import UNKNOWN, Admission, AdmissionMiddleware
from tidyberg.api.connections import Shed
from tidyberg.service.service import Service
from tidyberg.settings.access import hash_key
from tidyberg.settings.serving import Server
from tidyberg.settings.settings import Settings

BODY: Message = {"type": "http.request", "body": b"{}", "more_body": False}
KEYS = {name: [(b"x-api-key", name.encode())] for name in ("many", "few", "unknown")}


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Crowd:
    """Submissions to a service that answers at times that a test sets."""

    def __init__(self, wait_seconds: float = 0.5) -> None:
        self.clock = Clock()
        self.admission = Admission(wait_seconds, self.clock)
        self.shed: list[Shed] = []
        self.begun = 0
        self._middleware = AdmissionMiddleware(self._answer, self.admission, self.shed.append)
        self._waiting: list[tuple[asyncio.Event, asyncio.Task[None]]] = []
        self.statuses: list[int] = []
        self.retry_after: list[int] = []
        for name in ("many", "few"):
            self.admission.learn_tenant(KEYS[name], name)

    async def send(self, tenant: str, receive: Receive | None = None, **more: Any) -> bool:
        """Returns True if the submission was admitted."""
        before = self.begun
        done = asyncio.Event()
        scope: Scope = {"type": "http", "method": "POST", "path": "/compact", "headers": KEYS[tenant], "state": more}
        scope["done"] = done
        task = asyncio.create_task(self._middleware(scope, receive or _body, self._sent))
        await _let_run()
        if self.begun > before:
            self._waiting.append((done, task))
        return self.begun > before

    async def finish(self, seconds: float, number: int = 1) -> None:
        """Advances the clock and answers the first submissions."""
        self.clock.seconds += seconds
        for _ in range(number):
            done, task = self._waiting.pop(0)
            done.set()
            await task

    async def finish_all(self) -> None:
        await self.finish(0.0, len(self._waiting))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        await receive()
        await scope["done"].wait()
        await send({"type": "http.response.start", "status": scope["state"].get("status", 202), "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _sent(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
            found = dict(message["headers"]).get(b"retry-after")
            self.retry_after += [int(found)] if found else []


async def _body() -> Message:
    return BODY


async def _let_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


async def taught(crowd: Crowd, seconds: float) -> None:
    """Trains the estimate with many submissions of that duration."""
    for _ in range(100):
        assert await crowd.send("many")
        await crowd.finish(seconds)


@pytest.mark.parametrize(("seconds", "most"), [(0.01, 50), (0.1, 5), (0.25, 2), (2.0, 1)])
def test_admits_as_many_submissions_as_it_can_answer_in_time(seconds: float, most: int) -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, seconds)
        begun = [await crowd.send("many") for _ in range(200)]
        assert abs(begun.count(True) - most) <= 1
        assert begun[0], "an idle service takes what comes, however slow it was"
        assert crowd.shed == [Shed.WAIT] * begun.count(False)
        await crowd.finish_all()

    run(test)


def test_limit_follows_the_speed_of_the_machine() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)

        async def taken() -> int:
            number = [await crowd.send("many") for _ in range(200)].count(True)
            await crowd.finish_all()
            return number

        for seconds, least, most in ((0.01, 40, 60), (0.1, 3, 7), (0.01, 40, 60)):
            await taught(crowd, seconds)
            assert least <= await taken() <= most

    run(test)


def test_tenant_with_many_submissions_is_refused_before_one_with_few() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.05)
        many = [await crowd.send("many") for _ in range(50)]
        assert many.count(True) <= 11
        few = [await crowd.send("few") for _ in range(50)]
        assert few.count(True) >= 4, "it takes turns with the other, and has its own half"
        assert few.count(True) < many.count(True)
        await crowd.finish_all()

    run(test)


def test_unknown_credentials_share_one_turn() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.05)
        guesses = [[(b"x-api-key", str(number).encode())] for number in range(50)]
        assert {crowd.admission.tenant_of(headers) for headers in guesses} == {UNKNOWN}
        for _ in range(50):
            await crowd.send("unknown")
        assert await crowd.send("few")
        await crowd.finish_all()

    run(test)


def test_slow_body_does_not_occupy_a_place_in_the_queue() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.05)
        sent = asyncio.Event()

        async def slow_body() -> Message:
            await sent.wait()
            return BODY

        for _ in range(100):
            assert await crowd.send("many", slow_body)
        assert crowd.admission.expected_wait("many") < 0.06, "those that still send are in nobody's way"
        crowd.clock.seconds += 25
        sent.set()
        await _let_run()
        await crowd.finish_all()
        begun = [await crowd.send("many") for _ in range(100)]
        assert begun.count(True) >= 9, "what a client took to send is not what the service takes"
        await crowd.finish_all()

    run(test)


def test_request_that_waited_too_long_in_the_loop_or_socket_is_refused() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.01)
        assert await crowd.send("many")
        assert not await crowd.send("many", arrived=crowd.clock() - 0.6)
        crowd.admission.lag = lambda: 0.6
        assert not await crowd.send("many")
        await crowd.finish_all()

    run(test)


def test_refusals_do_not_change_the_speed_estimate() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.1)
        for _ in range(100):
            assert await crowd.send("many", status=429)
            await crowd.finish(0.0001)
        begun = [await crowd.send("many") for _ in range(100)]
        assert begun.count(True) <= 6
        await crowd.finish_all()

    run(test)


def test_one_hanging_submission_does_not_block_others() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.005)
        assert await crowd.send("many")
        await crowd.finish(600)
        assert [await crowd.send("many") for _ in range(5)] == [True] * 5
        await crowd.finish_all()

    run(test)


def test_refusal_has_retry_after() -> None:
    async def test() -> None:
        crowd = Crowd(wait_seconds=0.5)
        await taught(crowd, 0.5)
        assert [await crowd.send("many") for _ in range(2)] == [True, False]
        assert crowd.statuses[-1] == 503
        assert crowd.retry_after == [2], "twice as long as it would wait now"
        await crowd.finish_all()

    run(test)


def test_overloaded_service_refuses_before_it_reads_or_authenticates(
    serve: Serve, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [{"name": "ops", "hash": hash_key("tdb_" + "k" * 40), "role": "operator"}]
    secured = Settings.model_validate({**service.settings.model_dump(), "access": {"api_keys": keys}})
    service.settings = secured
    client = serve(Server(max_wait_seconds=0.4))
    assert code_of(client.post("/compact", content=b"not json")) == (401, "not-authenticated")
    monkeypatch.setattr(Admission, "is_too_late", lambda *_: True)
    refused = client.post("/compact", content=b"not json")
    assert code_of(refused) == (503, "overloaded")
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) >= 1
    assert json.loads(refused.content)["hint"]
    again = client.post("/api/v1/compact", content=b"x" * 100_000)
    assert code_of(again) == (503, "overloaded"), "the connection is still good, whatever was sent"
    assert client.get("/api/v1/jobs").status_code == 401, "only submissions are judged so"
    shed = [line for line in service.metrics.render().decode().splitlines() if "shed_total{" in line]
    assert 'http_connections_shed_total{reason="wait"} 2' in shed
