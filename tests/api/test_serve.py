"""Runs `tidyberg serve` as a process and calls it with curl."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidyberg.cli.main import app, main
from tidyberg.testing import Warehouse

START_SECONDS = 120


class Served:
    """A serving process. `said` is its output so far."""

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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


def curl(*arguments: str) -> Any:
    ran = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def first_compaction(served: Served) -> dict[str, Any]:
    """Submits a job and polls it until it has ended, as in the contract."""
    created = curl(
        "-X",
        "POST",
        f"{served.url}/api/v1/compact",
        "-H",
        "Content-Type: application/json",
        "-d",
        """{
    "catalog": "default",
    "namespace": "public",
    "table": "events",
    "strategy": "small_files"
  }""",
    )
    assert created["status"] == "queued"
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        job: dict[str, Any] = curl(f"{served.url}/api/v1/jobs/{created['job_id']}")
        if job["status"] not in ("queued", "running"):
            return job
        time.sleep(0.2)
    raise AssertionError(f"it did not end: {job}")


@pytest.mark.spark
@pytest.mark.slow
def test_the_first_compaction_works_with_no_configuration_but_a_catalog(warehouse: Warehouse, tmp_path: Path) -> None:
    table = warehouse.catalog.load_table("public.events")
    rows = warehouse.rows(table)
    with serving(environment(warehouse, tmp_path), cwd=tmp_path) as served:
        job = first_compaction(served)
        assert served.end() == 0, served.said
    assert (job["status"], job["outcome"]) == ("succeeded", "committed"), job
    assert (job["stats"]["files_before"], job["stats"]["files_after"]) == (12, 1)
    assert job["progress"]["files_processed"] == 12
    assert warehouse.rows(table.refresh()) == rows


def test_service_prints_its_address_runs_jobs_and_stops_cleanly(warehouse: Warehouse, tmp_path: Path) -> None:
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline")
    with serving(environ, cwd=tmp_path) as served:
        job = first_compaction(served)
        assert job["outcome"] == "committed"
        events = httpx.get(f"{served.url}/api/v1/jobs/{job['job_id']}/events").text
        assert "event: stage" in events
        assert events.endswith('event: end\ndata: {"status": "succeeded"}\n\n')
        metrics = httpx.get(f"{served.url}/metrics").text
        assert re.search(r'http_requests_total\{.*route="/compact".*\} 1\b', metrics), metrics
        assert served.end(signal.SIGINT) == 0, served.said
    assert "listening on http://127.0.0.1:" in served.said
    assert re.search(r"curl -X POST http://127.0.0.1:\d+/api/v1/compact ", served.said)
    assert "stopped" in served.said
    assert "Traceback" not in served.said


def test_open_streams_do_not_block_the_stop(warehouse: Warehouse, tmp_path: Path) -> None:
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline")
    with serving(environ, "--workers", "0", "--log-json", cwd=tmp_path) as served:
        body = {"table": "public.events"}
        job_id = httpx.post(f"{served.url}/compact", json=body).json()["job_id"]
        with httpx.stream("GET", f"{served.url}/jobs/{job_id}/events", timeout=60) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            assert served.end() == 0, served.said
    assert "timeout graceful shutdown exceeded" not in served.said
    for line in served.said.splitlines():
        assert json.loads(line)


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--host", "0.0.0.0"], {}, "access.api_keys"),
        ([], {"TIDYBERG_SERVER__HOST": "::"}, "TIDYBERG_INSECURE=1"),
        ([], {"CATALOG_URI": ""}, "No catalog is configured"),
        (["--port", "{busy}"], {}, "Address already in use"),
        (["--host", "no.such.host.invalid", "--insecure"], {}, "Cannot listen on no.such.host.invalid"),
    ],
)
def test_startup_errors_are_one_message(
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    variables: dict[str, str],
    words: str,
) -> None:
    for name, value in {**environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline"), **variables}.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        given = [argument.format(busy=busy.getsockname()[1]) for argument in arguments]
        status = main(app, ["serve", *given])
    said = capsys.readouterr().err
    assert status == 2, said
    assert said.startswith("error: ")
    assert words in said


def test_open_address_needs_a_flag_and_logs_a_warning(warehouse: Warehouse, tmp_path: Path) -> None:
    environ = environment(warehouse, tmp_path, TIDYBERG_ENGINE="inline", TIDYBERG_INSECURE="1")
    with serving(environ, "--host", "0.0.0.0", cwd=tmp_path) as served:
        pass
    assert "no authentication is configured" in served.said
