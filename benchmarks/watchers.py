"""Measures one tenant's reads while other clients hold many event streams and idle connections to `tidyberg serve`.

    python -m benchmarks.watchers [--streams 2000] [--idle 0] [--seconds 10] [--jobs 20] [--store sqlite|redis]
                                  [--python PATH]

Prints the failures, p50 and p99 of the reads, without and with the other clients. `--python` names the interpreter of
another environment; then the tidyberg in it is measured.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.servers.redis import RedisServer
from tests.servers.server import free_port

from benchmarks.load import START_SECONDS, interpreter, is_ready
from tidyberg.settings.access import hash_key
from tidyberg.testing import Warehouse

KEYS = {"crowd": "tdb_" + "c" * 40, "other": "tdb_" + "o" * 40}
# An older version does not have all of these settings.
SERVER_SETTINGS = "from tidyberg.settings.serving import Server; print(*Server.model_fields)"
READS_PER_SECOND = 50
READERS = 10
REFUSED_FOR_NOW = ("429", "503", "closed")
OPEN_SECONDS = 60  # for all streams together


def settings(warehouse: Warehouse, directory: Path, redis_url: str | None, streams: int, python: str) -> dict[str, Any]:
    keys = [{"name": name, "hash": hash_key(key), "role": "operator", "tenant": name} for name, key in KEYS.items()]
    limits = {"max_streams": streams, "max_streams_per_principal": streams}
    wanted: dict[str, Any] = {
        "engine": "inline",
        "catalog": warehouse.properties,
        "store": {"url": redis_url} if redis_url else {"path": str(directory / "jobs.db")},
        "server": {"max_connections": 8000, "max_connections_per_address": 8000, "requests_per_second": 10_000}
        | limits,
        "access": {"api_keys": keys},
        "tenants": {name: {"namespaces": [name]} for name in KEYS},
        "queue": {"workers": 0},
    }
    known = subprocess.run([python, "-c", SERVER_SETTINGS], capture_output=True, text=True, check=True).stdout.split()
    wanted["server"] = {name: value for name, value in wanted["server"].items() if name in known}
    return wanted


def headers(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[name]}"}


async def read(port: int, path: str, seconds: float) -> tuple[Counter[int], list[float]]:
    """Reads at fixed times, like a client that does not wait for others."""
    statuses: Counter[int] = Counter()
    times: list[float] = []
    limits = httpx.Limits(max_connections=READERS)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, limits=limits) as client:

        async def one(due: float) -> None:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            try:
                statuses[(await client.get(path, headers=headers("other"))).status_code] += 1
            except httpx.TransportError:
                statuses[0] += 1
            times.append(time.monotonic() - due)

        start = time.monotonic()
        await asyncio.gather(*(one(start + n / READS_PER_SECOND) for n in range(round(seconds * READS_PER_SECOND))))
    return statuses, sorted(times)


async def stream(port: int, job_id: str, opened: Counter[str], give_up: float) -> None:
    """Opens a stream, and retries if it is refused for the moment, as clients do."""
    while (status := await try_stream(port, job_id, opened)) in REFUSED_FOR_NOW and time.monotonic() < give_up:
        opened["refused for now"] += 1
        await asyncio.sleep(1)
    opened[status] += status != "200"


async def try_stream(port: int, job_id: str, opened: Counter[str]) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"GET /api/v1/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{head}Authorization: Bearer {KEYS['crowd']}\r\n\r\n".encode())
        line = (await reader.readline()).split()
        status = line[1].decode() if len(line) > 1 else "closed"
        if status == "200":
            opened[status] += 1
            while await reader.read(65536):
                opened["pieces"] += 1
        return status
    finally:
        writer.close()


async def measure(port: int, jobs: list[str], streams: int, idle: int, seconds: float) -> dict[str, Any]:
    path = "/api/v1/jobs?limit=5"
    alone = await read(port, path, seconds)
    opened: Counter[str] = Counter()
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(idle)]
    began = time.monotonic()
    crowd = [
        asyncio.create_task(stream(port, jobs[n % len(jobs)], opened, began + OPEN_SECONDS)) for n in range(streams)
    ]
    while opened["200"] < streams and time.monotonic() < began + OPEN_SECONDS:
        await asyncio.sleep(0.05)
    opening = time.monotonic() - began
    beside = await read(port, path, seconds)
    live = httpx.get(f"http://127.0.0.1:{port}/health/live", timeout=10).status_code
    for task in crowd:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*crowd, return_exceptions=True)
    for _, writer in silent:
        writer.close()
    return {
        "streams": dict(opened),
        "seconds_to_open": round(opening, 2),
        "liveness": live,
        "reads_alone": described(*alone),
        "reads_beside": described(*beside),
    }


def described(statuses: Counter[int], times: list[float]) -> dict[str, Any]:
    return {
        "statuses": dict(statuses),
        "p50_ms": round(1000 * times[len(times) // 2], 1),
        "p99_ms": round(1000 * times[int(0.99 * len(times))], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="redis")
    parser.add_argument("--python", type=interpreter, default=sys.executable, help=interpreter.__doc__)
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(directory)) if given.store == "redis" else None
        warehouse = stack.enter_context(Warehouse(directory / "lab", "default"))
        for name in KEYS:
            warehouse.append_files(warehouse.create_table(f"{name}.events"), 5, 20)
        config = directory / "tidyberg.yaml"
        url = redis.url if redis else None
        config.write_text(yaml.safe_dump(settings(warehouse, directory, url, given.streams, given.python)))
        port = free_port()
        command = [given.python, "-c", "from tidyberg.cli.main import run; run()", "serve", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--config", str(config)], env={**os.environ, "TIDYBERG_HOME": str(directory)}, cwd=directory,
            stdout=subprocess.DEVNULL, stderr=(directory / "serve.log").open("wb"),
        )  # fmt: skip
        stack.callback(process.wait)
        stack.callback(process.kill)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while not is_ready(url):
            assert process.poll() is None, (directory / "serve.log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        jobs = []
        for name, count in (("other", 5), ("crowd", given.jobs)):
            for _ in range(count):
                body = {"table": f"{name}.events"}
                answer = httpx.post(f"{url}/api/v1/compact", json=body, headers=headers(name), timeout=30)
                jobs.append(answer.json()["job_id"])
        print(json.dumps(asyncio.run(measure(port, jobs[5:], given.streams, given.idle, given.seconds)), indent=2))


if __name__ == "__main__":
    main()
