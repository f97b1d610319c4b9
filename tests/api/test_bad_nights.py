"""Readiness of a service whose store refuses writes, whose catalog is down, or that is stopping."""

import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.builders.served_process import Served, environment, serving
from tests.servers.redis import RedisServer
from tidyberg.testing import Warehouse

PATIENCE_SECONDS = 60


def until(look: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline, words
        time.sleep(0.2)


def is_ready(served: Served) -> bool:
    return httpx.get(f"{served.url}/health/ready", timeout=30).status_code == 200


def store_is_up(served: Served) -> bool:
    return "tidyberg_store_up 1\n" in httpx.get(f"{served.url}/metrics", timeout=30).text


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_store_without_writes_makes_a_replica_unready(
    store: str, warehouse: Warehouse, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A full disk, and a Redis at its memory limit, can still be read."""
    redis: RedisServer | None = request.getfixturevalue("redis_to_kill") if store == "redis" else None
    more = {"REDIS_URL": redis.url} if redis else {}
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline", TIDYBERG_QUEUE__WORKERS="0", **more)
    with serving(environ, cwd=tmp_path) as served:
        until(lambda: store_is_up(served), "it begins well")
        body = {"table": "public.events"}
        job_id = httpx.post(f"{served.url}/compact", json=body, timeout=30).json()["job_id"]
        no_limit = resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE)
        if redis:
            with redis.client() as client:
                client.config_set("maxmemory", "1")
        else:
            resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (1, no_limit[1]))  # no file may grow
        until(lambda: not is_ready(served), "it says that it is ready, and can take no job")
        ready = httpx.get(f"{served.url}/health/ready", timeout=30)
        assert ready.json()["checks"]["store"] != "ok"
        until(lambda: not store_is_up(served), "tidyberg_store_up is 1")
        assert "pending_compactions 1\n" in httpx.get(f"{served.url}/metrics", timeout=30).text, "it can be read"
        assert httpx.get(f"{served.url}/jobs/{job_id}", timeout=30).status_code == 200
        assert httpx.get(f"{served.url}/health/live", timeout=30).status_code == 200
        if redis:
            with redis.client() as client:
                client.config_set("maxmemory", "0")
        else:
            resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, no_limit)
        until(lambda: is_ready(served), "it does not recover")
        until(lambda: store_is_up(served), "tidyberg_store_up stays 0")


def test_replica_stays_ready_without_its_catalog(warehouse: Warehouse, tmp_path: Path) -> None:
    gone = {"CATALOG_URI": "http://127.0.0.1:1/", "TIDYBERG_ENGINE": "inline", "TIDYBERG_QUEUE__WORKERS": "0"}
    with serving(environment(warehouse, tmp_path, **gone), cwd=tmp_path) as served:
        checks = httpx.get(f"{served.url}/health/ready", timeout=30).json()["checks"]
        assert checks["store"] == "ok"
        assert checks["catalog default"] != "ok", "it is said all the same"
        assert httpx.get(f"{served.url}/api/v1/jobs").status_code == 200


def test_stopping_service_becomes_unready_before_it_closes(warehouse: Warehouse, tmp_path: Path) -> None:
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline", TIDYBERG_SERVER__DRAIN_SECONDS="6")
    with serving(environ, "--workers", "1", cwd=tmp_path) as served:
        served.process.send_signal(signal.SIGTERM)
        until(lambda: not is_ready(served), "load balancers would go on sending requests")
        answer = httpx.get(f"{served.url}/health/ready")
        assert answer.json()["checks"]["server"] == "The server is stopping."
        created = httpx.post(f"{served.url}/compact", json={"table": "public.events"})
        assert created.status_code == 202, "requests that still come are answered"
        job = httpx.get(f"{served.url}/jobs/{created.json()['job_id']}").json()
        assert job["status"] == "queued", "it begins nothing new"
        assert served.process.wait(60) == 0
    assert "no longer ready" in served.said


def test_second_signal_stops_the_service_at_once(warehouse: Warehouse, tmp_path: Path) -> None:
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline", TIDYBERG_SERVER__DRAIN_SECONDS="500")
    with serving(environ, cwd=tmp_path) as served:
        served.process.send_signal(signal.SIGTERM)
        until(lambda: not is_ready(served), "it drains")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
