"""Runs `tidyberg serve` as a process and calls it with curl."""

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders.served_process import START_SECONDS, Served, environment, serving
from tidyberg.cli.main import app, main
from tidyberg.testing import Warehouse


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
