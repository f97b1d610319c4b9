"""`tidyberg serve` in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.servers.server import free_port
from tidyberg.testing import Warehouse

START_SECONDS = 120


class Served:
    """A process that serves the API. `said` holds what it has written to stderr so far."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.url = f"http://localhost:{port}"
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self._reader.join()
        return status

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health/ready").status_code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError(f"not ready: {self.said}")


def environment(warehouse: Warehouse, tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDYBERG_", "CATALOG_"))}
    return {
        **kept,
        "CATALOG_URI": warehouse.properties["uri"],
        "CATALOG_WAREHOUSE": warehouse.properties["warehouse"],
        "TIDYBERG_HOME": str(tmp_path / "state"),
        "TIDYBERG_SERVER__DRAIN_SECONDS": "0",
        "TIDYBERG_SERVER__MAX_WAIT_SECONDS": "60",
        **more,
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from tidyberg.cli.main import run; run()", "serve", *arguments]


@contextmanager
def serving(environ: dict[str, str], *arguments: str, cwd: Path) -> Iterator[Served]:
    port = free_port()
    process = subprocess.Popen(
        command("--port", str(port), *arguments), env=environ, cwd=cwd, stderr=subprocess.PIPE, text=True
    )
    served = Served(process, port)
    try:
        served.wait_until_ready()
        yield served
    finally:
        served.end(signal.SIGKILL)
        assert process.stderr is not None
        process.stderr.close()
