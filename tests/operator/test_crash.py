"""The operator is killed in the middle of its work. The next one finishes it."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI, Request, Response

from tests.builders.api import serving
from tests.operator.cluster import Cluster, is_ready
from tests.operator.conftest import OperatorProcess, StartOperator
from tidyberg.api.app import create_app
from tidyberg.app import build_service
from tidyberg.client import Client
from tidyberg.settings.settings import Settings

POLICIES = "compactionpolicies"
SPEC = {"table": "public.events", "schedule": "0 3 * * *"}


class Killer:
    """Kills the operator when it sends a request of this method, before or after the service handles it."""

    def __init__(self) -> None:
        self.method: str | None = None
        self.before = False
        self.victim: OperatorProcess | None = None

    async def __call__(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.method != self.method or self.victim is None:
            return await call_next(request)
        victim, self.victim = self.victim, None
        response = None if self.before else await call_next(request)
        victim.kill()
        await asyncio.to_thread(victim.wait)
        return Response(status_code=500) if response is None else response


@contextmanager
def service_that_kills(settings: Settings) -> Iterator[tuple[str, Killer]]:
    killer = Killer()
    app: FastAPI = create_app(service := build_service(settings))
    app.middleware("http")(killer)
    try:
        with serving(app) as address:
            yield address, killer
    finally:
        service.stop()


ONLY_LONG = pytest.mark.skipif("TEST_LONG" not in os.environ, reason="make test-long also kills it before a save")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(True, id="before the service saved", marks=ONLY_LONG),
        pytest.param(False, id="after the service saved"),
    ],
)
def test_a_crash_while_a_policy_is_created_changed_and_deleted(
    before: bool, cluster: Cluster, service_settings: Settings, start_operator: StartOperator
) -> None:
    name = f"crash-{'before' if before else 'after'}"
    schedule_id = f"kubernetes_compact_lake_{name}"
    with service_that_kills(service_settings) as (url, killer), Client(url) as client:
        killer.before = before

        def killed_at(method: str) -> None:
            with start_operator(url) as process:
                killer.method, killer.victim = method, process
                process.wait()

        def schedules() -> list[str]:
            return [one.cron for one in client.schedules() if one.schedule_id == schedule_id]

        cluster.create(POLICIES, name, SPEC)
        killed_at("PUT")
        assert schedules() == ([] if before else [SPEC["schedule"]])
        assert cluster.status(POLICIES, name) == {}
        with start_operator(url):
            cluster.until(POLICIES, name, is_ready)
        assert schedules() == [SPEC["schedule"]]

        cluster.change(POLICIES, name, {"schedule": "0 4 * * *"})
        killed_at("PUT")
        assert schedules() == [SPEC["schedule"] if before else "0 4 * * *"]
        assert cluster.status(POLICIES, name)["observedGeneration"] == 1
        with start_operator(url):
            cluster.until(POLICIES, name, lambda status: status["observedGeneration"] == 2)
        assert schedules() == ["0 4 * * *"]

        cluster.delete(POLICIES, name)
        killed_at("DELETE")
        assert schedules() == (["0 4 * * *"] if before else [])
        cluster.check_marked(POLICIES, name)  # the finalizer kept it
        with start_operator(url):
            cluster.until_gone(POLICIES, name)
        assert schedules() == []
