"""Runs the examples of docs/api.md unchanged."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import settings_of
from tidyberg import errors
from tidyberg.api import refusals
from tidyberg.settings.settings import Settings
from tidyberg.testing import Warehouse

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
SERVICE = "http://localhost:8080"


def commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [
        command.strip()
        for block in blocks
        for command in re.split(r"^(?=curl )", block, flags=re.MULTILINE)
        if command.strip()
    ]


def run(command: str, variables: dict[str, str]) -> str:
    """Returns the output, with the status on the last line."""
    asked = command.replace("curl ", "curl -sS -w '\\n%{http_code}' ", 1)
    ran = subprocess.run(["sh", "-c", asked], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stderr}"
    return ran.stdout


@pytest.fixture
def settings(warehouse: Warehouse, tmp_path: Path) -> Settings:
    scheduler = {"auto": {"max_dollars_per_day": 5.0}, "events": {"enabled": True}}
    switched_on = {"operations": {"enabled": True}, "scheduler": scheduler}
    return Settings.model_validate({**settings_of(warehouse, tmp_path).model_dump(exclude_unset=True), **switched_on})


def test_every_example_works_and_every_operation_has_one(client: httpx.Client) -> None:
    address = str(client.base_url).rstrip("/")
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "JOB": "", "PLAN": ""}
    asked = set()
    for command in commands():
        if "/events" in command:
            client.delete(f"/jobs/{variables['JOB']}")  # no worker runs the job; the stream ends with it
        answer, _, status = run(command.replace(SERVICE, address), variables).rpartition("\n")
        assert status in ("200", "201", "202", "204"), f"{command}: {answer}"
        if "job_id" in answer and "POST" in command:
            variables["JOB"] = json.loads(answer)["job_id"]
        if "plan_hash" in answer and "POST" in command:
            variables["PLAN"] = json.loads(answer)["plan_hash"]
        asked.add(_operation(command))
    document: dict[str, Any] = client.get("/openapi.json").json()
    known = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    shown = {(method, path) for method, path in known if any(_matches(path, method, one) for one in asked)}
    assert known - shown == set()


def _operation(command: str) -> tuple[str, str]:
    method = re.search(r"-X (\w+)", command)
    path = re.search(rf"{SERVICE}([^\s\"?]*)", command)
    assert path is not None, command
    return method[1] if method else "GET", path[1]


def _matches(path: str, method: str, asked: tuple[str, str]) -> bool:
    return method == asked[0] and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), asked[1]) is not None


def codes(module: Any) -> Iterator[str]:
    for one in vars(module).values():
        if isinstance(one, type) and issubclass(one, errors.TidybergError):
            yield one.code


def test_every_error_code_is_documented() -> None:
    text = PAGE.read_text()
    of_clients = {"service-unreachable"}
    missing = {code for code in {*codes(errors), *codes(refusals)} - of_clients if f"`{code}`" not in text}
    assert missing == set()
