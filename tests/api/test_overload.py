"""Under overload, accepted calls wait briefly, others are refused at once, and tenants take turns."""

import asyncio
import threading
import time

import httpx
import pytest

from tests.builders.api import Serve, code_of
from tidyberg.api.refusals import Overloaded
from tidyberg.api.thread_pool import FairThreadPool, calling_tenant
from tidyberg.service.service import Service
from tidyberg.settings.serving import Server


async def call_as(tenant: str, threads: FairThreadPool, seconds: float, done: list[str]) -> str:
    calling_tenant.set(tenant)
    try:
        await threads(time.sleep, seconds)
    except Overloaded:
        return "refused"
    done.append(tenant)
    return "done"


def test_tenants_take_turns() -> None:
    async def crowd() -> list[str]:
        threads, done = FairThreadPool(1, 100, 60.0), list[str]()
        calls = [asyncio.create_task(call_as("many", threads, 0.01, done)) for _ in range(20)]
        await asyncio.sleep(0)
        calls += [asyncio.create_task(call_as("few", threads, 0.01, done)) for _ in range(3)]
        await asyncio.gather(*calls)
        return done

    order = asyncio.run(crowd())
    assert len(order) == 23
    assert max(place for place, tenant in enumerate(order) if tenant == "few") <= 8, order


def test_tenant_with_many_calls_is_refused_before_one_with_few() -> None:
    async def crowd() -> tuple[list[str], list[str]]:
        threads, done = FairThreadPool(1, 1000, 0.5), list[str]()
        for _ in range(3):
            await call_as("few", threads, 0.1, done)  # trains the estimate of a call
        many = [asyncio.create_task(call_as("many", threads, 0.1, done)) for _ in range(60)]
        await asyncio.sleep(0.01)
        few = await call_as("few", threads, 0.01, done)
        return list(await asyncio.gather(*many)), [few]

    many, few = asyncio.run(crowd())
    assert few == ["done"]
    assert many.count("refused") > 40
    assert many.count("done") >= 2


def test_no_call_waits_longer_than_the_limit_even_if_others_hang() -> None:
    let_go = threading.Event()

    async def crowd() -> tuple[str, float]:
        threads = FairThreadPool(1, 100, 0.3)
        hanging = asyncio.create_task(threads(let_go.wait, 30))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        answer = await call_as("a", threads, 0.0, [])
        waited = time.monotonic() - began
        let_go.set()
        await hanging
        assert await call_as("a", threads, 0.0, []) == "done", "the thread is free again"
        return answer, waited

    answer, waited = asyncio.run(crowd())
    assert answer == "refused"
    assert 0.2 < waited < 5


def test_slow_store_refuses_early_with_retry_after(
    serve: Serve, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = service.submit

    def slow(*args: object, **more: object) -> object:
        time.sleep(0.2)
        return submit(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(service, "submit", slow)
    client = serve(Server(threads=1, max_wait_seconds=1.0))

    async def load() -> list[tuple[httpx.Response, float]]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as many:

            async def one() -> tuple[httpx.Response, float]:
                began = time.monotonic()
                answer = await many.post("/compact", json={"table": "public.events"})
                return answer, time.monotonic() - began

            return await asyncio.gather(*(one() for _ in range(60)))

    answers = asyncio.run(load())
    taken = [seconds for answer, seconds in answers if answer.status_code == 202]
    refused = [answer for answer, _ in answers if answer.status_code != 202]
    assert len(taken) >= 2
    assert max(taken) < 8, "one after the other they would take twelve seconds"
    assert len(refused) > 20
    for answer in refused:
        assert code_of(answer) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1
    assert len(client.get("/api/v1/jobs").json()["jobs"]) == len(taken), "what was refused left nothing behind"


def test_lagging_event_loop_answers_only_liveness(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidyberg.api.event_loop_lag.LoopLag.seconds", lambda _: 0.5)
    client = serve(Server(max_wait_seconds=0.4))
    assert code_of(client.post("/compact", json={"table": "public.events"})) == (503, "overloaded")
    assert client.get("/api/v1/jobs").status_code == 200, "who looks is let in longer"
    monkeypatch.setattr("tidyberg.api.event_loop_lag.LoopLag.seconds", lambda _: 3.0)
    assert code_of(client.get("/api/v1/jobs")) == (503, "overloaded")
    assert client.get("/health/live").status_code == 200
