"""API keys are reloaded while the service runs, but never removed completely."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.builders.served_process import Served, environment, serving
from tidyberg.settings.access import hash_key
from tidyberg.testing import Warehouse

OLD, NEW = "tdb_the-old-key", "tdb_the-new-key"


def settings_with(*keys: str) -> str:
    entries = "".join(
        f"    - {{name: key-{number}, hash: '{hash_key(key)}', role: admin}}\n" for number, key in enumerate(keys)
    )
    return f"engine: inline\naccess:\n  api_keys:{' []' if not keys else ''}\n{entries}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "tidyberg.yaml"
    file.write_text(settings_with(OLD))
    return file


@pytest.fixture
def served(tmp_path: Path, file: Path) -> Iterator[Served]:
    with (
        Warehouse(tmp_path / "lab") as warehouse,
        serving(environment(warehouse, tmp_path), "--config", str(file), cwd=tmp_path) as served,
    ):
        yield served


def status(served: Served, key: str | None) -> int:
    headers = {} if key is None else {"X-API-Key": key}
    return httpx.get(f"{served.url}/api/v1/jobs", headers=headers).status_code


def eventually(check: Callable[[], bool], served: Served) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, served.said
        time.sleep(0.1)


def test_keys_are_replaced_without_a_restart(served: Served, file: Path) -> None:
    assert (status(served, OLD), status(served, NEW), status(served, None)) == (200, 401, 401)
    assert "curl -H 'Authorization: Bearer …' http" in served.said, "the lines to try have the header of a key"
    file.write_text(settings_with(OLD, NEW))
    eventually(lambda: status(served, NEW) == 200, served)
    assert status(served, OLD) == 200, "while it is handed out both count"
    file.write_text(settings_with(NEW))
    eventually(lambda: status(served, OLD) == 401, served)
    assert status(served, NEW) == 200
    assert "API keys were reloaded: added key-1" in served.said

    file.write_text("access: {api_keys: [{name: x")
    served.process.send_signal(signal.SIGHUP)
    eventually(lambda: "API keys are unchanged, because the settings cannot be read" in served.said, served)
    file.write_text(settings_with())
    eventually(lambda: "the service would not require authentication" in served.said, served)
    assert (status(served, NEW), status(served, OLD), status(served, None)) == (200, 401, 401)
    for secret in (OLD, NEW, hash_key(NEW)):
        assert secret not in served.said
