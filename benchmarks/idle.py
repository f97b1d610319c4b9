"""Measures probes and reads while many idle connections are open to `tidyberg serve` with its default limits.

    python -m benchmarks.idle [--connections 2100] [--seconds 30] [--python PATH]

Opens that many idle connections. Then it requests the liveness probe and the list of jobs ten times a second each, on
a new connection each time. Prints how many requests were answered, and how fast.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load import Load, interpreter, quantiles, serving
from tidyberg.testing import Warehouse

PATHS = ("/health/live", "/api/v1/jobs")
EVERY_SECONDS = 0.1


async def ask(url: str, path: str, seconds: float) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    times: list[float] = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        try:
            async with httpx.AsyncClient(timeout=10) as client:
                statuses[str((await client.get(f"{url}{path}")).status_code)] += 1
        except httpx.TransportError as error:
            statuses[type(error).__name__] += 1
        times.append(time.monotonic() - began)
        await asyncio.sleep(max(0.0, EVERY_SECONDS - times[-1]))
    return {"statuses": dict(statuses), "milliseconds": quantiles(times)}


async def ask_all(url: str, seconds: float) -> dict[str, Any]:
    found = await asyncio.gather(*(ask(url, path, seconds) for path in PATHS))
    return dict(zip(PATHS, found, strict=True))


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--connections", type=int, default=2100)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--python", type=interpreter, default=sys.executable, help=interpreter.__doc__)
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        warehouse = stack.enter_context(Warehouse(directory / "lab", "default"))
        _, port = stack.enter_context(serving(directory, warehouse, Load(workers=0, python=given.python), None))
        idle: list[socket.socket] = []
        for _ in range(given.connections):
            with suppress(OSError):
                idle.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
        answers = asyncio.run(ask_all(f"http://127.0.0.1:{port}", given.seconds))
        left = sum(map(is_open, idle))
        print(json.dumps({"opened": len(idle), "open_afterwards": left, **answers}, indent=2))


if __name__ == "__main__":
    main()
